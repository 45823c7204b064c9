//! Data gradients behind the ReLU of a batch norm that is recomputed, and what DBN_WEIGHT makes of them (N-80): sums over the tiles of a
//! core, and operations that follow these.

use fusewright::graph::DataType::{Float, Half};
use fusewright::graph::{
    BnBackwardWeights, Convolution, ConvolutionDirection, DataType, Graph, Pointwise, PointwiseMode, Port, Tensor,
    TensorHandle,
};

use crate::cases::{self, Case, output, push};

const RESULTS: &[Port] = &[Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];

/// A convolution whose image's gradient is taken.
struct Gradient {
    image: &'static [i64],
    filters: i64,
    taps: i64,
    stride: i64,
    groups: i64,
    padding: i64,
    /// The type in which the core's own result is rounded.
    rounded: DataType,
    /// Whether tensors have their pixels innermost.
    is_channels_first: bool,
    /// What takes the mean away.
    subtraction: Pointwise,
}

impl Default for Gradient {
    fn default() -> Self {
        Self {
            image: &[4, 16, 6, 6],
            filters: 32,
            taps: 3,
            stride: 1,
            groups: 1,
            padding: 1,
            rounded: Float,
            is_channels_first: false,
            subtraction: Pointwise::new(PointwiseMode::Sub),
        }
    }
}

/// Adds the cases of this file.
pub(crate) fn cases(cases: &mut Vec<Case>) {
    let mut add = |name: &str, graph| push(cases, format!("norm_dgrad_weights_{name}"), graph);
    add("3x3", Gradient::default().graph());
    add("64_channels", Gradient { image: &[4, 64, 16, 16], ..Gradient::default() }.graph());
    add("8_channels", Gradient { image: &[2, 8, 9, 9], filters: 16, ..Gradient::default() }.graph());
    add("1x1", Gradient { image: &[2, 64, 7, 7], taps: 1, padding: 0, ..Gradient::default() }.graph());
    add("stride_2", Gradient { image: &[2, 16, 8, 8], stride: 2, ..Gradient::default() }.graph());
    add("stride_2_of_odd_pixels", Gradient { image: &[2, 16, 9, 9], stride: 2, ..Gradient::default() }.graph());
    add("odd_channels", Gradient { image: &[2, 13, 7, 5], filters: 20, ..Gradient::default() }.graph());
    add("odd_filters", Gradient { image: &[2, 16, 7, 5], filters: 21, ..Gradient::default() }.graph());
    add("grouped", Gradient { image: &[2, 32, 6, 6], groups: 2, ..Gradient::default() }.graph());
    add("depthwise", Gradient { image: &[2, 32, 6, 6], groups: 32, ..Gradient::default() }.graph());
    add("of_volumes", Gradient { image: &[2, 8, 3, 5, 5], filters: 16, ..Gradient::default() }.graph());
    add("long_sums", Gradient { image: &[1, 8, 4, 4], filters: 512, ..Gradient::default() }.graph());
    add("rounded_gradient", Gradient { rounded: Half, ..Gradient::default() }.graph());
    add("channels_first", Gradient { is_channels_first: true, ..Gradient::default() }.graph());
    // as programs before cuDNN 9 have it
    let subtraction = Pointwise { alpha2: -1.0, ..Pointwise::new(PointwiseMode::Add) };
    add("negated_mean", Gradient { subtraction, ..Gradient::default() }.graph());
}

impl Gradient {
    fn tensor(&self, name: &str, dim: Vec<i64>) -> Tensor {
        match self.is_channels_first {
            true => Tensor::new(name).row_major(dim),
            false => Tensor::new(name).channels_last(dim),
        }
    }

    /// The core's result.
    fn gradient(&self, g: &mut Graph) -> TensorHandle {
        let spatial = &self.image[2..];
        let steps = spatial.iter().map(|extent| (extent + 2 * self.padding - self.taps) / self.stride + 1);
        let dy = [vec![self.image[0], self.filters], steps.collect()].concat();
        let w = [vec![self.filters, self.image[1] / self.groups], vec![self.taps; spatial.len()]].concat();
        let operands = [("dy", dy), ("W", w)].map(|(name, dim)| g.tensor(self.tensor(name, dim)));
        let convolution = Convolution::new(ConvolutionDirection::BackwardData, spatial.len())
            .padding(vec![self.padding; spatial.len()])
            .stride(vec![self.stride; spatial.len()]);
        let gradient = g.convolution("dgrad", convolution, operands);
        let tensor = g.tensor_mut(gradient);
        (tensor.dim, tensor.data_type) = (self.image.to_vec(), Some(self.rounded));
        gradient
    }

    fn graph(&self) -> Graph {
        let mut g = cases::graph(Half);
        let gradient = self.gradient(&mut g);
        let x = g.tensor(self.tensor("X", self.image.to_vec()));
        let mut channel = vec![1; self.image.len()];
        channel[1] = self.image[1];
        let [mean, inverse, scale, bias] = [Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS]
            .map(|port| g.tensor(self.tensor(port.0, channel.clone()).data_type(Float)));
        let centred = g.pointwise_with("centred", self.subtraction.clone(), &[x, mean]);
        let normalised = g.pointwise("normalised", PointwiseMode::Mul, &[centred, inverse]);
        let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[normalised, scale]);
        let y = g.pointwise("y", PointwiseMode::Add, &[scaled, bias]);
        let dy_bn = g.pointwise("dy_bn", PointwiseMode::ReluBwd, &[gradient, y]);
        output(&mut g, dy_bn, Half);
        let inputs =
            [(Port::DY, dy_bn), (Port::X, x), (Port::SCALE, scale), (Port::MEAN, mean), (Port::INV_VARIANCE, inverse)];
        for id in g.composite("weights", BnBackwardWeights, &inputs, RESULTS) {
            output(&mut g, id, Float);
        }
        g
    }
}
