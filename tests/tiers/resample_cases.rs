//! Resamplings of the numeric suite: modes, layouts, shapes, types, fusions.

use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Half, Int8, Int32, Int64};
use fusewright::graph::ResampleMode::{
    AvgpoolExcludePadding as Exclude, AvgpoolIncludePadding as Include, Bilinear, Maxpool,
};
use fusewright::graph::{
    Attributes, Convolution, ConvolutionDirection, Fraction, Graph, PaddingMode, PointwiseMode, Port, ReductionMode,
    Resample, ResampleMode, Tensor, TensorHandle,
};

use crate::cases::{Case, graph, output, push};
use crate::movement_cases::{convolution, operation};

/// Adds the cases of this file.
pub(crate) fn resamplings(cases: &mut Vec<Case>) {
    poolings(cases);
    pooling_types(cases);
    far_poolings(cases);
    gradients(cases);
    interpolations(cases);
    pooled_pointwise(cases);
    pooled_side_results(cases);
    pooled_epilogues(cases);
    other_epilogues(cases);
}

/// Graphs whose offsets need 64 bits: only compiled, as they are too large to run.
pub(crate) fn wide(cases: &mut Vec<Case>) {
    let pooling = Pooling::new(Maxpool, &[3, 64, 5000, 5001], &[3, 3], &[1, 1], &[1, 1]);
    push(cases, "wide_resample", pooling.forward_graph(Some(Int8)));
    push(cases, "wide_resample_bwd", pooling.backward_graph(Some(Int8)));
}

/// A pooling of an image.
#[derive(Clone)]
struct Pooling {
    mode: ResampleMode,
    dim: Vec<i64>,
    window: Vec<i64>,
    stride: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    channels_first: bool,
    data_type: DataType,
}

impl Pooling {
    fn new(mode: ResampleMode, dim: &[i64], window: &[i64], stride: &[i64], padding: &[i64]) -> Self {
        Self {
            mode,
            dim: dim.to_vec(),
            window: window.to_vec(),
            stride: stride.to_vec(),
            pre: padding.to_vec(),
            post: padding.to_vec(),
            channels_first: false,
            data_type: Half,
        }
    }

