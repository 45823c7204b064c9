//! Keys or values in pages, which attention reads (AT-P30). The descriptor has no compute type: nothing is computed.

use crate::capi::attribute::TENSORS;

super::slots! {
    CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR, "PAGED_CACHE_LOAD";
    inputs {
        Required CONTAINER: CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC;
        Required SEQ_LEN: CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC;
        Required PAGE_TABLE: CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC;
    }
    outputs {
        Required Y_OUT: CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC;
    }
}
