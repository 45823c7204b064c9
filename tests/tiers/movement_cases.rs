//! Concatenations and signals of the numeric suite, and what they share with resamplings.

use fusewright::device::ComputeCapability;
use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32, Int64, UInt8};
use fusewright::graph::{
    Attributes, Concat, Convolution, ConvolutionDirection, Graph, Operation, PointwiseMode, Port, Signal, SignalMode,
    Tensor, TensorHandle,
};

use crate::cases::{Case, graph, output, push};
use crate::resample_cases::resamplings;

/// Adds the cases of this file.
pub(crate) fn movements(cases: &mut Vec<Case>) {
    resamplings(cases);
    concats_before_matmuls(cases);
    concats_before_convolutions(cases);
    signals(cases);
    on_older_chips(cases);
}

/// Adds an operation with up to two results.
pub(crate) fn operation(
    g: &mut Graph,
    attributes: Attributes,
    inputs: Vec<(Port, TensorHandle)>,
    outputs: [(Port, Option<TensorHandle>); 2],
) {
    let outputs = outputs.into_iter().filter_map(|(port, id)| Some((port, id?))).collect();
    g.operation(Operation { name: "move".to_owned(), attributes, compute_data_type: None, inputs, outputs });
}

/// A 3×3 convolution of `channels[0]` to `channels[1]` channels, in groups, of a 7×6 image; its virtual result.
pub(crate) fn convolution(g: &mut Graph, [c, k]: [i64; 2], groups: i64) -> TensorHandle {
    let x = g.tensor(Tensor::new("x").channels_last([2, c, 7, 6]));
    let w = g.tensor(Tensor::new("w").channels_last([k, c / groups, 3, 3]));
    let attributes = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
    let y = g.convolution("conv", attributes, [x, w]);
    *g.tensor_mut(y) = Tensor { is_virtual: true, ..Tensor::new("y").channels_last([2, k, 7, 6]).data_type(Float) };
    y
}

/// Cases again on a chip without tensor cores, where operands are staged element by element.
fn on_older_chips(cases: &mut Vec<Case>) {
    let chosen = [
        "concat_k_half",
        "concat_channels_fprop_scale_bias_relu",
        "concat_channels_ragged_wgrad",
        "concat_nested",
        "conv_fprop_add_maxpool",
        "conv_fprop_add_avgpool_exclude_padding_ragged",
        "signal_concat_matmul",
    ];
    let again: Vec<Case> = cases
        .iter()
        .filter(|case| chosen.contains(&case.name.as_str()))
        .map(|case| {
            let name = format!("{}_on_sm_70", case.name);
            Case { graph: case.graph.clone().name(name.clone()), name, capability: ComputeCapability::new(7, 0) }
        })
        .collect();
    cases.extend(again);
}

/// `dim` with other extents along an axis, an input each.
fn parts(g: &mut Graph, dim: &[i64], axis: usize, extents: &[i64], data_type: DataType) -> Vec<TensorHandle> {
    let part = |(number, &extent): (usize, &i64)| {
        let mut dim = dim.to_vec();
        dim[axis] = extent;
        let tensor = Tensor::new(format!("part{number}")).data_type(data_type);
        g.tensor(if dim.len() == 3 { tensor.row_major(dim) } else { tensor.channels_last(dim) })
    };
    extents.iter().enumerate().map(part).collect()
}

fn joined(g: &mut Graph, axis: usize, parts: &[TensorHandle], data_type: DataType) -> TensorHandle {
    let y = g.concatenate("join", axis as i64, parts);
    g.tensor_mut(y).data_type = Some(data_type);
    y
}

