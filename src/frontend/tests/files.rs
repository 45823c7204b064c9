//! Files, logs and streams.

use super::*;
use crate::frontend::DocumentReader;

fn one_line(text: &str) -> String {
    parsed(text).to_string()
}

fn numbers_and_names(documents: &Documents) -> Vec<(usize, &str, usize)> {
    let row = |document: &super::super::GraphDocument| (document.number, document.first_line, document.repeats);
    let rows = documents.documents.iter().map(row);
    rows.zip(&documents.documents)
        .map(|((number, _, repeats), document)| (number, document.name.as_str(), repeats))
        .collect()
}

#[test]
fn a_log_gives_its_graphs_once_with_their_count() {
    let mut again = parsed(MATMUL);
    again["gid"] = json!(8);
    again["graph_uid"] = json!(3);
    let log = format!(
        "==========\n==== VALIDATING GRAPH ====\n==========\n{}\n[cudnn_frontend] INFO: building {{x}}\n{}\n\
         [cudnn_frontend] ERROR: GRAPH_NOT_SUPPORTED: no plan\n==========\n{again}\n",
        one_line(MATMUL),
        one_line(CONVOLUTION),
    );
    let documents = documents(&log);
    assert_eq!(numbers_and_names(&documents), [(1, "test#1", 1), (2, "test#2", 0)]);
    assert_eq!(documents.documents[1].first_line, 6);
    let warning = documents.documents[1].warnings.last().unwrap();
    assert_eq!(warning, "the log says: [cudnn_frontend] ERROR: GRAPH_NOT_SUPPORTED: no plan");
    assert!(documents.warnings.is_empty());
}

#[test]
fn uids_alone_do_not_make_another_graph() {
    let mut renumbered = parsed(CONVOLUTION);
    for tensor in renumbered["tensors"].as_array_mut().unwrap() {
        tensor["uid"] = json!(tensor["uid"].as_i64().unwrap() + 50);
    }
    for node in renumbered["nodes"].as_array_mut().unwrap() {
        for side in ["inputs", "outputs"] {
            for uid in node[side].as_object_mut().unwrap().values_mut() {
                *uid = json!(uid.as_i64().unwrap() + 50);
            }
        }
    }
    let documents = documents(&format!("{}\n{renumbered}", one_line(CONVOLUTION)));
    assert_eq!(numbers_and_names(&documents), [(1, "test", 1)]);
}

#[test]
fn records_keep_their_name_or_id() {
    let record = |head: &str| format!("{{{head},\"verdict\":\"supported\",\"graph\":{}}}\n", one_line(RELU));
    let text = [record("\"id\":17"), record("\"name\":\"mine\""), record("\"id\":17"), record("\"id\":18")].concat();
    let documents = documents(&text);
    assert_eq!(numbers_and_names(&documents), [(1, "17", 1), (2, "mine", 0), (3, "18", 0)]);
}

#[test]
fn two_graphs_of_one_name_are_told_apart_by_number() {
    let mut graph = parsed(CONVOLUTION);
    graph["context"]["name"] = json!("net");
    let first = graph.to_string();
    graph["nodes"][2]["mode"] = json!("TANH_FWD");
    let documents = documents(&format!("{first}\n{graph}"));
    assert_eq!(numbers_and_names(&documents), [(1, "net", 0), (2, "net", 0)]);
    let warning = "graph 2 has the name 'net', as graph 1 has: the number tells them apart";
    assert_eq!(documents.documents[1].warnings, [warning]);
}

#[test]
fn a_single_graph_is_called_after_its_file() {
    assert_eq!(documents(CONVOLUTION).documents[0].name, "test");
    assert_eq!(read_documents("-", RELU.as_bytes()).documents[0].name, "stdin");
    assert_eq!(documents(&format!("[{CONVOLUTION},\n{RELU}]")).documents.len(), 2);
}

#[test]
fn a_bad_graph_spoils_no_other() {
    let mut bad = parsed(CONVOLUTION);
    bad["nodes"][0]["tag"] = json!("NOVELTY");
    let documents = documents(&format!("{}\n{bad}\n{}\n", one_line(RELU), one_line(MATMUL)));
    let results: Vec<_> = documents.documents.iter().map(|document| document.result.is_ok()).collect();
    assert_eq!(results, [true, false, true]);
    let error = documents.documents[1].result.as_ref().unwrap_err().to_string();
    let place = "dir/test.log: graph 2 (line 2): node 'scale' (NOVELTY, node 0)";
    assert_eq!(
        error,
        format!("{place}: unknown tag \"NOVELTY\" (one of 50, which `fusewright rules --values` lists) [FEJ-11]")
    );
}

#[test]
fn a_cut_off_last_line_is_reported_with_its_byte() {
    let (first, second) = (one_line(RELU), one_line(MATMUL));
    let log = format!("{first}\n{}", &second[..300]);
    let documents = documents(&log);
    assert!(documents.documents[0].result.is_ok());
    let (begin, end) = (first.len() + 1, log.len());
    let expected = format!(
        "unterminated object at byte {end}: it begins at byte {begin}, and the input ends; it is cut off, or a bracket \
         is not closed [FEJ-03]"
    );
    let error = documents.documents[1].result.as_ref().unwrap_err().to_string();
    assert_eq!(error.lines().next(), Some(format!("dir/test.log: graph 2 (line 2): {expected}").as_str()));
}

