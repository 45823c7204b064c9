//! Keys and values in pages: what is read where, by hand.

use super::*;
use crate::error::Error;
use crate::graph::{Composite, Other, PagedCacheLoad, Scalar};

/// Pages, heads, rows of a page, elements.
const CONTAINER: [i64; 4] = [4, 1, 2, 2];

/// Rows of two sequences of at most 5 rows; the element of a container is `10 · page + row of the page`.
fn load(is_turned: bool) -> FinalizedGraph {
    let mut graph = float_graph();
    let container = input(&mut graph, "container", &CONTAINER, DataType::Float);
    let lengths = input(&mut graph, "lengths", &[2, 1, 1, 1], DataType::Int32);
    let table = input(&mut graph, "table", &[2, 1, 3, 1], DataType::Int32);
    let y = match is_turned {
        true => Tensor::new("y").dim([2, 1, 2, 5]).stride([10, 10, 1, 2]),
        false => Tensor::new("y").row_major([2, 1, 5, 2]),
    };
    let y = graph.tensor(y.data_type(DataType::Float));
    operation(
        &mut graph,
        Attributes::Composite(Composite::PagedCacheLoad(PagedCacheLoad)),
        &[(Port::CONTAINER, container), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)],
        &[(Port::Y_OUT, y)],
    );
    graph.finalize().unwrap()
}

fn inputs(graph: &FinalizedGraph, lengths: [f64; 2], table: [f64; 6]) -> HostTensors {
    let container: Vec<f64> = (0..16).map(|at| f64::from(10 * (at / 4) + at / 2 % 2)).collect();
    given(graph, &[("container", &container), ("lengths", &lengths), ("table", &table)])
}

/// What is loaded, element 0 of each row.
fn rows(values: &[f64], is_turned: bool) -> Vec<f64> {
    let of_sequence = |values: &[f64]| -> Vec<f64> {
        let elements: Vec<[f64; 2]> = match is_turned {
            true => (0..5).map(|row| [values[row], values[5 + row]]).collect(),
            false => values.chunks(2).map(|row| [row[0], row[1]]).collect(),
        };
        elements.iter().map(|[a, b]| if a.to_bits() == b.to_bits() { *a } else { f64::INFINITY }).collect()
    };
    values.chunks(10).flat_map(of_sequence).collect()
}

#[test]
fn rows_come_from_the_pages_that_a_table_names() {
    for is_turned in [false, true] {
        let graph = load(is_turned);
        // entries beyond a sequence, and the second row of its last page, are nothing
        let inputs = inputs(&graph, [3.0, 5.0], [2.0, 0.0, 99.0, 3.0, 3.0, 1.0]);
        let nan = f64::NAN;
        let expected = [20.0, 21.0, 0.0, nan, nan, 30.0, 31.0, 30.0, 31.0, 10.0];
        let same = |found: &[f64]| {
            found
                .iter()
                .zip(expected)
                .all(|(found, expected)| *found == expected || (found.is_nan() && expected.is_nan()))
        };
        let computed = rows(&output(&graph, &inputs), is_turned);
        assert!(same(&computed), "{computed:?}");
        let judged = evaluate_f64(&graph, &inputs).unwrap();
        let judged = rows(&judged.values().next().unwrap().values, is_turned);
        assert!(same(&judged), "{judged:?}");
        let bounds = bounds(&graph, &inputs).unwrap();
        let (expected, found) = (oracle(&graph, &inputs), execute(&graph, &inputs).unwrap());
        let comparison = compare(&graph, &expected, &found, Some(&bounds)).unwrap();
        assert!(comparison.is_match(), "{comparison}");
    }
}

#[test]
fn lengths_beyond_the_rows_are_all_of_them() {
    let graph = load(false);
    let inputs = inputs(&graph, [-3.0, 9.0], [-1.0, 7.0, 9.0, 0.0, 1.0, 2.0]);
    let found = rows(&output(&graph, &inputs), false);
    assert!(found[..5].iter().all(|row| row.is_nan()), "{found:?}");
    assert_eq!(found[5..], [0.0, 1.0, 10.0, 11.0, 20.0]);
}

#[test]
fn an_entry_that_is_no_page_is_named() {
    let graph = load(false);
    for entry in [-1.0, 4.0] {
        let inputs = inputs(&graph, [3.0, 5.0], [2.0, 0.0, 99.0, 3.0, entry, 1.0]);
        for result in [execute(&graph, &inputs).map(|_| ()), evaluate_f64(&graph, &inputs).map(|_| ())] {
            let Err(error @ Error::Input { .. }) = result else { panic!("{entry} is no page") };
            let message = error.to_string();
            assert!(message.contains("'table'") && message.contains("entry 1 of sequence 1"), "{message}");
            assert!(message.contains("none of the 4 pages"), "{message}");
        }
    }
}