fn concats_before_matmuls(cases: &mut Vec<Case>) {
    let shapes: [(usize, &str, &[i64]); 6] = [
        (0, "batch", &[1, 2]),
        (1, "rows", &[3, 16, 1]),
        (2, "k", &[16, 8, 40]),
        (2, "k_ragged", &[3, 13, 1, 5]),
        (1, "rows_of_one", &[20]),
        (2, "k_odd", &[24, 9]),
    ];
    for (axis, name, extents) in shapes {
        for data_type in [Half, Float, Int8] {
            for scales in [false, true] {
                let mut dim = [2, 20, 32];
                let mut g = graph(data_type);
                let parts = parts(&mut g, &dim, axis, extents, data_type);
                dim[axis] = extents.iter().sum();
                let mut a = joined(&mut g, axis, &parts, data_type);
                if scales && data_type != Int8 {
                    let row = g.tensor(Tensor::new("row").row_major([dim[0], dim[1], 1]));
                    a = g.pointwise("scaled", PointwiseMode::Mul, &[a, row]);
                    g.tensor_mut(a).data_type = Some(data_type);
                } else if scales {
                    continue;
                }
                let b = g.tensor(Tensor::new("B").row_major([dim[0], dim[2], 24]));
                let c = g.matmul("mm", a, b);
                g.last_operation().compute_data_type = Some(if data_type == Int8 { Int32 } else { Float });
                output(&mut g, c, Float);
                let suffix = if scales { "_scaled" } else { "" };
                let name = format!("concat_{name}_{}{suffix}", data_type.name().to_ascii_lowercase());
                push(cases, name, g);
            }
        }
    }
    nested_concat(cases);
}

/// A concatenation of concatenations along other axes, one tensor twice, one part that lies in the output already.
fn nested_concat(cases: &mut Vec<Case>) {
    let mut g = graph(Half);
    let left = parts(&mut g, &[2, 20, 16], 2, &[16, 8], Half);
    let left = joined(&mut g, 2, &left, Half);
    let lower = g.tensor(Tensor::new("lower").row_major([2, 6, 24]));
    let rows = joined(&mut g, 1, &[lower, left, lower], Half);
    g.last_operation().attributes = Attributes::Concat(Concat { axis: 1, in_place_index: Some(1) });
    let more = g.tensor(Tensor::new("more").row_major([1, 32, 24]));
    let a = joined(&mut g, 0, &[more, rows], Half);
    let b = g.tensor(Tensor::new("B").row_major([3, 24, 40]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, Half);
    push(cases, "concat_nested", g);
}

fn concats_before_convolutions(cases: &mut Vec<Case>) {
    let shapes: [(usize, &str, &[i64]); 5] = [
        (0, "images", &[1, 2]),
        (1, "channels", &[8, 16, 8]),
        (1, "channels_ragged", &[3, 5, 1]),
        (2, "height", &[1, 5, 2]),
        (3, "width", &[4, 3]),
    ];
    for (axis, name, extents) in shapes {
        for (direction, label) in
            [(ConvolutionDirection::Forward, "fprop"), (ConvolutionDirection::BackwardFilter, "wgrad")]
        {
            for chained in [false, true] {
                let mut g = graph(Half);
                let mut dim = [2, 16, 8, 7];
                let parts = parts(&mut g, &dim, axis, extents, Half);
                dim[axis] = extents.iter().sum();
                let mut x = joined(&mut g, axis, &parts, Half);
                if chained {
                    x = chain(&mut g, x, dim[1]);
                }
                convolve_joined(&mut g, direction, x, dim);
                let suffix = if chained { "_scale_bias_relu" } else { "" };
                push(cases, format!("concat_{name}_{label}{suffix}"), g);
            }
        }
    }
    grouped_concat(cases);
}

/// A grouped convolution of an image whose groups lie in three tensors.
fn grouped_concat(cases: &mut Vec<Case>) {
    let mut g = graph(Half);
    let parts = parts(&mut g, &[2, 32, 7, 6], 1, &[8, 16, 8], Half);
    let x = joined(&mut g, 1, &parts, Half);
    let w = g.tensor(Tensor::new("w").channels_last([24, 16, 3, 3]));
    let y = g.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]), [x, w]);
    output(&mut g, y, Half);
    push(cases, "concat_channels_grouped", g);
}

/// Scale, bias and ReLU by channel.
fn chain(g: &mut Graph, x: TensorHandle, channels: i64) -> TensorHandle {
    let [scale, bias] = ["scale", "bias"].map(|name| g.tensor(Tensor::new(name).channels_last([1, channels, 1, 1])));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
    let shifted = g.pointwise("shifted", PointwiseMode::Add, &[scaled, bias]);
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[shifted]);
    for id in [scaled, shifted, relu] {
        g.tensor_mut(id).data_type = Some(Half);
    }
    relu
}

