//! Settings, names and records.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::destination::expanded;
use super::*;

fn settings(variables: &[(&str, &str)]) -> Settings {
    let variables: HashMap<&str, OsString> = variables.iter().map(|(name, value)| (*name, value.into())).collect();
    Settings::of(|name| variables.get(name).cloned())
}

#[test]
fn levels_are_clamped_and_destinations_named() {
    let level = |text| settings(&[("CUDNN_LOGLEVEL_DBG", text)]).level;
    assert_eq!(["0", "1", "2", "3", "7", "-2", "x"].map(level), [0, 1, 2, 3, 3, 0, 0]);
    assert_eq!(settings(&[]), Settings { level: 0, destination: Destination::Stderr });
    let destination = |text| settings(&[("CUDNN_LOGLEVEL_DBG", "1"), ("CUDNN_LOGDEST_DBG", text)]).destination;
    assert_eq!(destination("NULL"), Destination::Null);
    assert_eq!(destination("stdout"), Destination::Stdout);
    assert_eq!(destination("/tmp/a_%i"), Destination::File("/tmp/a_%i".into()));
    assert_eq!(settings(&[("CUDNN_LOGWARN_DBG", "1"), ("CUDNN_LOGERR_DBG", "1")]).level, 2);
    assert_eq!(settings(&[("CUDNN_LOGLEVEL_DBG", "0"), ("CUDNN_LOGINFO_DBG", "1")]).level, 0);
}

#[test]
fn a_level_takes_the_more_severe_ones() {
    let mask = |level| Settings { level, destination: Destination::Stderr }.mask();
    assert_eq!([0, 1, 2, 3].map(mask), [0, 0b0010, 0b0110, 0b1110]);
    assert_eq!(Settings { level: 3, destination: Destination::Null }.mask(), 0);
}

#[test]
fn file_names_hold_time_and_process() {
    let now: jiff::Zoned = "2026-11-22T17:05:09+00:00[UTC]".parse().unwrap();
    let name = |name: &str| expanded(Path::new(name), 42, &now).display().to_string();
    assert_eq!(name("log_%Y-%m-%d_%H%M%S_%i.txt"), "log_2026-11-22_170509_42.txt");
    assert_eq!(name("100%%i"), "100%i");
    assert_eq!(name("plain"), "plain");
    assert_eq!(name("odd%"), "odd%");
}

/// Everything that has to do with the state of the process, in one test.
#[test]
fn records_go_to_the_sink_by_their_severity() {
    let taken: Arc<Mutex<Vec<Record>>> = Arc::default();
    let sink: Sink = {
        let taken = Arc::clone(&taken);
        Arc::new(move |record| taken.lock().unwrap().push(record.clone()))
    };
    let subscriber = tracing_subscriber::registry().with(layer());
    tracing::subscriber::with_default(subscriber, || {
        set_sink(Some((Severity::Error.bit() | Severity::Info.bit(), sink)));
        let details = "S90-X: required 1, found 2\nengine\ncudnnBackendFinalize";
        tracing::error!(function = "cudnnBackendFinalize", status = ?Some(1), status_number = 2000_u64, details);
        tracing::warn!("left out");
        tracing::info!(function = "cudnnCreate", handle = 16_u64, details = "handle: type=cudnnHandle_t*; val=0x10");
        tracing::debug!("left out");
        tracing::info!(target: "another_crate", "left out");
        set_sink(None);
        tracing::error!("left out");
    });
    let taken = taken.lock().unwrap();
    assert_eq!(taken.len(), 2, "{taken:?}");
    let lines = taken[0].lines();
    let expected = [
        "cuDNN (v92100) function cudnnBackendFinalize() called:",
        "    Info: Traceback contains 3 message(s)",
        "        Error: Some(1); Reason: S90-X: required 1, found 2",
        "        Error: Some(1); Reason: engine",
        "        Error: Some(1); Reason: cudnnBackendFinalize",
    ];
    assert_eq!(lines[..5], expected);
    assert!(lines[5].starts_with("Time: 20") && lines[5].ends_with("s since start)"), "{}", lines[5]);
    assert!(lines[6].starts_with("Process=") && lines[6].ends_with("GPU=NULL; Handle=NULL; StreamId=NULL."));
    let call = taken[1].lines();
    assert_eq!(call[1], "    handle: type=cudnnHandle_t*; val=0x10");
    assert!(call[3].contains("Handle=0x10;"), "{}", call[3]);
}
