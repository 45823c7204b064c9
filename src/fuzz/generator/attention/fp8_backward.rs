//! What scales a backward pass in FP8: factors by value or in device memory, and largest magnitudes.

use crate::fuzz::choices::Choices;
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::{DataType, Graph, Port, Scalar, Tensor, TensorHandle};

/// Part of the backward passes that are in FP8, of those the ones with factors, and with largest magnitudes; of factors by value, in percent.
const IN_FP8: usize = 25;
const SCALED: usize = 80;
const KEPT: usize = 70;
const BY_VALUE: usize = 70;

/// Part of the heads that have another FP8 type than Q, in percent.
const RETYPED: usize = 20;

/// What is particular to a backward pass in FP8.
#[derive(Clone, Copy)]
pub(super) struct Scaling {
    /// Type of Q.
    pub(super) io: DataType,
    is_scaled: bool,
    keeps: bool,
}

impl Scaling {
    /// The scaling of a pass that is in FP8.
    pub(super) fn of(choices: &mut Choices<'_>) -> Option<Self> {
        choices.chance(IN_FP8).then(|| Self {
            io: choices.of(&[DataType::Fp8E4M3, DataType::Fp8E4M3, DataType::Fp8E5M2]),
            is_scaled: choices.chance(SCALED),
            keeps: choices.chance(KEPT),
        })
    }

    /// The type of heads that are read.
    pub(super) fn operand(self, choices: &mut Choices<'_>) -> DataType {
        if choices.chance(RETYPED) { choices.of(&[DataType::Fp8E4M3, DataType::Fp8E5M2]) } else { self.io }
    }

    /// The type of a gradient.
    pub(super) fn gradient(self, choices: &mut Choices<'_>) -> DataType {
        choices.of(&[self.io, self.io, DataType::Fp8E5M2, DataType::Half, DataType::Float, DataType::BFloat16])
    }

    /// The inputs of factors.
    pub(super) fn inputs(self, graph: &mut Graph, choices: &mut Choices<'_>) -> Vec<(Port, TensorHandle)> {
        if !self.is_scaled {
            return Vec::new();
        }
        let mut factor = |port: Port| {
            let value = match port {
                Port::SCALE_S => 256.0,
                Port::DESCALE_S => 1.0 / 256.0,
                port if port.0.starts_with("Scale") => choices.of(&[8.0, 2.0, 0.75, 1.0]),
                _ => choices.of(&[0.125, 0.5, 1.0, 1.5]),
            };
            let tensor = match choices.chance(BY_VALUE) {
                true => Tensor::scalar(port.0, DataType::Float, Scalar::Float(value)),
                false => Tensor::new(port.0).row_major([1; 4]).data_type(DataType::Float),
            };
            (port, graph.tensor(tensor))
        };
        FACTORS.map(&mut factor).to_vec()
    }

    /// Ports of largest magnitudes.
    pub(super) fn ports(self) -> &'static [Port] {
        if self.keeps { &LARGEST } else { &[] }
    }

    /// Puts the last results, which are largest magnitudes, to memory.
    pub(super) fn keep(self, graph: &mut Graph, results: &mut Vec<TensorHandle>) {
        let kept = results.split_off(results.len() - self.ports().len());
        for (id, port) in kept.into_iter().zip(self.ports()) {
            *graph.set_output(id) = Tensor::new(port.0).row_major([1; 4]).data_type(DataType::Float);
        }
    }
}
