//! Numbers of the ABI that forwarding looks at; all others go through as they are.

/// `CUDNN_STATUS_*`.
pub(crate) mod status {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const NOT_INITIALIZED: u32 = 1001;
    pub(crate) const BAD_PARAM: u32 = 2000;
    pub(crate) const NULL_POINTER: u32 = 2002;
    pub(crate) const STREAM_MISMATCH: u32 = 2007;
    pub(crate) const NOT_SUPPORTED: u32 = crate::names::NOT_SUPPORTED;
    pub(crate) const UNEXPECTED_VALUE: u32 = 4002;
}

/// `CUDNN_BACKEND_*_DESCRIPTOR`.
pub(crate) mod kind {
    pub(crate) const ENGINE: u32 = 2;
    pub(crate) const ENGINE_CONFIG: u32 = 3;
    pub(crate) const HEURISTICS: u32 = 4;
    pub(crate) const PLAN: u32 = 5;
    pub(crate) const GRAPH: u32 = 15;
    pub(crate) const PACK: u32 = 16;
}

/// `CUDNN_TYPE_*`.
pub(crate) mod type_of {
    pub(crate) const HANDLE: u32 = 0;
    pub(crate) const INT64: u32 = 3;
    pub(crate) const POINTER: u32 = 6;
    pub(crate) const DESCRIPTOR: u32 = 15;
    pub(crate) const CHAR: u32 = 24;
}

/// `CUDNN_ATTR_*`.
pub(crate) mod name {
    pub(crate) const HEURISTICS_MODE: u32 = 200;
    pub(crate) const HEURISTICS_RESULTS: u32 = 202;
    pub(crate) const CONFIG_ENGINE: u32 = 300;
    pub(crate) const PLAN_HANDLE: u32 = 400;
    pub(crate) const PLAN_CONFIG: u32 = 401;
    pub(crate) const PLAN_WORKSPACE: u32 = 402;
    pub(crate) const PLAN_KERNEL_CACHE: u32 = 406;
    pub(crate) const PLAN_DEVICE: u32 = 407;
    pub(crate) const GRAPH_HANDLE: u32 = 800;
    pub(crate) const GRAPH_ENGINE_COUNT: u32 = 802;
    pub(crate) const PACK_UIDS: u32 = 1000;
    pub(crate) const PACK_POINTERS: u32 = 1001;
    pub(crate) const PACK_WORKSPACE: u32 = 1003;
    pub(crate) const ENGINE_INDEX: u32 = 1301;
    pub(crate) const DEVICE_TEXT: u32 = 2702;
}

/// `CUDNN_HEUR_MODE_FALLBACK`.
pub(crate) const MODE_FALLBACK: u32 = 2;

/// What our engines' numbers begin with, so that programs tell them from cuDNN's.
pub(crate) const FIRST_ENGINE: i64 = 1000;
