//! What several test programs share.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod snapshot;
pub(crate) mod verdicts;