/// A padded 3×3 convolution of a joined image of these dims, or its filter gradient.
fn convolve_joined(g: &mut Graph, direction: ConvolutionDirection, x: TensorHandle, dim: [i64; 4]) {
    let [n, c, h, w] = dim;
    let attributes = Convolution::new(direction, 2).padding([1, 1]);
    let (other, result) = match direction {
        ConvolutionDirection::Forward => ([24, c, 3, 3], [n, 24, h, w]),
        _ => ([n, 24, h, w], [24, c, 3, 3]),
    };
    let other = g.tensor(Tensor::new("other").channels_last(other));
    let inputs = if direction == ConvolutionDirection::Forward { [x, other] } else { [other, x] };
    let y = g.convolution("conv", attributes, inputs);
    *g.tensor_mut(y) = Tensor::new("result").channels_last(result).data_type(Half);
    g.set_output(y);
}

/// A signal on X, which is HALF; its result, virtual.
fn signal(g: &mut Graph, mode: SignalMode, value: i64, x: TensorHandle, flag: TensorHandle) -> TensorHandle {
    let y = g.tensor(Tensor { is_virtual: true, ..Tensor::new(format!("signalled {value}")).data_type(Half) });
    let attributes = Attributes::Signal(Signal { mode, value });
    operation(g, attributes, vec![(Port::X, x), (Port::FLAG, flag)], [(Port::Y, Some(y)), (Port::INDEX, None)]);
    y
}

fn flag(g: &mut Graph, name: &str, rank: usize) -> TensorHandle {
    g.tensor(Tensor::new(name).row_major(vec![1; rank]).data_type(Int32))
}

fn signals(cases: &mut Vec<Case>) {
    signals_around_matmuls(cases);
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 24, 5, 7]));
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    g.tensor_mut(relu).data_type = Some(Half);
    let ready = flag(&mut g, "ready", 4);
    let done = flag(&mut g, "done", 4);
    let waited = signal(&mut g, SignalMode::Wait, 5, relu, ready);
    let set = signal(&mut g, SignalMode::Set, 7, waited, done);
    let again = signal(&mut g, SignalMode::Wait, 1, set, ready);
    g.last_operation().attributes = Attributes::Signal(Signal { mode: SignalMode::Wait, value: 5 });
    output(&mut g, again, Half);
    push(cases, "signal_chain_pointwise", g);
    for data_type in [Half, BFloat16, Float, Int8, UInt8, Int32, Fp8E4M3, Fp8E5M2, Boolean] {
        let mut g = graph(data_type);
        let x = g.tensor(Tensor::new("x").channels_last([2, 24, 5, 7]).data_type(Int64));
        let ready = flag(&mut g, "ready", 4);
        let waited = signal(&mut g, SignalMode::Wait, 3, x, ready);
        output(&mut g, waited, data_type);
        push(cases, format!("signal_of_int64_to_{}", data_type.name().to_ascii_lowercase()), g);
    }

    let mut g = graph(Float);
    let x = g.tensor(Tensor::new("x").row_major([2, 9, 20]));
    let y = g.pointwise("neg", PointwiseMode::Neg, &[x]);
    output(&mut g, y, Float);
    let done = flag(&mut g, "done", 3);
    let attributes = Attributes::Signal(Signal { mode: SignalMode::Set, value: -3 });
    operation(&mut g, attributes, vec![(Port::X, y), (Port::FLAG, done)], [(Port::Y, None), (Port::INDEX, None)]);
    push(cases, "signal_set_without_result", g);

    let mut g = graph(Half);
    let y = convolution(&mut g, [16, 24], 1);
    let done = flag(&mut g, "done", 4);
    let set = signal(&mut g, SignalMode::Set, 9, y, done);
    output(&mut g, set, Half);
    push(cases, "signal_set_after_convolution", g);
}

fn signals_around_matmuls(cases: &mut Vec<Case>) {
    for joins in [false, true] {
        let mut g = graph(Half);
        let ready = flag(&mut g, "ready", 3);
        let done = flag(&mut g, "done", 3);
        let a = g.tensor(Tensor::new("A").row_major([2, 20, 16]));
        let mut left = signal(&mut g, SignalMode::Wait, 1, a, ready);
        let mut depth = 16;
        if joins {
            let more = g.tensor(Tensor::new("more").row_major([2, 20, 8]));
            left = joined(&mut g, 2, &[more, left], Half);
            depth = 24;
        }
        let b = g.tensor(Tensor::new("B").row_major([2, depth, 24]));
        let c = g.matmul("mm", left, b);
        let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
        g.tensor_mut(relu).data_type = Some(Half);
        let set = signal(&mut g, SignalMode::Set, 2, relu, done);
        output(&mut g, set, Half);
        push(cases, if joins { "signal_concat_matmul" } else { "signal_matmul" }, g);
    }
}
