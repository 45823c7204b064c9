//! Files of the repository that tests generate and compare.

use std::fs;
use std::path::Path;

/// Compares a text with a file of the repository; with `FUSEWRIGHT_BLESS=1` writes the file instead.
#[track_caller]
pub(crate) fn assert_file(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("FUSEWRIGHT_BLESS").is_some_and(|value| value == "1") {
        fs::write(&file, text).expect("the repository can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(
        committed == text,
        "{path} is not what the code gives; look at what changed and rewrite it with FUSEWRIGHT_BLESS=1\n\
         first difference: {differs:?}\nnow:\n{text}"
    );
}
