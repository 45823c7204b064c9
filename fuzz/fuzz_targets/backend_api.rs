#![no_main]

use fusewright::fuzz::targets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = targets::backend_api(bytes) {
        panic!("{finding}");
    }
});