#[test]
fn a_line_with_nodes_that_does_not_parse_is_reported() {
    let log = format!("{{\"nodes\": oops}}\n\"nodes\": [\n{}\n", one_line(RELU));
    let documents = documents(&log);
    let error = documents.documents[0].result.as_ref().unwrap_err();
    let shown = "\n    1 | {\"nodes\": oops}\n      |           ^";
    assert_eq!(error.message, format!("not valid JSON at line 1 column 11 of the object: expected value{shown}"));
    assert_eq!(documents.warnings, ["line 2 mentions \"nodes\" but holds no object: skipped [FEJ-51]"]);
    assert!(documents.documents[1].result.is_ok());
}

#[test]
fn objects_inside_text_are_found() {
    let indented = serde_json::to_string_pretty(&parsed(RELU)).unwrap();
    let onnx = format!("Failed at node 7 with the cudnn frontend json:\n{indented}\nand so on\n");
    assert_eq!(read_graph("onnx.txt", onnx.as_bytes()), read(&parsed(RELU)));
    let prefixed = format!("2024-01-01 INFO: {} (end)\n", one_line(MATMUL));
    assert_eq!(read_graph("app.log", prefixed.as_bytes()), read(&parsed(MATMUL)));
}

/// Each line of a text behind the rank that wrote it.
fn of_ranks(text: &str, ranks: &[u32]) -> String {
    text.lines().flat_map(|line| ranks.iter().map(move |rank| format!("rank{rank}: {line}\n"))).collect()
}

#[test]
fn a_graph_over_lines_of_one_rank_is_read_and_mixed_ranks_are_told() {
    let indented = serde_json::to_string_pretty(&parsed(RELU)).unwrap();
    assert_eq!(read_graph("rank.log", of_ranks(&indented, &[3]).as_bytes()), read(&parsed(RELU)));
    let mixed = read_documents("rank.log", of_ranks(&indented, &[0, 1]).as_bytes());
    assert!(mixed.documents[0].result.is_err());
    assert!(mixed.warnings.iter().any(|warning| warning.contains("`grep '^rank0:'`")), "{:?}", mixed.warnings);
    let lines = read_documents("rank.log", of_ranks(&one_line(RELU), &[0, 1]).as_bytes());
    assert!(lines.documents[0].result.is_ok() && lines.warnings.is_empty(), "{:?}", lines.warnings);
}

fn no_graph(bytes: &[u8]) -> String {
    let documents = read_documents("t", bytes).documents;
    assert_eq!(documents.len(), 1);
    documents[0].result.as_ref().unwrap_err().message.clone()
}

#[test]
fn a_file_without_a_graph_says_what_was_looked_for() {
    assert_eq!(no_graph(b""), "no graph found: the input is empty");
    assert_eq!(no_graph(b" \n\n"), "no graph found: the input is empty");
    assert!(no_graph(b"text").starts_with("no graph found: looked for a JSON object with the key \"nodes\""));
    assert!(no_graph(b"{\"a\": 1}").starts_with("no graph found"));
    assert!(
        no_graph(b"{'a': 1}").contains(
            "line 1: not valid JSON at line 1 column 2 of the object: key must be a string; JSON quotes with"
        )
    );
    assert!(no_graph(b"[cudnn_frontend] INFO: plan\n").contains("frontends from 1.30"));
    assert!(no_graph(b"\xfe\xff\x00{").contains("UTF-16"));
    assert!(no_graph(b"\x1f\x8b\x08").contains("gzip"));
    assert!(no_graph(b"{i\x07context{}").contains("UBJSON"));
}

#[test]
fn bytes_that_are_not_utf8_are_an_error_of_their_graph() {
    let mut bytes = one_line(RELU).replace("\"r\"", "\"?\"").into_bytes();
    let position = bytes.iter().position(|&byte| byte == b'?').unwrap();
    bytes[position] = 0xff;
    assert!(no_graph(&bytes).contains("invalid unicode code point"), "{}", no_graph(&bytes));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let deep = format!("{{\"nodes\":{}", "[".repeat(1_000_000));
    assert!(no_graph(deep.as_bytes()).contains("more than 127 levels of nesting"));
}

#[test]
fn exactly_one_graph_is_required_where_one_is_asked_for() {
    let two = format!("{}\n{}", one_line(RELU), one_line(MATMUL));
    let error = read_graph("two.json", two.as_bytes()).unwrap_err();
    assert_eq!(error.message, "one graph is required, found 2");
}

struct Failing;

impl std::io::Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("cable cut"))
    }
}

#[test]
fn a_failing_stream_ends_with_its_error() {
    let input = std::io::Read::chain(&b"{\"nodes\":[]}\n"[..], std::io::BufReader::new(Failing));
    let documents: Vec<_> = DocumentReader::new("pipe", std::io::BufReader::new(input)).collect();
    assert_eq!(documents.len(), 2);
    let message = &documents[1].result.as_ref().unwrap_err().message;
    assert_eq!(message, "the input cannot be read: cable cut");
}
