//! Norms: the engine beside the oracle's definition within its bounds, and both beside sums written out here in double precision.

use super::*;
use crate::graph::{BnBackwardWeights, BnFinalize, Composite, NormBackward, NormForward, NormMode, NormPhase, Scalar};

const EPSILON: f64 = 1e-3;

/// A FLOAT graph of one operation, whose results are stored; epsilon and momentum are known, other inputs are named by their ports.
fn graph_of(composite: impl Into<Composite>, inputs: &[(Port, &[i64])], outputs: &[Port]) -> FinalizedGraph {
    let mut graph = float_graph();
    let rank = inputs[0].1.len();
    let mut slots: Vec<(Port, TensorHandle)> = Vec::new();
    for &(port, dim) in inputs {
        slots.push((port, input(&mut graph, port.0, dim, DataType::Float)));
    }
    let composite = composite.into();
    for (port, value) in [(Port::EPSILON, EPSILON), (Port::MOMENTUM, 0.25), (Port::ACCUM_COUNT, 6.0)] {
        let is_used = composite.has_port(port).0
            && (port != Port::MOMENTUM || inputs.iter().any(|slot| slot.0 == Port::PREV_RUNNING_MEAN));
        if is_used {
            let scalar = Tensor::scalar(port.0, DataType::Float, Scalar::Float(value));
            slots.push((port, graph.tensor(Tensor { dim: vec![1; rank], stride: vec![1; rank], ..scalar })));
        }
    }
    for result in graph.composite("n", composite, &slots, outputs) {
        graph.set_output(result);
    }
    graph.finalize().unwrap()
}

/// What the engine makes of random inputs (statistics that are given are positive), which agrees with the oracle; inputs by port.
struct Computed {
    graph: FinalizedGraph,
    inputs: HostTensors,
    results: HostTensors,
}

impl Computed {
    fn of(graph: FinalizedGraph, seed: u64) -> Self {
        let inputs = random_inputs(&graph, seed, Distribution::Normal).unwrap();
        Self::of_inputs(graph, inputs)
    }

    fn of_inputs(graph: FinalizedGraph, inputs: HostTensors) -> Self {
        let results = execute(&graph, &inputs).unwrap();
        let bounds = bounds(&graph, &inputs).unwrap();
        let comparison = compare(&graph, &oracle(&graph, &inputs), &results, Some(&bounds)).unwrap();
        assert!(comparison.is_match(), "{comparison}");
        Self { graph, inputs, results }
    }

    fn at(&self, port: Port) -> Vec<f64> {
        let operation = self.graph.operations().next().unwrap();
        match operation.output(port) {
            Some(id) => self.results[&id].to_dense().unwrap(),
            None => self.inputs[&operation.input(port).unwrap()].to_dense().unwrap(),
        }
    }
}

/// Mean and inverse deviation of some values.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    (mean, 1.0 / (variance + EPSILON).sqrt())
}

const ROWS: usize = 3;
const COLUMNS: usize = 5;
const X: &[i64] = &[3, 5];
const PER_COLUMN: &[i64] = &[1, 5];
const PER_ROW: &[i64] = &[3, 1];

#[test]
fn a_layer_norm_by_hand() {
    let layer = NormForward::new(NormMode::Layer, NormPhase::Training);
    let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE];
    let graph = graph_of(layer, &[(Port::X, X), (Port::SCALE, PER_COLUMN), (Port::BIAS, PER_COLUMN)], &outputs);
    let computed = Computed::of(graph, 1);
    let [x, scale, bias] = [Port::X, Port::SCALE, Port::BIAS].map(|port| computed.at(port));
    let of_rows: Vec<(f64, f64)> = x.chunks(COLUMNS).map(moments).collect();
    let y = |i: usize| {
        let ((mean, inverse), column) = (of_rows[i / COLUMNS], i % COLUMNS);
        (x[i] - mean) * inverse * scale[column] + bias[column]
    };
    assert_near(&computed.at(Port::Y), &(0..ROWS * COLUMNS).map(y).collect::<Vec<_>>(), 8.0);
    assert_near(&computed.at(Port::MEAN), &of_rows.iter().map(|row| row.0).collect::<Vec<_>>(), 4.0);
    assert_near(&computed.at(Port::INV_VARIANCE), &of_rows.iter().map(|row| row.1).collect::<Vec<_>>(), 8.0);
}

