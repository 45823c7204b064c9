//! Epilogue fusion (g2): operations, their order, dims of inputs and outputs.

use crate::support::rule::{ARCH, PATTERN, S70, S80, S90, SHAPE, rules};

rules! {
    S90, "003 Support Surface 90, Epilogue Fusion" {
        S90_G2_OPS = "S90-G2-OPS", "g2", PATTERN, "g2 holds Pointwise operations and at most one Reduction";
        S90_G2_RED_EXIT = "S90-G2-RED-EXIT", "g2", PATTERN, "no operation reads the result of a Reduction";
        S90_G2_BCAST_FIRST = "S90-G2-BCAST-FIRST", "g2 Pointwise", SHAPE, "the first input is not broadcast";
    }
    S90, "003 Support Surface 90, Support Surface of Dimension and Layout for Tensors in g2" {
        S90_MM_G2_C = "S90-MM-G2-C", "MM g2", SHAPE, "C is [B,M,N] and the first input of every operation where it meets a side input";
        S90_MM_G2_DIMS = "S90-MM-G2-DIMS", "MM g2", SHAPE, "side inputs are [1,1,1], [B,1,1], [1,M,1], [B,M,1], [1,1,N], [B,1,N], [1,M,N] or [B,M,N]";
        S90_MM_G2_OUT = "S90-MM-G2-OUT", "MM g2", SHAPE, "outputs are [B,M,N]";
        S90_MM_G2_RED = "S90-MM-G2-RED", "MM g2 Reduction", SHAPE, "its result is [1,1,1], [B,1,1], [1,M,1], [B,M,1], [1,1,N], [B,1,N] or [1,M,N]";
        S90_CF_G2_Y = "S90-CF-G2-Y", "CF g2", SHAPE, "Y is [N,K,OPQ] and the first input of every operation where it meets a side input";
        S90_CF_G2_DIMS = "S90-CF-G2-DIMS", "CF g2", SHAPE, "side inputs are [1,1,1s], [N,1,OPQ], [1,K,1s] or [N,K,OPQ]";
        S90_CF_G2_OUT = "S90-CF-G2-OUT", "CF g2", SHAPE, "outputs are [N,K,OPQ]";
        S90_CF_G2_RED = "S90-CF-G2-RED", "CF g2 Reduction", SHAPE, "its result is [1,1,1s], [N,1,OPQ], [1,K,1s], [N,K,1s] or [N,1,1s]";
        S90_CF_G2_GROUP_RED = "S90-CF-G2-GROUP-RED", "CF g2, grouped", PATTERN, "no Reduction";
        S90_CBF_G2_DW = "S90-CBF-G2-DW", "CBF g2", SHAPE, "dw is [K,C,TRS] and the first input of every operation where it meets a side input";
        S90_CBF_G2_DIMS = "S90-CBF-G2-DIMS", "CBF g2", SHAPE, "side inputs are [1,1,1s], [1,C,TRS], [K,1,1s] or [K,C,TRS]";
        S90_CBF_G2_OUT = "S90-CBF-G2-OUT", "CBF g2", SHAPE, "outputs are [K,C,TRS]";
        S90_CBF_G2_RED = "S90-CBF-G2-RED", "CBF g2 Reduction", SHAPE, "its result is [1,1,1s], [1,C,TRS] or [K,1,1s]";
        S90_CBF_G2_GROUP_RED = "S90-CBF-G2-GROUP-RED", "CBF g2, grouped", PATTERN, "no Reduction";
        S90_CBD_G2_DX = "S90-CBD-G2-DX", "CBD g2", SHAPE, "dx is [N,C,DHW]";
        S90_CBD_G2_DIMS = "S90-CBD-G2-DIMS", "CBD g2", SHAPE, "side inputs are [1,1,1s], [N,1,DHW], [1,C,1s] or [N,C,DHW]";
        S90_CBD_G2_OUT = "S90-CBD-G2-OUT", "CBD g2", SHAPE, "outputs are [N,C,DHW]";
        S90_CBD_G2_RED = "S90-CBD-G2-RED", "CBD g2 Reduction", SHAPE, "its result is [1,1,1s], [N,1,DHW], [1,C,1s], [N,C,1s] or [N,1,1s]";
        S90_CBD_G2_GROUP_NONE = "S90-CBD-G2-GROUP-NONE", "CBD g2, grouped", PATTERN, "g2 is empty";
    }
    S80, "003 Support Surface 80, Epilogue Fusion" {
        S80_G2_OPS = "S80-G2-OPS" as S90_G2_OPS;
        S80_G2_RED_EXIT = "S80-G2-RED-EXIT" as S90_G2_RED_EXIT;
        S80_G2_BCAST_FIRST = "S80-G2-BCAST-FIRST" as S90_G2_BCAST_FIRST;
    }
    S80, "003 Support Surface 80, Support Surface of Dimension and Layout for Tensors in g2" {
        S80_MM_G2_C = "S80-MM-G2-C" as S90_MM_G2_C;
        S80_MM_G2_DIMS = "S80-MM-G2-DIMS" as S90_MM_G2_DIMS;
        S80_MM_G2_OUT = "S80-MM-G2-OUT" as S90_MM_G2_OUT;
        S80_MM_G2_RED = "S80-MM-G2-RED" as S90_MM_G2_RED;
        S80_CF_G2_Y = "S80-CF-G2-Y" as S90_CF_G2_Y;
        S80_CF_G2_DIMS = "S80-CF-G2-DIMS" as S90_CF_G2_DIMS;
        S80_CF_G2_OUT = "S80-CF-G2-OUT" as S90_CF_G2_OUT;
        S80_CF_G2_RED = "S80-CF-G2-RED", "CF g2 Reduction", SHAPE, "its result is [1,1,1s], [N,1,OPQ], [1,K,1s] or [N,1,1s]";
        S80_CF_G2_GROUP_RED = "S80-CF-G2-GROUP-RED" as S90_CF_G2_GROUP_RED;
    }
    S70, "003 Support Surface 70, Epilogue Fusion" {
        S70_G2_OPS = "S70-G2-OPS", "g2", PATTERN, "g2 holds Pointwise, ResampleFwd, ResampleBwd, GenStats and Signal operations and at most one Reduction";
        S70_G2_RED_EXIT = "S70-G2-RED-EXIT" as S90_G2_RED_EXIT;
        S70_G2_SIGNAL_FINAL = "S70-G2-SIGNAL-FINAL", "g2", PATTERN, "only Signal operations follow a Signal";
        S70_G2_SIGNAL_NO_RED = "S70-G2-SIGNAL-NO-RED", "g2", PATTERN, "Signal and Reduction do not meet in one g2";
        S70_G2_RES_INPUT = "S70-G2-RES-INPUT", "g2 Resample", PATTERN, "a resample reads device memory, not a result of the graph";
        S70_G2_RES_PATTERN = "S70-G2-RES-PATTERN", "MM, CBF, CBD g2", PATTERN, "no resample beside a matmul or a backward convolution";
        S70_G2_RES_CC = "S70-G2-RES-CC", "g2 Resample", ARCH, "compute capability 7.5 or later";
        S70_G2_BCAST_FIRST = "S70-G2-BCAST-FIRST" as S90_G2_BCAST_FIRST;
    }
    S70, "003 Support Surface 70, Support Surface of Dimension and Layout for Tensors in g2" {
        S70_MM_G2_C = "S70-MM-G2-C" as S90_MM_G2_C;
        S70_MM_G2_DIMS = "S70-MM-G2-DIMS", "MM g2", SHAPE, "side inputs are [1,1,1], [B,M,1], [B,1,N] or [B,M,N]";
        S70_MM_G2_OUT = "S70-MM-G2-OUT" as S90_MM_G2_OUT;
        S70_MM_G2_RED = "S70-MM-G2-RED", "MM g2 Reduction", SHAPE, "its result is [1,1,1], [B,M,1] or [B,1,N]";
        S70_CF_G2_Y = "S70-CF-G2-Y" as S90_CF_G2_Y;
        S70_CF_G2_DIMS = "S70-CF-G2-DIMS" as S90_CF_G2_DIMS;
        S70_CF_G2_OUT = "S70-CF-G2-OUT" as S90_CF_G2_OUT;
        S70_CF_G2_RED = "S70-CF-G2-RED", "CF g2 Reduction", SHAPE, "its result is [1,1,1s], [N,1,OPQ] or [1,K,1s]";
        S70_CBF_G2_DW = "S70-CBF-G2-DW" as S90_CBF_G2_DW;
        S70_CBF_G2_DIMS = "S70-CBF-G2-DIMS" as S90_CBF_G2_DIMS;
        S70_CBF_G2_OUT = "S70-CBF-G2-OUT" as S90_CBF_G2_OUT;
        S70_CBF_G2_RED = "S70-CBF-G2-RED" as S90_CBF_G2_RED;
        S70_CBD_G2_DX = "S70-CBD-G2-DX", "CBD g2", SHAPE, "dx is [N,C,DHW] and the first input of every operation where it meets a side input";
        S70_CBD_G2_DIMS = "S70-CBD-G2-DIMS" as S90_CBD_G2_DIMS;
        S70_CBD_G2_OUT = "S70-CBD-G2-OUT" as S90_CBD_G2_OUT;
        S70_CBD_G2_RED = "S70-CBD-G2-RED", "CBD g2 Reduction", SHAPE, "its result is [1,1,1s], [N,1,DHW] or [1,C,1s]";
    }
}
