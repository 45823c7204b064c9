//! Attention in FP8, backward: what scales it.

use fusewright::graph::DataType::{self, Float, Fp8E4M3, Fp8E5M2, Half};
use fusewright::graph::{Graph, Port, Scalar, ScoreMask, Tensor, TensorHandle};

use super::{Backward, band};
use crate::attention_cases::Ragged;

/// What scales a backward pass in FP8.
#[derive(Clone, Copy)]
pub(super) struct Scaling {
    /// Whether there are factors, and whether they are in memory.
    factors: Option<bool>,
    /// Whether largest magnitudes are kept.
    largest: bool,
    /// The type of K, that of dO, and of the gradients, where they have others than Q.
    pub(super) keys: Option<DataType>,
    pub(super) of_output_gradient: Option<DataType>,
    pub(super) results: Option<DataType>,
}

impl Scaling {
    const ALL: Self = Self { factors: Some(false), largest: true, keys: None, of_output_gradient: None, results: None };

    /// Factors, by the ports that they are at.
    const FACTORS: [(Port, f64); 12] = [
        (Port::DESCALE_Q, 0.5),
        (Port::DESCALE_K, 0.75),
        (Port::DESCALE_V, 1.25),
        (Port::DESCALE_O, 0.25),
        (Port::DESCALE_DO, 0.5),
        (Port::DESCALE_S, 1.0 / 256.0),
        (Port::DESCALE_DP, 1.0 / 16.0),
        (Port::SCALE_S, 256.0),
        (Port::SCALE_DP, 16.0),
        (Port::SCALE_DQ, 4.0),
        (Port::SCALE_DK, 2.0),
        (Port::SCALE_DV, 8.0),
    ];

    const LARGEST: [Port; 4] = [Port::AMAX_DQ, Port::AMAX_DK, Port::AMAX_DV, Port::AMAX_DP];

    /// The factors' inputs.
    pub(super) fn inputs(self, graph: &mut Graph) -> Vec<(Port, TensorHandle)> {
        let Some(in_memory) = self.factors else { return Vec::new() };
        let number = |(port, value): (Port, f64)| {
            let tensor = match in_memory {
                true => Tensor::new(port.0).row_major([1; 4]).data_type(Float),
                false => Tensor::scalar(port.0, Float, Scalar::Float(value)),
            };
            (port, graph.tensor(tensor))
        };
        Self::FACTORS.into_iter().map(number).collect()
    }

    /// Ports of largest magnitudes, which come behind all others.
    pub(super) fn ports(self) -> &'static [Port] {
        if self.largest { &Self::LARGEST } else { &[] }
    }

    /// Puts the results at these ports, the last ones, to memory.
    pub(super) fn keep(self, graph: &mut Graph, results: &mut Vec<TensorHandle>) {
        let kept = results.split_off(results.len() - self.ports().len());
        for (id, port) in kept.into_iter().zip(self.ports()) {
            *graph.set_output(id) = Tensor::new(port.0).row_major([1; 4]).data_type(Float);
        }
    }
}

/// Adds the cases of this file.
pub(super) fn cases(mut add: impl FnMut(&str, Backward)) {
    let of = |shape, head| Backward { io: Fp8E4M3, scaling: Some(Scaling::ALL), ..Backward::new(shape, head) };
    add("", of([2, 2, 70, 90], [64, 64]));
    add("_e5m2", Backward { io: Fp8E5M2, ..of([1, 2, 70, 90], [64, 64]) });
    let mixed = Scaling { of_output_gradient: Some(Fp8E5M2), results: Some(Fp8E5M2), ..Scaling::ALL };
    let keys = Scaling { keys: Some(Fp8E5M2), ..Scaling::ALL };
    add("_keys_of_e5m2", Backward { scaling: Some(keys), ..of([1, 2, 33, 40], [32, 32]) });
    add("_gradients_of_e5m2", Backward { scaling: Some(mixed), ..of([1, 2, 65, 63], [64, 64]) });
    for (name, head) in
        [("16", [16, 16]), ("128", [128, 128]), ("48_96", [48, 96]), ("192_128", [192, 128]), ("256", [256, 256])]
    {
        add(&format!("_heads_of_{name}"), of([1, 2, 65, 63], head));
    }
    let causal = Backward { mask: band(None, Some(0)), ..of([1, 4, 200, 200], [128, 128]) };
    add("_causal_groups", Backward { key_heads: 2, is_interleaved: true, ..causal });
    let lengths = Backward { has_lengths: true, has_sinks: true, key_heads: 1, ..of([4, 2, 100, 150], [64, 64]) };
    let lengths =
        Backward { mask: ScoreMask { left_bound: Some(40), right_bound: Some(0), is_bottom_right: true }, ..lengths };
    add("_lengths_sinks_window", lengths);
    add("_ragged", Backward { has_sinks: false, ragged: Ragged::All, is_interleaved: true, ..lengths });
    add("_one_query", of([2, 2, 1, 129], [64, 64]));
    add("_one_element", of([1, 1, 1, 1], [16, 16]));
    add("_spread", Backward { is_spread: true, ..of([1, 2, 40, 33], [32, 32]) });
    add("_rows_apart", Backward { operand_pitch: 3, pitch: 5, ..of([1, 2, 40, 33], [32, 32]) });
    let with = |scaling| Backward { scaling: Some(scaling), ..of([1, 2, 70, 50], [64, 64]) };
    add("_unscaled", with(Scaling { factors: None, largest: false, ..Scaling::ALL }));
    add("_largest_alone", with(Scaling { factors: None, ..Scaling::ALL }));
    add("_factors_alone", with(Scaling { largest: false, ..Scaling::ALL }));
    add("_factors_in_memory", with(Scaling { factors: Some(true), ..Scaling::ALL }));
    add("_results_of_half", with(Scaling { results: Some(Half), ..Scaling::ALL }));
    add("_results_of_float", with(Scaling { results: Some(Float), ..Scaling::ALL }));
}
