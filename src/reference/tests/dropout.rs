//! Dropout: the engine beside the oracle, and what the mask has to be whatever the generator.

use super::*;
use crate::graph::{Attributes, Bernoulli, Composite, Dropout, MaskedDropout, Other, Scalar};

const DIM: [i64; 4] = [2, 3, 32, 45];

/// A dropout of a tensor of ones, of a seed and an offset.
fn of_ones(keep: f32) -> FinalizedGraph {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &DIM, DataType::Float);
    let [seed, offset] = ["seed", "offset"].map(|name| input(&mut graph, name, &[1; 4], DataType::Int64));
    let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(f64::from(1.0 / keep))));
    let slots = [(Port::X, x), (Port::SEED, seed), (Port::OFFSET, offset), (Port::DROPOUT_SCALE, scale)];
    let dropout = Dropout { kept: Bernoulli { keep } };
    for id in graph.composite("d", dropout, &slots, &[Port::Y, Port::RNG_DUMP]) {
        graph.set_output(id);
    }
    graph.finalize().unwrap()
}

/// The mask of a seed and an offset, which Y has for ones, times the factor.
fn mask(keep: f32, seed: f64, offset: f64) -> Vec<f64> {
    let graph = of_ones(keep);
    let ones = vec![1.0; DIM.iter().product::<i64>() as usize];
    let inputs = given(&graph, &[("x", &ones), ("seed", &[seed]), ("offset", &[offset])]);
    let results = execute(&graph, &inputs).unwrap();
    let bounds = bounds(&graph, &inputs).unwrap();
    let comparison = compare(&graph, &oracle(&graph, &inputs), &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    let [y, mask] = ["d::Y", "d::RNG_DUMP"].map(|name| results[&by_name(&graph, name)].to_dense::<f64>().unwrap());
    assert!(mask.iter().all(|&kept| kept == 0.0 || kept == 1.0));
    assert!(y.iter().zip(&mask).all(|(y, kept)| *y == kept * f64::from(1.0 / keep)));
    mask
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn as_many_are_kept_as_the_probability_says() {
    for keep in [0.1_f32, 0.5, 0.9, 0.999, 1.0] {
        let mask = mask(keep, 11.0, 5.0);
        let (keep, count) = (f64::from(keep), mask.len() as f64);
        let allowed = 4.0 * (keep * (1.0 - keep) / count).sqrt() + 2f64.powi(-17);
        assert!((mean(&mask) - keep).abs() <= allowed, "{} of {keep}", mean(&mask));
    }
}

#[test]
fn a_seed_and_an_offset_are_a_mask() {
    let keep = 0.5;
    let first = mask(keep, 11.0, 5.0);
    assert_eq!(first, mask(keep, 11.0, 5.0));
    let centred = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value - f64::from(keep)).collect() };
    for (seed, offset) in [(12.0, 5.0), (11.0, 6.0), (5.0, 11.0), (-11.0, 5.0), (11.0 + 2f64.powi(33), 5.0)] {
        let other = mask(keep, seed, offset);
        let products = centred(&first).into_iter().zip(centred(&other)).map(|(a, b)| 4.0 * a * b);
        let correlation = mean(&products.collect::<Vec<f64>>());
        assert!(correlation.abs() <= 4.0 / (first.len() as f64).sqrt(), "{correlation} for {seed}, {offset}");
    }
}

#[test]
fn heads_rows_and_columns_are_drawn_apart() {
    let mask = mask(0.5, 3.0, 0.0);
    let rows: std::collections::BTreeSet<Vec<u8>> =
        mask.chunks(45).map(|row| row.iter().map(|&kept| kept as u8).collect()).collect();
    assert_eq!(rows.len(), 2 * 3 * 32, "no two of 45 bits are the same");
}

