//! Procedure, graph-wide rules and the five patterns (sections 1 to 4).

use crate::support::rule::{DEFINITION, PATTERN, PERMISSION, RUNTIME, WELL_FORMED, rules};

rules! {
    RUNTIME, "003 Support Surface" {
        V_01 = "V-01", "graph", DEFINITION, "three independent surfaces; a graph is legal if every rule of one of them holds, rules are never mixed";
        V_02 = "V-02", "graph", DEFINITION, "surfaces are tried in the order 90, 80, 70; the first that holds is taken";
    }
    RUNTIME, "003 Operation Specific Constraints for the Runtime Fusion Engines" {
        V_03 = "V-03", "graph", DEFINITION, "operation-specific constraints come on top of the surface and descriptor rules";
    }
    RUNTIME, "004 Error Reporting And API Logging; project" {
        V_04 = "V-04", "graph", DEFINITION, "a refusal lists every broken rule, the root cause first";
    }
    RUNTIME, "003 Supported Graph Patterns" {
        V_05 = "V-05", "graph", DEFINITION, "any number of engines may support one graph";
    }
    RUNTIME, "003 Support Surface 90" {
        V_06 = "V-06", "graph", DEFINITION, "recommendations are notes and never change a verdict";
    }
    RUNTIME, "003 Operations and Operation Graphs; 003 Creating Operation and Tensor Descriptors" {
        GR_ACYCLIC = "GR-ACYCLIC", "graph", WELL_FORMED, "data flow by tensor uid has no cycle";
        GR_EDGE_UID = "GR-EDGE-UID", "graph", DEFINITION, "an operation depends on another when it reads a tensor that the other writes";
        GR_INPLACE_MULTI = "GR-INPLACE-MULTI", "graph, several operations", WELL_FORMED, "no operation writes a tensor that it reads";
        GR_INPLACE_SINGLE = "GR-INPLACE-SINGLE", "graph, one operation", PERMISSION, "a graph of one operation may work in place";
        GR_ORDER = "GR-ORDER", "graph", DEFINITION, "the order in which operations are listed has no effect";
        GR_VIRTUAL = "GR-VIRTUAL", "graph", DEFINITION, "a virtual tensor never exists in device memory nor in the variant pack";
    }
    RUNTIME, "project, implied by 002 9.2.16" {
        GR_VIRTUAL_PRODUCER = "GR-VIRTUAL-PRODUCER", "graph", WELL_FORMED, "a virtual tensor is written by exactly one operation";
        GR_ONE_WRITER = "GR-ONE-WRITER", "graph", WELL_FORMED, "a tensor is written by at most one operation";
    }
    RUNTIME, "000 answers 1 and 2; 002 9.2.15, 9.2.16" {
        GR_UID_TYPE = "GR-UID-TYPE", "graph", DEFINITION, "a uid is a signed 64-bit integer";
        GR_UID_SCOPE = "GR-UID-SCOPE", "graph", DEFINITION, "uids are local to one graph";
        GR_UID_UNIQUE = "GR-UID-UNIQUE", "graph", WELL_FORMED, "one uid stands for one tensor: descriptors that share it agree in every attribute";
        GR_NODES = "GR-NODES", "graph", WELL_FORMED, "a graph holds at least one operation";
        GR_CONNECT = "GR-CONNECT", "graph", PERMISSION, "operations need not be connected by virtual tensors";
    }
    RUNTIME, "003 Generic Runtime Fusion Engines; 003 Convolution Producer Node in Middle of DAG" {
        GR_MULTI_OUT = "GR-MULTI-OUT", "g2", PERMISSION, "g2 may have several outputs";
        GR_G2_ENTRY = "GR-G2-ENTRY", "g2", PERMISSION, "the core result may enter any operation of g2; operations on side inputs alone are legal";
    }
    RUNTIME, "002 9.2.16" {
        GR_TENSOR_POS = "GR-TENSOR-POS", "io", WELL_FORMED, "extents and strides are positive; alignment is a multiple of the element size";
    }
    RUNTIME, "003 Executing The Engine" {
        GR_VARPACK = "GR-VARPACK", "graph", DEFINITION, "at execution every non-virtual tensor has one device pointer, matched by uid";
    }
    RUNTIME, "003 Generic Runtime Fusion Engines" {
        PAT_MM = "PAT-MM", "MM", PATTERN, "g2(Matmul(g1A(inputs), g1B(inputs)), inputs)";
        PAT_CF = "PAT-CF", "CF", PATTERN, "g2(ConvolutionFwd(g1(X), W), inputs); W stays bare";
        PAT_CBF = "PAT-CBF", "CBF", PATTERN, "g2(ConvolutionBwdFilter(dy, g1(X)), inputs); dy stays bare";
        PAT_CBD = "PAT-CBD", "CBD", PATTERN, "g2(ConvolutionBwdData(g1(dy), W), inputs); W stays bare";
        PAT_PW = "PAT-PW", "PW", DEFINITION, "g2(inputs), without a matmul or convolution";
        PAT_ONE_CORE = "PAT-ONE-CORE", "graph", PATTERN, "at most one matmul or convolution in a graph";
    }
    RUNTIME, "003 Single Operation; 003 Generic Runtime Fusion Engines" {
        PAT_EMPTY = "PAT-EMPTY", "graph", PERMISSION, "g1 and g2 may be empty";
        PAT_NAMES = "PAT-NAMES", "graph", DEFINITION, "fusions in g1 are mainloop fusions, in g2 epilogue fusions";
    }
    RUNTIME, "003 Mixed Input Precision Matmul and Convolution" {
        PAT_MIXED = "PAT-MIXED", "g1", DEFINITION, "mixed input precision is an IDENTITY in g1 that converts an operand";
    }
    RUNTIME, "003 Summary of Supported Features of Each Support Surface" {
        SUM_CC = "SUM-CC", "graph", DEFINITION, "compute capability at least 9.0, 8.0, 7.0 for surfaces 90, 80, 70";
        SUM_MM = "SUM-MM", "MM", DEFINITION, "matmul fusions: on every surface";
        SUM_CF = "SUM-CF", "CF", DEFINITION, "forward convolution fusions: on every surface";
        SUM_CBF = "SUM-CBF", "CBF", DEFINITION, "backward-filter fusions: 90 and 70";
        SUM_CBD = "SUM-CBD", "CBD", DEFINITION, "backward-data fusions: 90 without stride, and 70";
        SUM_PW = "SUM-PW", "PW", DEFINITION, "pure pointwise and reduction fusions: 70";
        SUM_FP8 = "SUM-FP8", "core", DEFINITION, "FP8 matmul and convolution: 90, and 80 on compute capability 8.9";
        SUM_G1 = "SUM-G1", "g1", DEFINITION, "mainloop fusion: 90 and 80, in part 70";
        SUM_G2 = "SUM-G2", "g2", DEFINITION, "epilogue fusion: on every surface";
        SUM_MIXED = "SUM-MIXED", "g1", DEFINITION, "mixed input precision: 90 and 80";
        SUM_GROUP = "SUM-GROUP", "core", DEFINITION, "grouped convolution: 90 and 80";
    }
}