#[test]
fn an_rms_norm_by_hand_with_and_without_its_parameters() {
    let rms = NormForward::new(NormMode::Rms, NormPhase::Training);
    for parameters in [&[][..], &[(Port::SCALE, PER_COLUMN)], &[(Port::SCALE, PER_COLUMN), (Port::BIAS, PER_COLUMN)]] {
        let inputs = [&[(Port::X, X)], parameters].concat();
        let computed = Computed::of(graph_of(rms, &inputs, &[Port::Y, Port::INV_VARIANCE]), 2);
        let x = computed.at(Port::X);
        let at = |port: Port, absent: f64| match parameters.iter().any(|slot| slot.0 == port) {
            true => computed.at(port),
            false => vec![absent; COLUMNS],
        };
        let (scale, bias) = (at(Port::SCALE, 1.0), at(Port::BIAS, 0.0));
        let inverse = |row: &[f64]| 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64 + EPSILON).sqrt();
        let of_rows: Vec<f64> = x.chunks(COLUMNS).map(inverse).collect();
        let y = |i: usize| x[i] * of_rows[i / COLUMNS] * scale[i % COLUMNS] + bias[i % COLUMNS];
        assert_near(&computed.at(Port::Y), &(0..ROWS * COLUMNS).map(y).collect::<Vec<_>>(), 8.0);
        assert_near(&computed.at(Port::INV_VARIANCE), &of_rows, 8.0);
    }
}

/// The derivative of `Σ dy·y` along each element of the input at a port, by differences of the forward norm.
fn numeric_gradient(mode: NormMode, values: [&[f64]; 3], dy: &[f64], along: usize) -> Vec<f64> {
    differences(values, along, |[x, scale, bias]| {
        let y = |i: usize| {
            let row = &x[i / COLUMNS * COLUMNS..][..COLUMNS];
            let (mean, inverse) = match mode {
                NormMode::Rms => {
                    let square = row.iter().map(|x| x * x).sum::<f64>() / COLUMNS as f64;
                    (0.0, 1.0 / (square + EPSILON).sqrt())
                }
                _ => moments(row),
            };
            (x[i] - mean) * inverse * scale[i % COLUMNS] + bias[i % COLUMNS]
        };
        (0..x.len()).map(|i| dy[i] * y(i)).sum()
    })
}

#[test]
fn gradients_are_those_of_the_forward_norm() {
    for mode in [NormMode::Layer, NormMode::Rms] {
        let statistics: &[(Port, &[i64])] = match mode {
            NormMode::Rms => &[(Port::INV_VARIANCE, PER_ROW)],
            _ => &[(Port::MEAN, PER_ROW), (Port::INV_VARIANCE, PER_ROW)],
        };
        let inputs = [&[(Port::X, X), (Port::DY, X), (Port::SCALE, PER_COLUMN)], statistics].concat();
        let graph = graph_of(NormBackward { mode }, &inputs, &[Port::DX, Port::DSCALE, Port::DBIAS]);
        let mut inputs = random_inputs(&graph, 3, Distribution::Normal).unwrap();
        let operation = graph.operations().next().unwrap();
        let at = |port: Port| operation.input(port).unwrap();
        let x = inputs[&at(Port::X)].to_dense::<f64>().unwrap();
        let of_rows: Vec<(f64, f64)> = x
            .chunks(COLUMNS)
            .map(|row| match mode {
                NormMode::Rms => (0.0, 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / 5.0 + EPSILON).sqrt()),
                _ => moments(row),
            })
            .collect();
        let mut set = |port: Port, values: Vec<f64>| {
            if let Some(id) = operation.input(port) {
                let tensor = graph.tensor(id);
                let host = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values);
                inputs.insert(id, host.unwrap());
            }
        };
        set(Port::MEAN, of_rows.iter().map(|row| row.0).collect());
        set(Port::INV_VARIANCE, of_rows.iter().map(|row| row.1).collect());
        let computed = Computed::of_inputs(graph.clone(), inputs);
        let [dy, scale] = [Port::DY, Port::SCALE].map(|port| computed.at(port));
        let bias = vec![0.0; COLUMNS];
        let numeric = |along| numeric_gradient(mode, [&x, &scale, &bias], &dy, along);
        for (along, port) in [Port::DX, Port::DSCALE, Port::DBIAS].into_iter().enumerate() {
            assert_near(&computed.at(port), &numeric(along), 64.0);
        }
    }
}

