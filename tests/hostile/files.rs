//! Files of hostile size and form, as the program reads them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Duration;

use crate::program::{Ran, run};

/// A file of this many bytes is as large as any that should be read in a moment.
const LARGE: usize = 100 << 20;

/// Longest time for a file of [`LARGE`] bytes: a second for the built program; unoptimised code and slow machines get more.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 5 });

/// Checks a file made of a head, a part repeated up to [`LARGE`] bytes, and a tail.
fn check(head: &str, part: &str, tail: &str) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("large.json");
    let mut file = BufWriter::new(File::create(&path).expect("a file that can be made"));
    let block = part.repeat((1 << 20) / part.len().max(1));
    file.write_all(head.as_bytes()).expect("room");
    (0..LARGE / block.len()).for_each(|_| file.write_all(block.as_bytes()).expect("room"));
    file.write_all(tail.as_bytes()).expect("room");
    file.flush().expect("room");
    run(&folder, &["check", path.to_str().expect("UTF-8")], &[])
}

/// `y = relu(x)` on one line.
const GOOD: &str = r#"{"context":{"name":"good","io_data_type":"FLOAT","intermediate_data_type":"FLOAT","compute_data_type":"FLOAT"},"json_version":"2.0","nodes":[{"tag":"POINTWISE","name":"relu","mode":"RELU_FWD","inputs":{"IN_0":1},"outputs":{"OUT_0":2}}],"tensors":[{"uid":1,"name":"x","data_type":"FLOAT","dim":[2,3,4],"stride":[12,4,1],"is_virtual":false,"is_pass_by_value":false,"pass_by_value":null,"reordering_type":"NONE"},{"uid":2,"name":"y","data_type":"FLOAT","dim":[2,3,4],"stride":[12,4,1],"is_virtual":false,"is_pass_by_value":false,"pass_by_value":null,"reordering_type":"NONE"}]}"#;

/// Whatever comes first, the good graph on the last line has its verdict, in time.
#[track_caller]
fn good_graph_is_found_after(head: &str, part: &str, tail: &str, complaint: &str) {
    let ran = check(head, part, &format!("{tail}\n{GOOD}\n"));
    assert!(ran.out.contains("'good'") && ran.out.contains("1 supported, 0 not supported"), "{:.2000}", ran.out);
    assert!(ran.out.contains(complaint), "no \"{complaint}\" in {:.2000}", ran.out);
    assert!(ran.took < LIMIT, "{:?} for {head:.20}{part:.20}", ran.took);
}

#[test]
fn text_of_a_hundred_megabytes() {
    good_graph_is_found_after("", "x", "", "");
    good_graph_is_found_after("", "hello world, hello world, hello world\n", "", "");
}

#[test]
fn nesting_of_a_hundred_megabytes() {
    good_graph_is_found_after("", "[", "", "");
    good_graph_is_found_after("{\"nodes\":", "[", "", "more than 127 levels of nesting");
    good_graph_is_found_after("", "{\"nodes\":", "", "more than 127 levels of nesting");
}

#[test]
fn values_of_a_hundred_megabytes() {
    let complaint = "an object or array of more than 32 MiB; of several graphs, each may have a line of its own";
    good_graph_is_found_after("{\"nodes\":\"", "a", "\"}", complaint);
    good_graph_is_found_after("{\"nodes\":[", "1,", "1]}", complaint);
    good_graph_is_found_after("{\"nodes\":[\n", "{\"tag\":\"POINTWISE\"},\n", "{}]}", complaint);
    good_graph_is_found_after("{\"nodes\":[\n", "{\"tag\":\"POINTWISE\"},\n", "cut off by a line of text", complaint);
}

/// A chain of operations in the second dialect.
fn chain(count: usize) -> String {
    let mut text = "{\"json_version\":\"2.0\",\"nodes\":[".to_owned();
    for number in 0..count {
        let comma = if number > 0 { "," } else { "" };
        let (input, output) = (number, number + 1);
        write!(
            text,
            r#"{comma}{{"tag":"POINTWISE","mode":"NEG","inputs":{{"IN_0":{input}}},"outputs":{{"OUT_0":{output}}}}}"#
        )
        .expect("a string");
    }
    text.push_str("],\"tensors\":[]}");
    text
}

#[test]
fn a_million_operations_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("million.json");
    for (count, complaint) in [(1_000_000, "more than 32 MiB"), (200_000, "no tensor has the uid 0")] {
        std::fs::write(&path, chain(count)).expect("room");
        let ran = run(&folder, &["check", path.to_str().expect("UTF-8")], &[]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.out.contains(complaint), "{ran:?}");
        assert!(ran.took < LIMIT, "{:?} for {count} operations", ran.took);
    }
}
