//! Graphs whose shapes are dynamic: every case once more with extents and strides as parameters, and shapes of a layer that share binaries.

use std::collections::BTreeSet;

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::graph::DataType::{BFloat16, Float, Half};
use fusewright::graph::{
    Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, ReductionMode, Tensor, TensorHandle,
};
use libtest_mimic::{Failed, Trial};

use crate::attention_backward_cases;
use crate::cases;
use crate::pipeline;

/// How a kernel is run, and what it gives compared.
type Run = fn(&Build) -> Result<(), Failed>;

/// Every case as a graph of dynamic shapes, and layers in several shapes.
pub(crate) fn trials(tier: &str, device: fn() -> Result<Device, Failed>, run: Run) -> Vec<Trial> {
    let dynamic = |case: cases::Case| {
        let graph = case.graph.with_dynamic_shapes();
        Trial::test(format!("{tier}::dynamic::{}", case.name), move || run(&pipeline::lower(&graph, &device()?)?))
    };
    let layers = LAYERS.iter().map(|layer| {
        Trial::test(format!("{tier}::layers::{}", layer.name), move || layer.shares_binaries(&device()?, run))
    });
    cases::all().into_iter().map(dynamic).chain(layers).collect()
}

/// A graph whose number of rows varies.
struct Layer {
    name: &'static str,
    graph: fn(i64) -> Graph,
    rows: &'static [i64],
    /// Most texts that the config of the middle number of rows has over all.
    texts: usize,
}

const LAYERS: [Layer; 12] = [
    Layer { name: "pointwise", graph: pointwise, rows: &[2, 3, 17, 40, 41, 200], texts: 1 },
    Layer { name: "matmul", graph: |m| matmul(m, [96, 72], Half), rows: &[2, 65, 100, 128, 129, 300], texts: 3 },
    Layer {
        name: "short_sums",
        graph: |m| matmul(m, [96, 40], BFloat16),
        rows: &[2, 65, 100, 128, 129, 300],
        texts: 3,
    },
    Layer { name: "tf32", graph: |m| matmul(m, [40, 36], Float), rows: &[33, 65, 128, 200], texts: 3 },
    Layer { name: "bias_gelu", graph: bias_gelu, rows: &[30, 64, 100, 257, 300, 400], texts: 4 },
    Layer { name: "batches", graph: batches, rows: &[2, 3, 5, 9], texts: 2 },
    Layer { name: "images", graph: |images| convolution(images, 9), rows: &[1, 2, 3, 5, 8], texts: 3 },
    Layer { name: "pixels", graph: |pixels| convolution(2, pixels), rows: &[5, 8, 12, 13, 20], texts: 3 },
    Layer { name: "image_gradients", graph: image_gradient, rows: &[1, 2, 3, 5, 8], texts: 3 },
    Layer { name: "filter_gradients", graph: filter_gradient, rows: &[1, 2, 3, 5, 8], texts: 3 },
    Layer {
        name: "attention_gradients",
        graph: attention_backward_cases::causal,
        rows: &[30, 128, 129, 200],
        texts: 2,
    },
    Layer { name: "row_sums", graph: row_sums, rows: &[3, 17, 64, 100], texts: 2 },
];

impl Layer {
    /// Every number of rows is right in the config that one of them has, and some share a text.
    fn shares_binaries(&self, device: &Device, run: Run) -> Result<(), Failed> {
        let dynamic = |rows: i64| (self.graph)(rows).with_dynamic_shapes();
        let middle = self.rows[self.rows.len() / 2];
        let config = pipeline::lower(&dynamic(middle), device)?.config;
        let mut texts = BTreeSet::new();
        for &rows in self.rows {
            let build = pipeline::lower_config(&dynamic(rows), config.clone(), device)?;
            run(&build).map_err(|failure| format!("{rows} rows: {}", failure.message().unwrap_or_default()))?;
            texts.insert(build.source.text);
        }
        let most = self.texts;
        if texts.len() <= most { Ok(()) } else { Err(format!("{} texts; {most} at most", texts.len()).into()) }
    }
}