#[test]
fn a_batch_norm_by_hand_keeps_running_statistics_of_a_sample() {
    let (x_dim, channel): (&[i64], &[i64]) = (&[2, 3, 2, 2], &[1, 3, 1, 1]);
    let running = [Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR].map(|port| (port, channel));
    let inputs = [&[(Port::X, x_dim), (Port::SCALE, channel), (Port::BIAS, channel)], &running[..]].concat();
    let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE, Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR];
    let computed = Computed::of(graph_of(NormForward::new(NormMode::Batch, NormPhase::Training), &inputs, &outputs), 4);
    let x = computed.at(Port::X);
    let of_channel = |channel: usize| -> Vec<f64> { (0..24).filter(|i| i / 4 % 3 == channel).map(|i| x[i]).collect() };
    let (previous_mean, previous_variance) =
        (computed.at(Port::PREV_RUNNING_MEAN), computed.at(Port::PREV_RUNNING_VAR));
    for channel in 0..3 {
        let values = of_channel(channel);
        let (mean, inverse) = moments(&values);
        let of_sample = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 7.0;
        let near = |port: Port, expected: f64| assert_near(&computed.at(port)[channel..=channel], &[expected], 8.0);
        near(Port::MEAN, mean);
        near(Port::INV_VARIANCE, inverse);
        near(Port::NEXT_RUNNING_MEAN, 0.75 * previous_mean[channel] + 0.25 * mean);
        near(Port::NEXT_RUNNING_VAR, 0.75 * previous_variance[channel] + 0.25 * of_sample);
    }
}

#[test]
fn what_is_left_of_a_batch_norm_backward_is_applied_to_the_same_gradient() {
    let (x_dim, channel): (&[i64], &[i64]) = (&[2, 3, 2, 2], &[1, 3, 1, 1]);
    let vectors = [Port::SCALE, Port::MEAN, Port::INV_VARIANCE].map(|port| (port, channel));
    let inputs = [&[(Port::DY, x_dim), (Port::X, x_dim)], &vectors[..]].concat();
    let whole = Computed::of(
        graph_of(NormBackward { mode: NormMode::Batch }, &inputs, &[Port::DX, Port::DSCALE, Port::DBIAS]),
        5,
    );
    let results = [Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];
    let parts = Computed::of(graph_of(BnBackwardWeights, &inputs, &results), 5);
    assert_eq!(whole.at(Port::DY), parts.at(Port::DY), "inputs are the same");
    assert_near(&whole.at(Port::DSCALE), &parts.at(Port::DSCALE), 64.0);
    assert_near(&whole.at(Port::DBIAS), &parts.at(Port::DBIAS), 64.0);
    let [dy, x, a, b, c] =
        [Port::DY, Port::X, Port::EQ_SCALE_DY, Port::EQ_SCALE_X, Port::EQ_BIAS].map(|port| parts.at(port));
    let applied = |i: usize| a[i / 4 % 3] * dy[i] + b[i / 4 % 3] * x[i] + c[i / 4 % 3];
    assert_near(&whole.at(Port::DX), &(0..24).map(applied).collect::<Vec<_>>(), 64.0);
}

#[test]
fn statistics_of_sums_are_those_of_what_was_summed() {
    let channel: &[i64] = &[1, 2, 1, 1];
    let running = [Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR].map(|port| (port, channel));
    let parameters = [Port::SUM, Port::SQ_SUM, Port::SCALE, Port::BIAS].map(|port| (port, channel));
    let outputs = [
        Port::EQ_SCALE,
        Port::EQ_BIAS,
        Port::MEAN,
        Port::INV_VARIANCE,
        Port::NEXT_RUNNING_MEAN,
        Port::NEXT_RUNNING_VAR,
    ];
    let graph = graph_of(BnFinalize::default(), &[&parameters[..], &running[..]].concat(), &outputs);
    // Six elements each: 1 … 6, and six times 2.
    let inputs = given(
        &graph,
        &[
            ("SUM", &[21.0, 12.0]),
            ("SQ_SUM", &[91.0, 24.0]),
            ("SCALE", &[2.0, 3.0]),
            ("BIAS", &[1.0, -1.0]),
            ("PREV_RUNNING_MEAN", &[0.0, 4.0]),
            ("PREV_RUNNING_VAR", &[1.0, 8.0]),
        ],
    );
    let computed = Computed::of_inputs(graph, inputs);
    let inverse = [1.0 / (35.0f64 / 12.0 + EPSILON).sqrt(), 1.0 / EPSILON.sqrt()];
    assert_near(&computed.at(Port::MEAN), &[3.5, 2.0], 4.0);
    assert_near(&computed.at(Port::INV_VARIANCE), &inverse, 32.0);
    assert_near(&computed.at(Port::EQ_SCALE), &[2.0 * inverse[0], 3.0 * inverse[1]], 96.0);
    assert_near(&computed.at(Port::EQ_BIAS), &[1.0 - 7.0 * inverse[0], -1.0 - 6.0 * inverse[1]], 256.0);
    assert_near(&computed.at(Port::NEXT_RUNNING_MEAN), &[0.875, 3.5], 4.0);
    assert_near(&computed.at(Port::NEXT_RUNNING_VAR), &[0.75 + 0.25 * 3.5, 6.0], 8.0);
}

