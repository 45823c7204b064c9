//! Inference of missing dims, strides and types (`spec/frontend-json.md` section 8).
