//! Graphs made of random choices, for tests that must survive any graph: most are malformed, some are not.

use super::samples::half_graph;
use super::{
    Attributes, Composite, Concat, Convolution, ConvolutionDirection, Fraction, Graph, Matmul, Operation, Other,
    PaddingMode, PagedCacheLoad, Pointwise, PointwiseMode, Port, Reduction, ReductionMode, Resample, ResampleMode,
    Softmax, Tensor, TensorHandle,
};

/// The graph that these random numbers choose.
pub(super) fn random_graph(bytes: Vec<u8>) -> Graph {
    Draws(bytes.into_iter()).graph()
}

/// Draws parts of graphs by a list of random numbers, one a draw; the first of everything once they run out.
struct Draws(std::vec::IntoIter<u8>);

impl Draws {
    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[usize::from(self.0.next().unwrap_or(0)) % values.len()].clone()
    }

    /// Often two small numbers, one a spatial axis; sometimes anything.
    fn integers(&mut self) -> Vec<i64> {
        let count = self.of(&[2, 2, 2, 3, 4, 0, 1, 9]);
        let values: &[i64] =
            if self.of(&[true, true, true, false]) { &[1, 2] } else { &[0, -1, 1 << 31, i64::MAX, i64::MIN] };
        (0..count).map(|_| self.of(values)).collect()
    }

    fn dim(&mut self) -> Vec<i64> {
        let dim = self.of(&[&[2, 4, 4, 4][..], &[4, 4, 2, 2], &[1, 4, 1, 1], &[2, 4, 4], &[1, 4, 4], &[]]).to_vec();
        if self.of(&[true, true, true, true, true, false]) { dim } else { self.integers() }
    }

    fn tensor(&mut self) -> Tensor {
        let dim = self.dim();
        let tensor = if self.of(&[true, true, true, true, true, false]) {
            Tensor::new("t").row_major(dim)
        } else {
            Tensor::new("t").dim(dim)
        };
        Tensor {
            is_pass_by_value: self.of(&[false, false, false, false, false, true]),
            ragged_offset: self.of(&[None, None, None, None, None, Some(TensorHandle(0))]),
            ..tensor
        }
    }

    fn fractions(&mut self) -> Vec<Fraction> {
        let numerators = self.integers();
        numerators
            .into_iter()
            .map(|numerator| Fraction { numerator, denominator: self.of(&[1, 2, 3, 0, -1, i64::MAX]) })
            .collect()
    }

    fn resample(&mut self) -> Resample {
        Resample {
            mode: ResampleMode::Bilinear,
            padding_mode: PaddingMode::ZeroPad,
            window: self.fractions(),
            stride: self.fractions(),
            pre_padding: self.fractions(),
            post_padding: self.fractions(),
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    fn attributes(&mut self) -> Attributes {
        let tag = self.of(&[
            "SLICE",
            "RESHAPE",
            "TRANSPOSE",
            "RNG",
            "SDPA",
            "LAYER_NORM",
            "DBN",
            "MATMUL_FP8",
            "BLOCK_SCALE_QUANTIZE",
        ]);
        let keys = ["dim", "stride", "permutation", "slices", "slice_strides", "block_size", "axis"];
        let direction = self.of(&[
            ConvolutionDirection::Forward,
            ConvolutionDirection::BackwardData,
            ConvolutionDirection::BackwardFilter,
        ]);
        match self.of(&[0, 1, 2, 3, 4, 5, 6, 7, 8]) {
            0 => Attributes::Matmul(Matmul::default()),
            1 => Attributes::Convolution(Convolution {
                post_padding: self.integers(),
                ..Convolution::new(direction, 2)
                    .padding(self.integers())
                    .stride(self.integers())
                    .dilation(self.integers())
            }),
            2 => Attributes::Pointwise(Pointwise {
                axis: self.of(&[None, Some(-1), Some(2)]),
                ..Pointwise::new(self.of(PointwiseMode::ALL))
            }),
            3 => Attributes::Reduction(Reduction::new(ReductionMode::Add)),
            4 => self.of(&[
                Attributes::GenStats,
                Attributes::Composite(Composite::Softmax(Softmax)),
                Attributes::Composite(PagedCacheLoad.into()),
            ]),
            5 => Attributes::ResampleForward(self.resample()),
            6 => Attributes::ResampleBackward(self.resample()),
            7 => Attributes::Concat(Concat {
                axis: self.of(&[0, 1, -1, i64::MAX]),
                in_place_index: self.of(&[None, Some(7)]),
            }),
            _ => Attributes::Other(Other {
                tag,
                attributes: keys.map(|key| (key.to_owned(), self.integers().into())).into(),
            }),
        }
    }

    /// Ports that fit the operation, and sometimes one that does not.
    fn ports(&mut self, attributes: &Attributes) -> [Vec<&'static str>; 2] {
        let (inputs, outputs): (&[&str], &[&str]) = match attributes {
            Attributes::Matmul(_) => (&["A", "B"], &["C"]),
            Attributes::Convolution(convolution) => match convolution.direction {
                ConvolutionDirection::Forward => (&["X", "W"], &["Y"]),
                ConvolutionDirection::BackwardData => (&["DY", "W"], &["DX"]),
                ConvolutionDirection::BackwardFilter => (&["DY", "X"], &["DW"]),
            },
            Attributes::Pointwise(pointwise) => (&["IN_0", "IN_1", "IN_2"][..pointwise.mode.inputs()], &["OUT_0"]),
            Attributes::GenStats => (&["X"], &["SUM", "SQ_SUM"]),
            Attributes::Composite(Composite::Softmax(_)) => (&["X", "SINK", "SEQ_LEN_Q"], &["Y", "Max", "Stats"]),
            Attributes::Composite(Composite::PagedCacheLoad(_)) => (&["container", "seqLen", "pageTable"], &["yOut"]),
            Attributes::ResampleForward(_) => (&["X"], &["Y", "Index"]),
            Attributes::ResampleBackward(_) => (&["DY", "X"], &["DX"]),
            Attributes::Concat(_) => (&["INPUT", "INPUT"], &["Y"]),
            Attributes::Other(_) => (&["X", "Q", "A", "B", "SCALE"], &["Y", "C", "Stats", "MEAN", "DX"]),
            _ => (&["X"], &["Y"]),
        };
        let extra: &[&str] = if self.of(&[false, false, false, true]) { &["Y"] } else { &[] };
        [[inputs, extra].concat(), outputs.to_vec()]
    }

    fn graph(&mut self) -> Graph {
        let mut graph = half_graph();
        for _ in 0..4 {
            graph.tensor(self.tensor());
        }
        for _ in 0..self.of(&[1, 2, 3, 4]) {
            let attributes = self.attributes();
            let [inputs, outputs] = self.ports(&attributes);
            let known = graph.tensors().len() as u32;
            let inputs =
                inputs.into_iter().map(|port| (Port(port), TensorHandle(self.of(&[0, 1, 2, 3, known - 1])))).collect();
            let mut result = |port| {
                let tensor = if self.of(&[true, true, false]) { Tensor::new("r") } else { self.tensor() };
                let tensor = Tensor {
                    is_virtual: self.of(&[false, true]),
                    is_pass_by_value: false,
                    uid: self.of(&[None, None, None, None, None, None, Some(1)]),
                    ..tensor
                };
                (Port(port), graph.tensor(tensor))
            };
            let outputs = outputs.into_iter().map(&mut result).collect();
            graph.operation(Operation { name: "op".to_owned(), attributes, compute_data_type: None, inputs, outputs });
        }
        graph
    }
}