/// The mean of the squares and the square of the mean agree in all that FLOAT holds of them: in FLOAT the variance is 0.
#[test]
fn sums_with_deviations_a_ten_thousandth_of_the_mean_have_their_variance() {
    let channel: &[i64] = &[1, 2, 1, 1];
    let parameters = [Port::SUM, Port::SQ_SUM, Port::SCALE, Port::BIAS].map(|port| (port, channel));
    let outputs = [Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE];
    let graph = graph_of(BnFinalize::default(), &parameters, &outputs);
    let (sums, squares) = ([77454.0, 2446040.0], [999853696.0, 997185290240.0]);
    let (scale, bias) = ([1.0, 2.0], [0.5, -0.5]);
    let inputs = given(&graph, &[("SUM", &sums), ("SQ_SUM", &squares), ("SCALE", &scale), ("BIAS", &bias)]);
    let computed = Computed::of_inputs(graph, inputs);
    for channel in 0..2 {
        let mean: f64 = sums[channel] / 6.0;
        let variance = squares[channel] / 6.0 - mean * mean;
        assert!((9990.0..10010.0).contains(&(mean / variance.sqrt())), "{mean} {variance}");
        assert_eq!(squares[channel] as f32 / 6.0, (mean * mean) as f32, "the variance would be 0");
        let inverse = 1.0 / (variance + EPSILON).sqrt();
        let near =
            |port: Port, expected: f64| assert_near(&computed.at(port)[channel..=channel], &[expected], expected);
        near(Port::MEAN, mean);
        near(Port::INV_VARIANCE, inverse);
        near(Port::EQ_SCALE, scale[channel] * inverse);
        assert_near(
            &computed.at(Port::EQ_BIAS)[channel..=channel],
            &[bias[channel] - mean * scale[channel] * inverse],
            1e4,
        );
    }
}

#[test]
fn constant_rows_have_no_deviation_and_rows_of_one_element_are_their_bias() {
    let layer = NormForward::new(NormMode::Layer, NormPhase::Training);
    let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE];
    let graph = graph_of(layer, &[(Port::X, X), (Port::SCALE, PER_COLUMN), (Port::BIAS, PER_COLUMN)], &outputs);
    let bias = [1.0, 2.0, 3.0, 4.0, 5.0];
    let x: Vec<f64> = [7.0, -0.5, 1024.0].into_iter().flat_map(|x| [x; COLUMNS]).collect();
    let inputs = given(&graph, &[("X", &x), ("SCALE", &[9.0; COLUMNS]), ("BIAS", &bias)]);
    let computed = Computed::of_inputs(graph, inputs);
    assert_eq!(computed.at(Port::Y), [bias, bias, bias].concat());
    assert_eq!(computed.at(Port::MEAN), [7.0, -0.5, 1024.0]);
    let one: &[i64] = &[4, 1];
    let single = graph_of(layer, &[(Port::X, one), (Port::SCALE, &[1, 1]), (Port::BIAS, &[1, 1])], &[Port::Y]);
    let inputs = given(&single, &[("X", &[1.0, -3.0, 0.0, 1e30]), ("SCALE", &[2.0]), ("BIAS", &[0.5])]);
    assert_eq!(Computed::of_inputs(single, inputs).at(Port::Y), [0.5; 4]);
}

#[test]
fn what_is_no_number_spoils_its_set_alone() {
    let rms = NormForward::new(NormMode::Rms, NormPhase::Inference);
    let layer = NormForward::new(NormMode::Layer, NormPhase::Inference);
    for (norm, spoilt) in [(layer, f64::NAN), (layer, f64::INFINITY), (rms, f64::NAN)] {
        let graph = graph_of(norm, &[(Port::X, X), (Port::SCALE, PER_COLUMN)], &[Port::Y]);
        let mut x = [1.0, 2.0, 3.0, 4.0, 5.0].repeat(3);
        x[6] = spoilt;
        let inputs = given(&graph, &[("X", &x), ("SCALE", &[1.0; COLUMNS])]);
        let y = Computed::of_inputs(graph, inputs).at(Port::Y);
        assert!(y[COLUMNS..2 * COLUMNS].iter().all(|y| y.is_nan()), "{y:?}");
        assert!(y[..COLUMNS].iter().chain(&y[2 * COLUMNS..]).all(|y| y.is_finite()), "{y:?}");
    }
}