    fn attributes(&self) -> Resample {
        let whole = |values: &[i64]| values.iter().map(|&value| Fraction::whole(value)).collect();
        Resample {
            mode: self.mode,
            padding_mode: if self.mode == Maxpool { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad },
            window: whole(&self.window),
            stride: whole(&self.stride),
            pre_padding: whole(&self.pre),
            post_padding: whole(&self.post),
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    fn pooled(&self) -> Vec<i64> {
        let extent = |axis: usize| {
            1 + (self.dim[axis + 2] + self.pre[axis] + self.post[axis] - self.window[axis]) / self.stride[axis]
        };
        self.dim[..2].iter().copied().chain((0..self.window.len()).map(extent)).collect()
    }

    fn tensor(&self, g: &mut Graph, name: &str, dim: Vec<i64>, data_type: DataType) -> TensorHandle {
        let tensor = Tensor::new(name).data_type(data_type);
        g.tensor(if self.channels_first { tensor.row_major(dim) } else { tensor.channels_last(dim) })
    }

    /// Y and, if asked for, the index, of X; both virtual.
    fn forward(&self, g: &mut Graph, index: Option<DataType>) -> (TensorHandle, Option<TensorHandle>) {
        let x = self.tensor(g, "image", self.dim.clone(), self.data_type);
        let mut result = |name: &str, data_type| {
            let id = self.tensor(g, name, self.pooled(), data_type);
            g.tensor_mut(id).is_virtual = true;
            id
        };
        let y = result("pooled", self.data_type);
        let index = index.map(|data_type| result("index", data_type));
        let outputs = [(Port::Y, Some(y)), (Port::INDEX, index)];
        operation(g, Attributes::ResampleForward(self.attributes()), vec![(Port::X, x)], outputs);
        (y, index)
    }

    /// DX, virtual; maxima come from an index or, where there is none, from X.
    fn backward(&self, g: &mut Graph, index: Option<DataType>) -> TensorHandle {
        let mut inputs = vec![(Port::DY, self.tensor(g, "dy", self.pooled(), self.data_type))];
        if self.mode == Maxpool && (self.channels_first || index.is_none()) {
            inputs.push((Port::X, self.tensor(g, "image", self.dim.clone(), self.data_type)));
            inputs.push((Port::Y, self.tensor(g, "pooled", self.pooled(), self.data_type)));
        }
        inputs.extend(index.map(|data_type| (Port::INDEX, self.tensor(g, "index", self.pooled(), data_type))));
        let dx = self.tensor(g, "dx", self.dim.clone(), self.data_type);
        g.tensor_mut(dx).is_virtual = true;
        operation(
            g,
            Attributes::ResampleBackward(self.attributes()),
            inputs,
            [(Port::DX, Some(dx)), (Port::INDEX, None)],
        );
        dx
    }

    fn forward_graph(&self, index: Option<DataType>) -> Graph {
        let mut g = graph(self.data_type);
        let (y, index) = self.forward(&mut g, index);
        for id in [Some(y), index].into_iter().flatten() {
            g.tensor_mut(id).is_virtual = false;
        }
        g
    }

    fn backward_graph(&self, index: Option<DataType>) -> Graph {
        let mut g = graph(self.data_type);
        let dx = self.backward(&mut g, index);
        g.tensor_mut(dx).is_virtual = false;
        g
    }
}

fn label(mode: ResampleMode) -> String {
    mode.name().to_ascii_lowercase()
}

const MODES: [ResampleMode; 3] = [Include, Exclude, Maxpool];

/// Images with windows: in vectors of channels and not, overlapping and apart, partly and wholly in the padding.
fn shapes(mode: ResampleMode) -> Vec<(&'static str, Pooling)> {
    let asymmetric =
        Pooling { pre: vec![0, 2], post: vec![2, 1], ..Pooling::new(mode, &[2, 24, 8, 9], &[3, 2], &[2, 3], &[0, 0]) };
    vec![
        ("3x3", Pooling::new(mode, &[2, 16, 9, 7], &[3, 3], &[2, 2], &[1, 1])),
        ("2x2", Pooling::new(mode, &[2, 32, 8, 6], &[2, 2], &[2, 2], &[0, 0])),
        ("gaps", Pooling::new(mode, &[2, 12, 9, 11], &[2, 2], &[3, 4], &[0, 1])),
        ("ragged", Pooling::new(mode, &[3, 5, 7, 6], &[3, 2], &[1, 2], &[1, 0])),
        ("asymmetric", asymmetric),
        ("in_padding", Pooling::new(mode, &[1, 8, 3, 4], &[2, 2], &[1, 2], &[3, 4])),
        ("global", Pooling::new(mode, &[2, 16, 6, 5], &[6, 5], &[1, 1], &[0, 0])),
        ("one", Pooling::new(mode, &[1, 1, 4, 1], &[2, 1], &[2, 1], &[0, 0])),
        ("3d", Pooling::new(mode, &[1, 16, 5, 6, 7], &[2, 3, 2], &[2, 1, 2], &[1, 1, 0])),
        ("3d_ragged", Pooling::new(mode, &[2, 3, 3, 4, 5], &[3, 2, 2], &[1, 2, 1], &[1, 0, 1])),
    ]
}

/// As [`shapes`]; outside of NHWC padding is the same before and after (OP-RF-NCHW-PAD).
fn layouts(mode: ResampleMode) -> Vec<(String, Pooling)> {
    let mut all = Vec::new();
    for (shape, pooling) in shapes(mode) {
        all.push((shape.to_owned(), pooling.clone()));
        if shape != "asymmetric" {
            all.push((format!("{shape}_channels_first"), Pooling { channels_first: true, ..pooling }));
        }
    }
    all
}

fn poolings(cases: &mut Vec<Case>) {
    for mode in MODES {
        for (shape, pooling) in layouts(mode) {
            push(cases, format!("resample_{}_{shape}", label(mode)), pooling.forward_graph(None));
            if mode == Maxpool {
                push(cases, format!("resample_maxpool_index_{shape}"), pooling.forward_graph(Some(Int8)));
            }
        }
    }
}

fn pooling_types(cases: &mut Vec<Case>) {
    for data_type in [Float, BFloat16, Int8] {
        let name = data_type.name().to_ascii_lowercase();
        for mode in MODES {
            let pooling = Pooling { data_type, ..shapes(mode)[0].1.clone() };
            push(cases, format!("resample_{}_{name}", label(mode)), pooling.forward_graph(None));
            let index = (mode == Maxpool).then_some(Int32);
            push(cases, format!("resample_bwd_{}_{name}", label(mode)), pooling.backward_graph(index));
        }
    }
    for index in [Int32, Int64] {
        let name = index.name().to_ascii_lowercase();
        let pooling = shapes(Maxpool)[0].1.clone();
        push(cases, format!("resample_maxpool_index_{name}"), pooling.forward_graph(Some(index)));
    }
    let wide = Pooling { dim: vec![1, 8, 20, 21], window: vec![16, 16], ..shapes(Maxpool)[0].1.clone() };
    push(cases, "resample_maxpool_index_of_256", wide.forward_graph(Some(Int32)));
}

/// Windows so far outside of the image that their coordinates need 64 bits.
fn far_poolings(cases: &mut Vec<Case>) {
    for (name, is_backward) in [("", false), ("_bwd", true)] {
        for mode in MODES {
            let (gap, far) = (1 << 30, 1 << 31);
            let pooling =
                Pooling { post: vec![1, far - 2], ..Pooling::new(mode, &[2, 8, 5, 4], &[2, 1], &[2, gap], &[1, far]) };
            let index = (mode == Maxpool).then_some(Int8);
            let graph = if is_backward { pooling.backward_graph(index) } else { pooling.forward_graph(index) };
            push(cases, format!("resample{name}_{}_far_padding", label(mode)), graph);
        }
    }
}

fn gradients(cases: &mut Vec<Case>) {
    for mode in MODES {
        for (shape, pooling) in layouts(mode) {
            let index = (mode == Maxpool && !pooling.channels_first).then_some(Int8);
            // one channel or one pixel lies in either layout, and counts as NHWC
            let pooled = pooling.pooled();
            let is_either = pooled[1] == 1 || pooled[2..].iter().all(|&extent| extent == 1);
            if !is_either || mode != Maxpool || index.is_some() {
                push(cases, format!("resample_bwd_{}_{shape}", label(mode)), pooling.backward_graph(index));
            }
        }
    }
    let mut pooling = shapes(Maxpool)[0].1.clone();
    pooling.channels_first = true;
    push(cases, "resample_bwd_maxpool_channels_first_with_index", pooling.backward_graph(Some(Int32)));
}

/// A graph that breaks only what resamplings ask of the chip.
pub(crate) fn pooled() -> Graph {
    shapes(Maxpool)[0].1.forward_graph(None)
}

fn doubling(spatial: usize) -> Resample {
    let half = Fraction { numerator: 1, denominator: 2 };
    Resample {
        mode: Bilinear,
        padding_mode: PaddingMode::EdgeValPad,
        window: vec![Fraction::whole(2); spatial],
        stride: vec![half; spatial],
        pre_padding: vec![half; spatial],
        post_padding: vec![Fraction::whole(1); spatial],
        generate_index: None,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// An image of twice the spatial extents, virtual.
fn doubled(g: &mut Graph, dim: &[i64]) -> TensorHandle {
    let x = g.tensor(Tensor::new("small").channels_last(dim).data_type(Float));
    let result = dim.iter().enumerate().map(|(axis, extent)| if axis < 2 { *extent } else { extent * 2 });
    let y = g.tensor(Tensor::new("doubled").channels_last(result.collect::<Vec<_>>()).data_type(Float));
    g.tensor_mut(y).is_virtual = true;
    let outputs = [(Port::Y, Some(y)), (Port::INDEX, None)];
    operation(g, Attributes::ResampleForward(doubling(dim.len() - 2)), vec![(Port::X, x)], outputs);
    y
}

fn interpolations(cases: &mut Vec<Case>) {
    for (shape, dim) in [
        ("2d", vec![2, 12, 5, 7]),
        ("ragged", vec![3, 3, 4, 1]),
        ("3d", vec![1, 8, 3, 4, 2]),
        ("3d_one", vec![1, 1, 1, 3, 2]),
    ] {
        let mut g = graph(Float);
        let y = doubled(&mut g, &dim);
        g.tensor_mut(y).is_virtual = false;
        push(cases, format!("resample_bilinear_{shape}"), g);
    }
}

fn pooled_pointwise(cases: &mut Vec<Case>) {
    for mode in MODES {
        for (shape, channels) in [("", 16), ("_ragged", 7)] {
            let pooling = Pooling::new(mode, &[2, channels, 9, 8], &[3, 2], &[2, 2], &[1, 0]);
            let mut g = graph(Half);
            let (pooled, _) = pooling.forward(&mut g, None);
            g.tensor_mut(pooled).data_type = Some(Float);
            let residual = g.tensor(Tensor::new("residual").channels_last(pooling.pooled()));
            let sum = g.pointwise("sum", PointwiseMode::Add, &[pooled, residual]);
            output(&mut g, sum, Half);
            let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
            output(&mut g, relu, Int8);
            push(cases, format!("resample_{}_add_relu{shape}", label(mode)), g);

            let mut g = graph(Half);
            let (pooled, _) = pooling.forward(&mut g, None);
            g.tensor_mut(pooled).data_type = Some(Float);
            let sum = g.reduction("sum", ReductionMode::Add, pooled, [1, channels, 1, 1]);
            output(&mut g, sum, Float);
            push(cases, format!("resample_{}_channel_sum{shape}", label(mode)), g);
        }
    }
}

/// Indices, packed booleans and gradients beside pooled values.
fn pooled_side_results(cases: &mut Vec<Case>) {
    let mut g = graph(Half);
    let pooling = Pooling::new(Maxpool, &[2, 24, 6, 5], &[3, 3], &[1, 1], &[1, 1]);
    let (pooled, _) = pooling.forward(&mut g, None);
    let image = g.last_operation().inputs[0].1;
    let peaks = g.pointwise("peaks", PointwiseMode::CmpEq, &[image, pooled]);
    output(&mut g, peaks, Int8);
    push(cases, "resample_maxpool_of_what_is_compared", g);

    let pooling = shapes(Maxpool)[0].1.clone();
    let mut g = graph(Half);
    let (pooled, index) = pooling.forward(&mut g, Some(Int32));
    output(&mut g, index.expect("asked for"), Int32);
    let threshold = g.tensor(Tensor::new("threshold").channels_last([1, 16, 1, 1]));
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[pooled, threshold]);
    output(&mut g, mask, Boolean);
    push(cases, "resample_maxpool_index_and_mask", g);

    let mut g = graph(Half);
    let dx = pooling.backward(&mut g, Some(Int8));
    let image = g.tensor(Tensor::new("x").channels_last([2, 16, 9, 7]));
    let gradient = g.pointwise("gradient", PointwiseMode::ReluBwd, &[dx, image]);
    output(&mut g, gradient, Half);
    push(cases, "resample_bwd_maxpool_relu_bwd", g);

    let mut g = graph(Float);
    let large = doubled(&mut g, &[2, 8, 5, 3]);
    let skip = g.tensor(Tensor::new("skip").channels_last([2, 8, 10, 6]));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[large, skip]);
    output(&mut g, sum, Half);
    push(cases, "resample_bilinear_add", g);
}

fn pooled_epilogues(cases: &mut Vec<Case>) {
    for (shape, channels, groups) in
        [("", [16, 24], 1), ("_ragged", [5, 7], 1), ("_grouped", [16, 32], 2), ("_deep", [640, 16], 1)]
    {
        for mode in MODES {
            let mut g = graph(Half);
            let y = convolution(&mut g, channels, groups);
            let pooling = Pooling::new(mode, &[2, channels[1], 14, 12], &[3, 3], &[2, 2], &[1, 1]);
            let (pooled, index) = pooling.forward(&mut g, (mode == Maxpool).then_some(Int8));
            let sum = g.pointwise("sum", PointwiseMode::Add, &[y, pooled]);
            let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
            output(&mut g, relu, Half);
            if let Some(index) = index {
                output(&mut g, index, Int8);
            }
            push(cases, format!("conv_fprop_add_{}{shape}", label(mode)), g);
        }
    }
}

/// Gradients and interpolations beside a convolution.
fn other_epilogues(cases: &mut Vec<Case>) {
    for mode in MODES {
        let mut g = graph(Half);
        let y = convolution(&mut g, [16, 24], 1);
        let pooling = Pooling::new(mode, &[2, 24, 7, 6], &[3, 2], &[2, 2], &[1, 0]);
        let dx = pooling.backward(&mut g, (mode == Maxpool).then_some(Int8));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[y, dx]);
        output(&mut g, sum, Half);
        push(cases, format!("conv_fprop_add_bwd_{}", label(mode)), g);
    }
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 16, 6, 8]));
    let w = g.tensor(Tensor::new("w").channels_last([24, 16, 1, 1]));
    let y = g.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
    g.tensor_mut(y).data_type = Some(Float);
    let small = doubled(&mut g, &[2, 24, 3, 4]);
    let sum = g.pointwise("sum", PointwiseMode::Add, &[y, small]);
    output(&mut g, sum, Half);
    push(cases, "conv_fprop_add_bilinear", g);
}
