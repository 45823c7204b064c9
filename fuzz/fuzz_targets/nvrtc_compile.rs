//! Needs an NVRTC library (`scripts/fetch-nvrtc.sh`).

#![no_main]

use std::sync::LazyLock;

use fusewright::compile::Nvrtc;
use fusewright::device::ComputeCapability;
use fusewright::fuzz::targets;
use libfuzzer_sys::fuzz_target;

static NVRTC: LazyLock<Nvrtc> = LazyLock::new(|| {
    Nvrtc::load_for(ComputeCapability::SM_90).unwrap_or_else(|error| {
        eprintln!("skipped: {error}");
        std::process::exit(0)
    })
});

fuzz_target!(
    init: {
        LazyLock::force(&NVRTC);
    },
    |bytes: &[u8]| {
        if let Err(finding) = targets::nvrtc_compile(bytes, &NVRTC) {
            panic!("{finding}");
        }
    }
);
