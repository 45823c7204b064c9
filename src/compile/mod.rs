//! NVRTC: source to cubin; memory and disk cache.