/// An attention node as files have it, with a probability to drop where there is one.
fn attention(dropped: Option<f32>) -> FinalizedGraph {
    let mut graph = float_graph();
    let dim = [1, 2, 24, 8];
    let mut slots: Vec<(Port, TensorHandle)> =
        [Port::Q, Port::K, Port::V].map(|port| (port, input(&mut graph, port.0, &dim, DataType::Float))).into();
    let mut outputs = vec![(Port::O, dim), (Port::STATS, [1, 2, 24, 1])];
    let mut attributes = crate::graph::KeptAttributes::new();
    if let Some(dropped) = dropped {
        slots.extend(Dropout::STATE.map(|port| (port, input(&mut graph, port.0, &[1; 4], DataType::Int64))));
        attributes.insert("dropout_probability".to_owned(), f64::from(dropped).into());
        outputs.extend((dropped > 0.0).then_some((Port::RNG_DUMP, [1, 2, 24, 24])));
    }
    let outputs = outputs
        .into_iter()
        .map(|(port, dim)| (port, graph.tensor(Tensor::new(port.0).row_major(dim).data_type(DataType::Float))));
    let outputs = outputs.collect();
    graph.operation(Operation {
        name: "a".to_owned(),
        attributes: Attributes::Other(Other { tag: "SDPA", attributes }),
        compute_data_type: None,
        inputs: slots,
        outputs,
    });
    graph.finalize().unwrap()
}

/// O, statistics and the mask, of the same Q, K and V.
fn results(graph: &FinalizedGraph) -> [Option<Vec<f64>>; 3] {
    let inputs = random_inputs(graph, 5, Distribution::Normal).unwrap();
    let results = execute(graph, &inputs).unwrap();
    let bounds = bounds(graph, &inputs).unwrap();
    let comparison = compare(graph, &oracle(graph, &inputs), &results, Some(&bounds)).unwrap();
    assert!(comparison.is_match(), "{comparison}");
    let named = |name: &str| graph.tensor_ids().find(|&id| graph.tensor(id).name == name);
    ["O", "Stats", "RNG_DUMP"].map(|name| Some(results[&named(name)?].to_dense().unwrap()))
}

#[test]
fn statistics_know_nothing_of_what_is_dropped() {
    let [plain, dropped] = [None, Some(0.25)].map(|dropped| results(&attention(dropped)));
    assert_eq!(plain[1], dropped[1]);
    assert_ne!(plain[0], dropped[0]);
    assert!(mean(dropped[2].as_ref().unwrap()) > 0.6);
}

#[test]
fn a_probability_of_zero_is_no_dropout() {
    let (plain, none, some) = (attention(None), attention(Some(0.0)), attention(Some(0.1)));
    assert_eq!(plain.key(), none.key());
    assert_ne!(plain.key(), some.key());
    let is_dropout =
        |operation: &Operation| matches!(operation.attributes, Attributes::Composite(Composite::Dropout(_)));
    assert!(some.operations().any(is_dropout) && !none.operations().any(is_dropout));
}

#[test]
fn probabilities_may_be_rounded_before_the_factor() {
    let mut graph = float_graph();
    let x = input(&mut graph, "x", &[1, 1, 1, 2], DataType::Float);
    let mask = input(&mut graph, "mask", &[1, 1, 1, 2], DataType::Half);
    let values = input(&mut graph, "values", &[1, 1, 2, 1], DataType::Half);
    let factor = graph.tensor(Tensor::scalar("factor", DataType::Float, Scalar::Float(10.0)));
    let p = graph.softmax("softmax", x);
    let slots = [(Port::X, p), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, factor)];
    let left = graph.composite("d", MaskedDropout, &slots, &[Port::Y])[0];
    graph.tensor_mut(left).data_type = Some(DataType::Half);
    let c = graph.matmul("product", left, values);
    graph.set_output(c).data_type = Some(DataType::Half);
    let graph = graph.finalize().unwrap();
    let inputs = given(&graph, &[("x", &[0.0, -16.7]), ("mask", &[0.0, 1.0]), ("values", &[1.0, 1.0])]);
    let (expected, bounds) = (execute(&graph, &inputs).unwrap(), bounds(&graph, &inputs).unwrap());
    // e^-16.7 is 0.94 of the smallest HALF: ten of them where it is rounded first, nine where the product is
    let mismatches = |units: f64| {
        let id = graph.outputs().next().unwrap();
        let found = HostTensor::from_dense(DataType::Half, &[1; 4], &[1; 4], &[units * 2f64.powi(-24)]).unwrap();
        compare(&graph, &expected, &HostTensors::from([(id, found)]), Some(&bounds)).unwrap().outputs[0].mismatches
    };
    assert_eq!(expected[&by_name(&graph, "product::C")].to_dense::<f64>().unwrap(), [9.0 * 2f64.powi(-24)]);
    assert_eq!([9.0, 10.0, 100.0].map(mismatches), [0, 0, 1]);
}