/// Images of twelve channels in three groups.
const GROUPED: &[i64] = &[2, 12, 3];
const GROUPS: i64 = 3;
const OF_GROUPS: &[i64] = &[2, GROUPS, 1];
const PER_CHANNEL: &[i64] = &[1, 12, 1];

/// Elements of a group, and of a channel.
const GROUP: usize = 12;
const PIXELS: usize = 3;

/// A group norm in double precision, of values that lie row by row: groups are stretches of them.
fn group_norm([x, scale, bias]: [&[f64]; 3]) -> Vec<f64> {
    let of_groups: Vec<(f64, f64)> = x.chunks(GROUP).map(moments).collect();
    let y = |(i, x): (usize, &f64)| {
        let ((mean, inverse), channel) = (of_groups[i / GROUP], i / PIXELS % scale.len());
        (x - mean) * inverse * scale[channel] + bias[channel]
    };
    x.iter().enumerate().map(y).collect()
}

#[test]
fn a_group_norm_by_hand_in_every_layout_with_and_without_its_parameters() {
    let norm = NormForward::new(NormMode::groups(GROUPS), NormPhase::Training);
    let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE];
    let both = [(Port::SCALE, PER_CHANNEL), (Port::BIAS, PER_CHANNEL)];
    for (seed, parameters) in [&both[..0], &both[..1], &both].into_iter().enumerate() {
        let inputs = [&[(Port::X, GROUPED)], parameters].concat();
        for is_channels_last in [false, true] {
            let mut graph = graph_of(norm, &inputs, &outputs).to_graph();
            if is_channels_last {
                let x = graph.operations()[0].input(Port::X).unwrap();
                graph.tensor_mut(x).stride = vec![36, 1, 12];
            }
            let computed = Computed::of(graph.finalize().unwrap(), seed as u64);
            let x = computed.at(Port::X);
            let at = |port: Port, absent: f64| match parameters.iter().any(|slot| slot.0 == port) {
                true => computed.at(port),
                false => vec![absent; 12],
            };
            let expected = group_norm([&x, &at(Port::SCALE, 1.0), &at(Port::BIAS, 0.0)]);
            assert_near(&computed.at(Port::Y), &expected, 16.0);
            let (means, inverses): (Vec<f64>, Vec<f64>) = x.chunks(GROUP).map(moments).unzip();
            assert_near(&computed.at(Port::MEAN), &means, 4.0);
            assert_near(&computed.at(Port::INV_VARIANCE), &inverses, 8.0);
        }
    }
}

#[test]
fn gradients_of_a_group_norm_are_those_of_the_forward_norm() {
    let inputs = [
        (Port::X, GROUPED),
        (Port::DY, GROUPED),
        (Port::SCALE, PER_CHANNEL),
        (Port::MEAN, OF_GROUPS),
        (Port::INV_VARIANCE, OF_GROUPS),
    ];
    let mode = NormMode::Group { count: None };
    let graph = graph_of(NormBackward { mode }, &inputs, &[Port::DX, Port::DSCALE, Port::DBIAS]);
    let mut inputs = random_inputs(&graph, 8, Distribution::Normal).unwrap();
    let operation = graph.operations().next().unwrap();
    let x: Vec<f64> = inputs[&operation.input(Port::X).unwrap()].to_dense().unwrap();
    let (means, inverses): (Vec<f64>, Vec<f64>) = x.chunks(GROUP).map(moments).unzip();
    for (port, values) in [(Port::MEAN, means), (Port::INV_VARIANCE, inverses)] {
        let id = operation.input(port).unwrap();
        let tensor = graph.tensor(id);
        let host = HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values);
        inputs.insert(id, host.unwrap());
    }
    let computed = Computed::of_inputs(graph.clone(), inputs);
    let [dy, scale] = [Port::DY, Port::SCALE].map(|port| computed.at(port));
    let bias = vec![0.0; 12];
    for (along, port) in [Port::DX, Port::DSCALE, Port::DBIAS].into_iter().enumerate() {
        let numeric = differences([&x, &scale, &bias], along, |values| {
            group_norm(values).iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        });
        assert_near(&computed.at(port), &numeric, 64.0);
    }
}
