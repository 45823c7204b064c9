//! Needs an NVRTC library (`scripts/fetch-nvrtc.sh`).

#![no_main]

use std::sync::LazyLock;

use fusewright::device::ComputeCapability;
use fusewright::fuzz::{CompiledOnly, targets};
use libfuzzer_sys::fuzz_target;

static COMPILER: LazyLock<CompiledOnly> = LazyLock::new(|| {
    CompiledOnly::open(ComputeCapability::SM_90).unwrap_or_else(|error| {
        eprintln!("skipped: {error}");
        std::process::exit(0)
    })
});

fuzz_target!(
    init: {
        LazyLock::force(&COMPILER);
    },
    |bytes: &[u8]| {
        if let Err(finding) = targets::nvrtc_compile(bytes, &COMPILER) {
            panic!("{finding}");
        }
    }
);