/// An attention with K and V in pages, by a node, of sequences of at most 6 rows.
fn attention(is_packed: bool) -> FinalizedGraph {
    let mut graph = float_graph();
    let q = input(&mut graph, "Q", &[2, 2, 3, 8], DataType::Float);
    let [k, v] = [("K", 4), ("V", 1)].map(|(name, page)| input(&mut graph, name, &[9, 1, page, 8], DataType::Float));
    let lengths = ["lengths_q", "lengths_kv"].map(|name| input(&mut graph, name, &[2, 1, 1, 1], DataType::Int32));
    let tables = [("table_k", 2), ("table_v", 6)].map(|(name, entries)| {
        let table = input(&mut graph, name, &[2, 1, entries, 1], DataType::Int32);
        let offsets = is_packed.then(|| input(&mut graph, &format!("{name}_offsets"), &[3, 1, 1, 1], DataType::Int32));
        graph.tensor_mut(table).ragged_offset = offsets;
        table
    });
    let o = graph.tensor(Tensor::new("O").row_major([2, 2, 3, 8]).data_type(DataType::Float));
    let attributes = [("padding_mask".to_owned(), true.into()), ("max_seq_len_kv".to_owned(), 6.into())].into();
    operation(
        &mut graph,
        Attributes::Other(Other { tag: "SDPA", attributes }),
        &[
            (Port::Q, q),
            (Port::K, k),
            (Port::V, v),
            (Port::SEQ_LEN_Q, lengths[0]),
            (Port::SEQ_LEN_KV, lengths[1]),
            (Port::PAGE_TABLE_K, tables[0]),
            (Port::PAGE_TABLE_V, tables[1]),
        ],
        &[(Port::O, o)],
    );
    graph.finalize().unwrap()
}

/// Q says nothing, so that O is the mean of V over the sequence.
#[test]
fn attention_of_pages_is_that_of_what_is_in_them() {
    for is_packed in [false, true] {
        let graph = attention(is_packed);
        let mut inputs = random_inputs(&graph, 0, Distribution::Normal).unwrap();
        let mut set = |name: &str, values: &[i64]| {
            let tensor = inputs.get_mut(&by_name(&graph, name)).unwrap();
            values.iter().enumerate().for_each(|(at, &value)| tensor.set(at, Scalar::Integer(value)).unwrap());
        };
        set("lengths_q", &[3, 2]);
        set("lengths_kv", &[2, 5]);
        if is_packed {
            set("table_k_offsets", &[0, 1, 3]);
            set("table_v_offsets", &[0, 2, 7]);
            set("table_k", &[3, 8, 0, -1]);
            set("table_v", &[1, 4, 8, 7, 6, 5, 4, -1, -1, -1, -1, -1]);
        } else {
            set("table_k", &[3, -1, 8, 0]);
            set("table_v", &[1, 4, -1, -1, -1, -1, 8, 7, 6, 5, 4, -1]);
        }
        for (name, value) in [("Q", None), ("K", None), ("V", Some(8))] {
            let tensor = inputs.get_mut(&by_name(&graph, name)).unwrap();
            for at in 0..tensor.elements() {
                tensor.set(at, Scalar::Float(value.map_or(0.0, |row| (at / row) as f64))).unwrap();
            }
        }
        let found = output(&graph, &inputs);
        let rows: Vec<f64> = found.chunks(8).map(|row| row[0]).collect();
        assert_eq!(rows, [2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 6.0, 6.0, 0.0, 6.0, 6.0, 0.0], "{is_packed}");
    }
}

/// Pages come once before one comes again; what nobody reads is nothing that could be read unnoticed.
#[test]
fn random_tables_name_pages_and_the_rest_is_nothing() {
    for is_packed in [false, true] {
        let graph = attention(is_packed);
        for seed in 0..8 {
            let inputs = random_inputs(&graph, seed, Distribution::Normal).unwrap();
            execute(&graph, &inputs).expect("entries within sequences are pages");
            let lengths: Vec<i64> = inputs[&by_name(&graph, "lengths_kv")].to_dense().unwrap();
            let values: Vec<f64> = inputs[&by_name(&graph, "V")].to_dense().unwrap();
            let read = values.chunks(8).filter(|row| !row[0].is_nan()).count() as i64;
            assert_eq!(read, lengths.iter().sum::<i64>().min(9), "seed {seed}");
        }
        let inputs = random_inputs(&graph, 1, Distribution::Normal).unwrap();
        let comparison = {
            let (expected, found) = (oracle(&graph, &inputs), execute(&graph, &inputs).unwrap());
            compare(&graph, &expected, &found, Some(&bounds(&graph, &inputs).unwrap())).unwrap()
        };
        assert!(comparison.is_match() && comparison.outputs[0].incomparable == 0, "{comparison}");
    }
}
