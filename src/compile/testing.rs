//! Values for the tests of this module.

use super::{CacheKey, Cubin, FunctionResources, Nvrtc};
use crate::error::Error;

/// A key that differs in its source.
pub(super) fn key(source: &str) -> CacheKey {
    CacheKey {
        graph: "0123".to_owned(),
        engine: "simple".to_owned(),
        config: "block_m 64".to_owned(),
        source: source.to_owned(),
        nvrtc: "13.0".to_owned(),
        options: vec!["-arch=sm_90a".to_owned()],
        target: "sm_90a".to_owned(),
        fusewright: "0.1.0".to_owned(),
    }
}

/// A cubin with this image.
pub(super) fn cubin(image: &[u8]) -> Cubin {
    Cubin {
        images: vec![image.to_vec()],
        log: "ptxas info    : 0 bytes gmem\n".to_owned(),
        resources: vec![FunctionResources { function: "k".to_owned(), registers: 8, ..FunctionResources::default() }],
        warnings: Vec::new(),
        milliseconds: 12.5,
    }
}

/// The NVRTC that `find` gives, or none with the reason printed; without one the test is skipped, unless
/// `FUSEWRIGHT_REQUIRE_NVRTC=1` forbids that.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn nvrtc_or_skip(find: impl FnOnce() -> Result<Nvrtc, Error>) -> Option<Nvrtc> {
    match find() {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) if std::env::var_os("FUSEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1") => {
            panic!("FUSEWRIGHT_REQUIRE_NVRTC=1, but {error}")
        }
        Err(error) => {
            eprintln!("skipped: no NVRTC ({error})");
            None
        }
    }
}