fn of(io: DataType) -> Graph {
    Graph::new().io_data_type(io).compute_data_type(Float).intermediate_data_type(Float)
}

fn product(graph: &mut Graph, [batch, m, n, k]: [i64; 4]) -> TensorHandle {
    let a = graph.tensor(Tensor::new("a").row_major([batch, m, k]));
    let b = graph.tensor(Tensor::new("b").dim([batch, k, n]).stride([k * n, 1, k]));
    graph.matmul("product", a, b)
}

fn matmul(m: i64, [n, k]: [i64; 2], io: DataType) -> Graph {
    let mut graph = of(io);
    let c = product(&mut graph, [1, m, n, k]);
    graph.set_output(c);
    graph
}

fn batches(batch: i64) -> Graph {
    let mut graph = of(BFloat16);
    let c = product(&mut graph, [batch, 72, 40, 64]);
    graph.set_output(c);
    graph
}

fn bias_gelu(m: i64) -> Graph {
    let mut graph = of(BFloat16);
    let c = product(&mut graph, [1, m, 80, 64]);
    let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 80]));
    let sum = graph.pointwise("sum", PointwiseMode::Add, &[c, bias]);
    let y = graph.pointwise("gelu", PointwiseMode::GeluFwd, &[sum]);
    graph.set_output(y);
    graph
}

/// 3×3 of so many images of so many rows, with a bias and RELU.
fn convolution(images: i64, pixels: i64) -> Graph {
    let mut graph = of(Half);
    let x = graph.tensor(Tensor::new("x").channels_last([images, 64, pixels, 10]));
    let w = graph.tensor(Tensor::new("w").channels_last([48, 64, 3, 3]));
    let bias = graph.tensor(Tensor::new("bias").channels_last([1, 48, 1, 1]));
    let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]), [x, w]);
    let sum = graph.pointwise("sum", PointwiseMode::Add, &[y, bias]);
    let z = graph.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
    graph.set_output(z);
    graph
}

/// The data gradient of 3×3 of so many images, of stride 2.
fn image_gradient(images: i64) -> Graph {
    let mut graph = of(Half);
    let y = graph.tensor(Tensor::new("y").channels_last([images, 48, 5, 6]));
    let w = graph.tensor(Tensor::new("w").channels_last([48, 64, 3, 3]));
    let convolution =
        Convolution { stride: vec![2, 2], ..Convolution::new(ConvolutionDirection::BackwardData, 2).padding([1, 1]) };
    let x = graph.convolution("conv", convolution, [y, w]);
    *graph.tensor_mut(x) = Tensor::new("dx").channels_last([images, 64, 10, 12]);
    graph.set_output(x);
    graph
}

/// The filter gradient of 3×3 of so many images.
fn filter_gradient(images: i64) -> Graph {
    let mut graph = of(Half);
    let y = graph.tensor(Tensor::new("y").channels_last([images, 48, 9, 8]));
    let x = graph.tensor(Tensor::new("x").channels_last([images, 64, 9, 8]));
    let convolution = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
    let w = graph.convolution("conv", convolution, [y, x]);
    *graph.tensor_mut(w) = Tensor::new("dw").channels_last([48, 64, 3, 3]);
    graph.set_output(w);
    graph
}

fn pointwise(m: i64) -> Graph {
    let mut graph = of(Half);
    let x = graph.tensor(Tensor::new("x").row_major([1, m, 48]));
    let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 48]));
    let y = graph.pointwise("sum", PointwiseMode::Add, &[x, bias]);
    graph.set_output(y);
    graph
}

fn row_sums(m: i64) -> Graph {
    let mut graph = of(Float);
    let x = graph.tensor(Tensor::new("x").row_major([1, m, 40]));
    let sums = graph.reduction("sums", ReductionMode::Add, x, [1, m, 1]);
    graph.set_output(sums);
    graph
}
