//! What scales attention in FP8: factors of scores, probabilities and O, by value or in device memory, and their largest magnitudes.

use super::Shape;
use crate::fuzz::choices::Choices;
use crate::graph::{DataType, Graph, PointwiseMode, ReductionMode, Scalar, Tensor, TensorHandle};

/// Part of the graphs with factors, and with each largest magnitude; of factors by value, in percent.
const FACTORS: usize = 80;
const LARGEST: usize = 60;
const BY_VALUE: usize = 70;

/// What a graph scales.
#[derive(Clone, Copy)]
pub(super) struct Scaling {
    /// Type of heads, in FP8.
    io: DataType,
    has_factors: bool,
}

impl Scaling {
    /// The scaling of heads of a type; `None` where they are not in FP8.
    pub(super) fn of(choices: &mut Choices<'_>, io: DataType) -> Option<Self> {
        io.is_fp8().then(|| Self { io, has_factors: choices.chance(FACTORS) })
    }

    /// Scores times what Q and K were divided by.
    pub(super) fn scores(self, graph: &mut Graph, choices: &mut Choices<'_>, x: TensorHandle) -> TensorHandle {
        let x = self.multiplied(graph, choices, ("descale_q", 0.5), x);
        self.multiplied(graph, choices, ("descale_k", 1.5), x)
    }

    /// What is multiplied of probabilities.
    pub(super) fn probabilities(self, graph: &mut Graph, choices: &mut Choices<'_>, p: TensorHandle) -> TensorHandle {
        graph.tensor_mut(p).data_type = Some(DataType::Float);
        keep_largest(graph, choices, "amax_s", p);
        let scaled = self.stored(graph, choices, ("scale_s", 256.0), p);
        graph.tensor_mut(scaled).data_type = Some(self.io);
        scaled
    }

    /// O, of FP8 or of HALF.
    pub(super) fn output(self, graph: &mut Graph, choices: &mut Choices<'_>, product: TensorHandle) -> TensorHandle {
        let x = self.multiplied(graph, choices, ("descale_s", 1.0 / 256.0), product);
        let x = self.multiplied(graph, choices, ("descale_v", 0.75), x);
        keep_largest(graph, choices, "amax_o", x);
        let o = self.stored(graph, choices, ("scale_o", 4.0), x);
        graph.tensor_mut(o).data_type =
            Some(choices.of(&[self.io, DataType::Fp8E4M3, DataType::Half, DataType::Fp8E5M2]));
        o
    }

    /// A value times a number, where there are some.
    fn multiplied(
        self,
        graph: &mut Graph,
        choices: &mut Choices<'_>,
        (name, value): (&str, f64),
        x: TensorHandle,
    ) -> TensorHandle {
        if !self.has_factors {
            return x;
        }
        let factor = match choices.chance(BY_VALUE) {
            true => Tensor::scalar(name, DataType::Float, Scalar::Float(value)),
            false => Tensor::new(name).row_major([1; 4]).data_type(DataType::Float),
        };
        let factor = graph.tensor(factor);
        let operands = if choices.chance(50) { [x, factor] } else { [factor, x] };
        graph.pointwise(&format!("by_{name}"), PointwiseMode::Mul, &operands)
    }

    /// A value that gets another type, times a number where there are some.
    fn stored(
        self,
        graph: &mut Graph,
        choices: &mut Choices<'_>,
        number: (&str, f64),
        x: TensorHandle,
    ) -> TensorHandle {
        match self.multiplied(graph, choices, number, x) {
            same if same == x => graph.pointwise(number.0, PointwiseMode::Identity, &[x]),
            other => other,
        }
    }
}

fn keep_largest(graph: &mut Graph, choices: &mut Choices<'_>, name: &str, x: TensorHandle) {
    if choices.chance(LARGEST) {
        let largest = graph.reduction(name, ReductionMode::Amax, x, [1; 4]);
        graph.set_output(largest).data_type = Some(DataType::Float);
    }
}

impl Shape {
    /// With heads that are multiples of 16, and rows that are.
    pub(super) fn in_fp8(self) -> Self {
        Self { head: self.head.map(|size| (size + 15) / 16 * 16), pitch: self.pitch / 8 * 16, ..self }
    }
}
