//! The CPU engine: slow, obvious, right.
