//! Mainloop fusions (g1): operations, operands, dims of inputs.

use crate::support::rule::{ARCH, PATTERN, PERMISSION, S70, S80, S90, SHAPE, TYPE, restated, rules};

rules! {
    S90, "003 Support Surface 90, Mainloop Fusions" {
        S90_G1_OPS = "S90-G1-OPS", "g1", PATTERN, "g1 holds Pointwise operations only";
        S90_G1_VIRTUAL = "S90-G1-VIRTUAL", "g1", PATTERN, "every result inside g1 is virtual";
        S90_G1_NO_FIRST_RULE = "S90-G1-NO-FIRST-RULE", "g1", PERMISSION, "a broadcast operand of g1 may be the first input";
    }
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g1" {
        S90_MM_G1_A = "S90-MM-G1-A", "MM core", SHAPE, "A is [B,M,K] or [1,M,K]";
        S90_MM_G1A_DIMS = "S90-MM-G1A-DIMS", "MM g1A", SHAPE, "inputs of g1A are [1,1,1], [B,1,1], [1,M,1], [B,M,1], [1,1,K], [B,1,K], [1,M,K] or [B,M,K]";
        S90_MM_G1_B = "S90-MM-G1-B", "MM core", SHAPE, "B is [B,K,N] or [1,K,N]";
        S90_MM_G1B_DIMS = "S90-MM-G1B-DIMS", "MM g1B", SHAPE, "inputs of g1B are [1,1,1], [B,1,1], [1,1,N], [B,1,N], [1,K,1], [B,K,1], [1,K,N] or [B,K,N]";
        S90_CF_G1_X = "S90-CF-G1-X", "CF core", SHAPE, "X is [N,C,DHW]";
        S90_CF_G1_DIMS = "S90-CF-G1-DIMS", "CF g1", SHAPE, "inputs of g1 are [1,1,1s], [1,C,1s] or [N,C,DHW]";
        S90_CF_G1_GROUP = "S90-CF-G1-GROUP", "CF g1, grouped", SHAPE, "no input of g1 is [1,C,1s]";
        S90_CF_G1_W = "S90-CF-G1-W", "CF core", SHAPE, "W is [K,C,TRS]";
        S90_CBF_G1_DY = "S90-CBF-G1-DY", "CBF core", SHAPE, "dy is [N,K,OPQ]";
        S90_CBF_G1_X = "S90-CBF-G1-X", "CBF core", SHAPE, "X is [N,C,DHW]";
        S90_CBF_G1_NONE = "S90-CBF-G1-NONE", "CBF g1", PATTERN, "no operation before the convolution (g1 is empty)";
        S90_CBD_G1_DY = "S90-CBD-G1-DY", "CBD core", SHAPE, "dy is [N,K,OPQ]";
        S90_CBD_G1_DIMS = "S90-CBD-G1-DIMS", "CBD g1", SHAPE, "inputs of g1 are [1,1,1s], [1,K,1s] or [N,K,OPQ]";
        S90_CBD_G1_W = "S90-CBD-G1-W", "CBD core", SHAPE, "W is [K,C,TRS]";
    }
    S80, "003 Support Surface 80, Mainloop Fusions" {
        S80_G1_OPS = "S80-G1-OPS" as S90_G1_OPS;
        S80_G1_VIRTUAL = "S80-G1-VIRTUAL" as S90_G1_VIRTUAL;
        S80_G1_NO_FIRST_RULE = "S80-G1-NO-FIRST-RULE" as S90_G1_NO_FIRST_RULE;
    }
    S80, "003 Support Surface 80, Support Surface of Dimension and Layout for Tensors in g1" {
        S80_MM_G1_A = "S80-MM-G1-A" as S90_MM_G1_A;
        S80_MM_G1A_DIMS = "S80-MM-G1A-DIMS" as S90_MM_G1A_DIMS;
        S80_MM_G1_B = "S80-MM-G1-B" as S90_MM_G1_B;
        S80_MM_G1B_DIMS = "S80-MM-G1B-DIMS" as S90_MM_G1B_DIMS;
        S80_CF_G1_X = "S80-CF-G1-X" as S90_CF_G1_X;
        S80_CF_G1_DIMS = "S80-CF-G1-DIMS" as S90_CF_G1_DIMS;
        S80_CF_G1_GROUP = "S80-CF-G1-GROUP" as S90_CF_G1_GROUP;
        S80_CF_G1_W = "S80-CF-G1-W" as S90_CF_G1_W;
    }
    S70, "003 Support Surface 70, Mainloop Fusions" {
        S70_G1_OPS = "S70-G1-OPS", "g1", PATTERN, "g1 holds Pointwise, Concat and Signal operations only";
        S70_G1_ORDER = "S70-G1-ORDER", "g1", PATTERN, "Concat and Signal before any Pointwise of g1";
        S70_G1_CC = "S70-G1-CC", "g1", ARCH, "g1 is empty below compute capability 8.0";
        S70_G1_VIRTUAL = "S70-G1-VIRTUAL" as S90_G1_VIRTUAL;
        S70_G1_BCAST_FIRST = "S70-G1-BCAST-FIRST", "g1 Pointwise", SHAPE, "the first input is not broadcast";
    }
    S70, "003 Support Surface 70, Support Surface of Dimension and Layout for Tensors in g1" {
        S70_MM_G1_A = "S70-MM-G1-A", "MM g1A", SHAPE, "A is [B,M,K] and the first input of every operation it takes part in";
        S70_MM_G1_A_HALF = "S70-MM-G1-A-HALF", "MM g1A", TYPE, "A is HALF where g1A is not empty";
        S70_MM_G1A_DIMS = "S70-MM-G1A-DIMS", "MM g1A", SHAPE, "other inputs of g1A are [1,1,1], [B,M,1], [B,1,K] or [B,M,K]";
        S70_MM_G1A_FULL_HALF = "S70-MM-G1A-FULL-HALF", "MM g1A", TYPE, "another input of dims [B,M,K] is HALF";
        S70_MM_G1_B = "S70-MM-G1-B", "MM core", SHAPE, "B is [B,K,N]";
        S70_MM_G1B_NONE = "S70-MM-G1B-NONE", "MM g1B", PATTERN, "no operation on B before the matmul (g1B is empty)";
        S70_CF_G1_X = "S70-CF-G1-X", "CF g1", SHAPE, "X is [N,C,DHW] and the first input of every operation of g1";
        S70_CF_G1_W = "S70-CF-G1-W" as S90_CF_G1_W;
        S70_CONV_G1_CHAIN = "S70-CONV-G1-CHAIN", "CF, CBF g1", PATTERN, "MUL, ADD and RELU_FWD in this order before the convolution, or no Pointwise at all";
        S70_CONV_G1_HALF = "S70-CONV-G1-HALF", "CF, CBF g1", TYPE, "every tensor of the chain is HALF";
        S70_CONV_G1_OPERAND = "S70-CONV-G1-OPERAND", "CF, CBF g1", SHAPE, "the operands of MUL and ADD are [1,C,1s]";
        S70_CBF_G1_DY = "S70-CBF-G1-DY" as S90_CBF_G1_DY;
        S70_CBF_G1_X = "S70-CBF-G1-X", "CBF g1", SHAPE, "X is [N,C,DHW] and the first input of every operation of g1";
        S70_CBD_G1_DY = "S70-CBD-G1-DY" as S90_CBD_G1_DY;
        S70_CBD_G1_W = "S70-CBD-G1-W" as S90_CBD_G1_W;
        S70_CBD_G1_NONE = "S70-CBD-G1-NONE", "CBD g1", PATTERN, "no operation before the convolution (g1 is empty)";
    }
    S70, "003 Support Surface 70, Mainloop Fusions and Epilogue Fusion" {
        OP_CAT_STAGE = "OP-CAT-STAGE", "Concat", restated("S70-G2-OPS"), "in g1 before every Pointwise";
        OP_SIG_STAGE = "OP-SIG-STAGE", "Signal", restated("S70-G2-SIGNAL-FINAL"), "in g1 before every Pointwise, in g2 last and without Reduction";
    }
}
