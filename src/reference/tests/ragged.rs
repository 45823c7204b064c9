//! Ragged tensors: what is read and written where, by hand.

use super::*;
use crate::error::Error;
use crate::graph::{Other, Scalar};

/// Batches, heads, rows at most, elements of a row.
const DIM: [i64; 4] = [2, 2, 3, 8];

/// Elements of a token: its heads lie side by side.
const TOKEN: i64 = DIM[1] * DIM[3];

/// An attention of packed sequences, of which Q and K say nothing, so that O is the mean of V.
fn attention() -> FinalizedGraph {
    attention_of([DIM[2] * TOKEN, DIM[3], TOKEN, 1])
}

/// The same with these strides.
fn attention_of(stride: [i64; 4]) -> FinalizedGraph {
    let mut graph = float_graph();
    let ragged = |graph: &mut Graph, name: &str| {
        let offsets = input(graph, &format!("{name}_offsets"), &[DIM[0] + 1, 1, 1, 1], DataType::Int64);
        let tensor = Tensor::new(name).dim(DIM).stride(stride).data_type(DataType::Float);
        graph.tensor(Tensor { ragged_offset: Some(offsets), ..tensor })
    };
    let [q, k, v, o] = ["Q", "K", "V", "O"].map(|name| ragged(&mut graph, name));
    let lengths = ["lengths_q", "lengths_kv"].map(|name| input(&mut graph, name, &[DIM[0], 1, 1, 1], DataType::Int32));
    let attributes = [("padding_mask".to_owned(), true.into())].into();
    graph.operation(Operation {
        name: "a".to_owned(),
        attributes: Attributes::Other(Other { tag: "SDPA", attributes }),
        compute_data_type: None,
        inputs: vec![
            (Port::Q, q),
            (Port::K, k),
            (Port::V, v),
            (Port::SEQ_LEN_Q, lengths[0]),
            (Port::SEQ_LEN_KV, lengths[1]),
        ],
        outputs: vec![(Port::O, o)],
    });
    graph.finalize().unwrap()
}

/// Inputs with these offsets of O and of V; rows of V that no sequence has are NaN, and those of token `t` are `t`.
fn inputs(graph: &FinalizedGraph, of_output: [i64; 3], of_values: [i64; 3]) -> HostTensors {
    let mut inputs = random_inputs(graph, 0, Distribution::Normal).unwrap();
    let mut set = |name: &str, value: &dyn Fn(usize) -> Scalar| {
        let tensor = inputs.get_mut(&by_name(graph, name)).unwrap();
        for offset in 0..tensor.bytes.len() as u64 * 8 / tensor.data_type.bits() {
            tensor.set(offset as usize, value(offset as usize));
        }
    };
    let numbers = |numbers: &[i64], at: usize| Scalar::Integer(numbers[at]);
    set("lengths_q", &|at| numbers(&[2, 1], at));
    set("lengths_kv", &|at| numbers(&[1, 2], at));
    set("O_offsets", &|at| numbers(&of_output, at));
    set("V_offsets", &|at| numbers(&of_values, at));
    set("Q_offsets", &|at| numbers(&[0, 2 * TOKEN, 3 * TOKEN], at));
    set("K_offsets", &|at| numbers(&[0, TOKEN, 3 * TOKEN], at));
    set("Q", &|_| Scalar::Float(0.0));
    set("V", &|at| {
        let token = at as i64 / TOKEN;
        Scalar::Float(if [1, 3, 4].contains(&token) { token as f64 } else { f64::NAN })
    });
    inputs
}

/// Strides that give the second batch no rows of its own say of less memory than both sequences have at their longest: lengths and offsets
/// agree all the same, whether heads lie side by side or one behind the other, and however far apart elements lie.
#[test]
fn random_sequences_end_within_the_memory_that_strides_say() {
    let packed = [[1, DIM[3], TOKEN, 1], [1, DIM[2] * DIM[3], DIM[3], 1]];
    for stride in [packed[0], packed[1], packed[0].map(|stride| 2 * stride)] {
        let graph = attention_of(stride);
        for seed in 0..20 {
            let inputs = random_inputs(&graph, seed, Distribution::Normal).unwrap();
            execute(&graph, &inputs).unwrap();
            let numbers = |name: &str| -> Vec<i64> { inputs[&by_name(&graph, name)].to_dense().unwrap() };
            for (lengths, offsets) in [("lengths_q", "Q_offsets"), ("lengths_kv", "V_offsets")] {
                let room = numbers(offsets)
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0] + stride[2] - 1) / stride[2])
                    .collect::<Vec<_>>();
                let fits = numbers(lengths).iter().zip(&room).all(|(length, room)| length <= room);
                assert!(fits, "{stride:?}, seed {seed}: {:?} rows of {room:?}", numbers(lengths));
            }
        }
    }
}

#[test]
fn sequences_are_read_and_written_where_offsets_say() {
    let graph = attention();
    // V has token 1 alone, then tokens 3 and 4; O has two tokens from 1 on, and one from 4 on
    let inputs = inputs(&graph, [TOKEN, 4 * TOKEN, 6 * TOKEN], [TOKEN, 3 * TOKEN, 5 * TOKEN]);
    let found = execute(&graph, &inputs).unwrap().remove(&by_name(&graph, "O")).unwrap();
    for offset in 0..6 * TOKEN {
        let Some(Scalar::Float(value)) = found.get(offset as usize) else { panic!("no element {offset}") };
        match offset / TOKEN {
            1 | 2 => assert_eq!(value, 1.0, "{offset}"),
            4 => assert_eq!(value, 3.5, "{offset}"),
            _ => assert!(value.is_nan(), "{offset}: {value}"),
        }
    }
    let exact = oracle(&graph, &inputs);
    let bounds = bounds(&graph, &inputs).unwrap();
    let results = execute(&graph, &inputs).unwrap();
    let comparison = compare(&graph, &exact, &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    assert_eq!(comparison.outputs[0].incomparable, 0);
}

#[test]
fn offsets_that_are_none_are_refused() {
    let graph = attention();
    let refusal = |of_output, of_values| match execute(&graph, &inputs(&graph, of_output, of_values)) {
        Err(error @ Error::Input { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let good = [0, 2 * TOKEN, 3 * TOKEN];
    for descending in [[2 * TOKEN, 0, 3 * TOKEN], [-1, TOKEN, 2 * TOKEN], [i64::MIN, i64::MAX, i64::MAX]] {
        let message = refusal(good, descending);
        assert!(message.contains("'V'") && message.contains("descend, or are below 0"), "{message}");
    }
    for beyond in [[0, 6 * TOKEN, 8 * TOKEN], [0, i64::MAX - 9, i64::MAX]] {
        let message = refusal(beyond, [0, TOKEN, 3 * TOKEN]);
        assert!(message.contains("'O'") && message.contains("a sequence lies beyond"), "{message}");
    }
}
