//! Whether operands are copied to a layout that the tensor memory accelerator takes, before they are multiplied: where the models expect
//! that to be faster than reading them as they lie; and whether `mma.sync` is expected to be faster than either, which is asked where operands
//! do not come as they lie, and where C has few rows. What a mainloop stage computes is evaluated first as a choice among configs; where the
//! accelerator does not bring what the stage starts from, as copies are.

use super::Tiles;
use crate::device::{ComputeCapability, Device};
use crate::engine::engines::warp_mma;
use crate::error::Reason;
use crate::fusion::{Fusion, Product};

/// Most rows of the product that `mma.sync` may multiply sooner: its tiles have 16 of them, `wgmma`'s 64 (filter gradients with 16 results on an
/// H100: 17, 28 and 38 µs for 25, 47 and 58; with 8, whose model says so, 128 for 118; with 24 37 for 37).
const FEW_ROWS: i64 = 16;

/// Tiles of the operands as they lie or of copies, whichever is expected to be faster on a typical device of the chip.
///
/// # Errors
/// Why the operands are not taken as they lie, and what copies would cost.
pub(super) fn chosen(fusion: &Fusion, product: &Product, capability: ComputeCapability) -> Result<Tiles, Reason> {
    let device = Device::typical(capability);
    let copied = cheapest(Tiles::of_copies(fusion, product), &device);
    let evaluated = cheapest(Tiles::of_evaluated(fusion, product), &device);
    let as_it_lies = Tiles::new(fusion, product).and_then(|tiles| tiles.with_enough_under_a_tap(&device));
    let tiles = match (as_it_lies, copied) {
        (Ok(tiles), Some((expected, copied))) if expected < tiles.microseconds(&device) => copied,
        (Ok(tiles), _) => tiles,
        (Err(why), copied) => {
            let expected = [&copied, &evaluated].into_iter().flatten().map(|priced| priced.0).reduce(f64::min);
            match (expected, warp_mma::expected(fusion, product, &device)) {
                (Some(expected), Some(others)) if others < expected => return Err(refused(&why, expected, others)),
                _ => match copied {
                    Some((_, copied)) => copied,
                    None => return evaluated.map(|(_, evaluated)| evaluated).ok_or(why),
                },
            }
        }
    };
    let tiles = Tiles { evaluated_first: evaluated.map(|(_, tiles)| Box::new(tiles)), ..tiles };
    match tiles.has_few_rows().then(|| warp_mma::expected(fusion, product, &device)).flatten() {
        Some(others) => tiles.unless_slower_than(others, &device),
        None => Ok(tiles),
    }
}

impl Tiles {
    /// Whether rows of C leave most of those that a tile has empty, and cannot be its columns.
    fn has_few_rows(&self) -> bool {
        let [_, rows, ..] = self.plan.extents();
        rows <= FEW_ROWS && self.transposed.is_none()
    }

    /// The same, if its first config is expected to take no longer than `mma.sync`.
    ///
    /// # Errors
    /// The times.
    fn unless_slower_than(self, others: f64, device: &Device) -> Result<Self, Reason> {
        match self.microseconds(device) {
            expected if others < expected => Err(Reason::Graph(format!(
                "{} rows leave most of a tile's empty; it would take {expected:.1} µs by the model, and {others:.1} µs by mma.sync",
                self.plan.extents()[1]
            ))),
            _ => Ok(self),
        }
    }
}

/// Those of which the first config is expected to be the fastest, and its microseconds.
fn cheapest(tiles: Vec<Tiles>, device: &Device) -> Option<(f64, Tiles)> {
    let tiles = tiles.into_iter().filter_map(|tiles| tiles.with_enough_under_a_tap(device).ok());
    let priced = tiles.map(|tiles| (tiles.microseconds(device), tiles));
    priced.min_by(|one, other| one.0.total_cmp(&other.0))
}

/// Why neither is taken.
fn refused(why: &Reason, copied: f64, others: f64) -> Reason {
    Reason::Graph(format!(
        "{why}; copied first, it would take {copied:.1} µs by the model, and {others:.1} µs as it lies by mma.sync"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Bound, Decision, Knob, RankedConfig, decide};
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, Tensor};
    use crate::kernel::{Body, Parameter};
    use crate::support::SurfaceId;

    const SM_90: ComputeCapability = ComputeCapability::SM_90;

    fn decided(graph: &Graph) -> Decision {
        decide(&Arc::new(graph.finalize().expect("well formed")), SM_90, &SurfaceId::ALL)
    }

    /// The filter gradient of 3×3 taps of an image in HALF.
    fn filter_gradient(x: [i64; 4], k: i64) -> Graph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let dy = graph.tensor(Tensor::new("dy").channels_last([x[0], k, x[2], x[3]]));
        let x = graph.tensor(Tensor::new("x").channels_last(x));
        let attributes = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
        let dw = graph.convolution("conv", attributes, [dy, x]);
        *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([k, 33, 3, 3]);
        graph.set_output(dw);
        graph
    }

    /// `A · B` of FP16, whose rows have k and n elements.
    fn matmul(extents: [i64; 4]) -> Graph {
        matmul_of(DataType::Half, extents)
    }

    fn matmul_of(data_type: DataType, [batch, m, n, k]: [i64; 4]) -> Graph {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([batch, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        graph
    }

    #[test]
    fn an_image_of_odd_channels_is_copied_to_the_workspace_and_read_there_in_boxes() {
        let decision = decided(&filter_gradient([4, 33, 40, 40], 320));
        let lines = decision.details(false).join("\n");
        assert!(lines.contains("note: operand 'x'") && lines.contains("copied first, to rows of 96 bytes"), "{lines}");
        let selection = decision.into_selection().expect("an engine takes it");
        let device = Device::typical(SM_90);
        let first = selection.candidates(&device).swap_remove(0);
        let copies: f64 =
            first.estimate.on_top.iter().filter(|term| term.bound == Bound::Copies).map(|term| term.time).sum();
        assert!((3.0..5.0).contains(&copies), "{copies} µs");
        let kernel = selection.lower(&first.config, &device);
        assert_eq!(kernel.engine, "warpgroup_mma");
        let [copy, product, ..] = &kernel.functions[..] else { panic!("a copy and a product") };
        assert!(matches!(copy.body, Body::Copy(_)), "{:?}", copy.body);
        let is_read = |parameter: &Parameter| matches!(parameter, Parameter::IntermediateMap { offset: 0, .. });
        assert!(product.launch.parameters.iter().any(is_read), "{:?}", product.launch.parameters);
        assert!(kernel.workspace_bytes >= 4 * 40 * 40 * 96);
    }

    #[test]
    fn what_a_copy_would_not_pay_for_is_left_to_the_next_engine_with_the_times() {
        let decision = decided(&filter_gradient([1, 33, 4, 4], 16));
        assert_eq!(decision.engine().map(|engine| engine.name()), Some("warp_mma"));
        let reason = decision.passed_over[0].to_string();
        assert!(reason.contains("steps by 66 bytes") && reason.contains("copied first, it would take"), "{reason}");
    }

    /// Names of the functions of a graph's first config.
    fn functions(graph: &Graph) -> Vec<String> {
        let selection = decided(graph).into_selection().expect("an engine takes it");
        let device = Device::typical(SM_90);
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        kernel.functions.into_iter().map(|function| function.launch.function).collect()
    }

    #[test]
    fn ragged_matrices_are_copied_and_aligned_ones_are_not() {
        assert_eq!(functions(&matmul([1, 2048, 2048, 2047])), ["fw_copy", "fw_matmul_1"]);
        assert_eq!(functions(&matmul([4, 512, 1023, 1024])), ["fw_copy", "fw_matmul_1"]);
        assert_eq!(functions(&matmul([1, 2047, 2048, 2048])), ["fw_matmul"]);
        // read in vectors of 8 bytes through the first warpgroup, if they are not copied
        assert_eq!(functions(&matmul([1, 2048, 2048, 2044])), ["fw_copy", "fw_matmul_1"]);
    }

    /// A filter gradient of FLOAT of 3×3 taps, over 32 images.
    fn of_floats([c, k]: [i64; 2], pixels: i64) -> Graph {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let [dy, x] = [("dy", k), ("x", c)]
            .map(|(name, channels)| Tensor::new(name).channels_last([32, channels, pixels, pixels]));
        let operands = [dy, x].map(|tensor| graph.tensor(tensor));
        let attributes = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
        let dw = graph.convolution("conv", attributes, operands);
        *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([k, c, 3, 3]);
        graph.set_output(dw);
        graph
    }

    /// A layer of 64 results, R×S taps and a stride, of an image in HALF.
    fn layer(x: [i64; 4], taps: [i64; 2], stride: i64) -> Graph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let image = graph.tensor(Tensor::new("x").channels_last(x));
        let filter = graph.tensor(Tensor::new("w").channels_last([64, x[1], taps[0], taps[1]]));
        let padding = [taps[0] / 2, taps[1] / 2];
        let attributes = Convolution {
            stride: vec![stride, stride],
            ..Convolution::new(ConvolutionDirection::Forward, 2).padding(padding)
        };
        let y = graph.convolution("conv", attributes, [image, filter]);
        graph.set_output(y);
        graph
    }

    #[test]
    fn layers_of_few_channels_become_windows_and_folded_lines_where_that_pays() {
        let is_of_windows = |graph: &Graph| functions(graph).iter().take(2).eq(["fw_unfold", "fw_unfold_1"]);
        assert!(is_of_windows(&layer([64, 3, 224, 224], [7, 7], 2)));
        assert!(is_of_windows(&layer([64, 3, 224, 224], [3, 3], 1)));
        assert!(is_of_windows(&layer([64, 8, 224, 224], [7, 7], 2)));
        // taps fill boxes, and three launches cost more than a small layer
        assert!(!is_of_windows(&layer([64, 64, 56, 56], [7, 7], 1)));
        assert!(!is_of_windows(&layer([1, 3, 16, 16], [3, 3], 1)));
        let lines = decided(&layer([64, 3, 224, 224], [7, 7], 2)).details(false).join("\n");
        // 230 pixels of 8 channels: two lines' of 4; 4 taps of windows of 8 pixels
        assert!(lines.contains("unfolded first, to a matrix of rows of 3680 bytes"), "{lines}");
        assert!(lines.contains("unfolded first, to a matrix of rows of 512 bytes"), "{lines}");
    }

    #[test]
    fn filter_gradients_of_float_are_unfolded_where_that_pays() {
        let unfolds = |graph: &Graph| functions(graph)[0] == "fw_unfold";
        assert!(unfolds(&of_floats([512, 512], 7)) && unfolds(&of_floats([256, 256], 14)));
        assert!(!unfolds(&of_floats([64, 64], 2)));
        let lines = decided(&of_floats([512, 512], 7)).details(false).join("\n");
        assert!(lines.contains("note: operand 'x'") && lines.contains("unfolded first"), "{lines}");
    }

    #[test]
    fn what_would_be_turned_is_copied_where_many_tiles_read_it() {
        let of_float = |extents| matmul_of(DataType::Float, extents);
        assert_eq!(functions(&of_float([1, 4096, 4096, 4096])), ["fw_transposed_copy", "fw_matmul_1"]);
        assert_eq!(functions(&of_float([1, 128, 256, 256])), ["fw_matmul"]);
    }

    /// Whether the first config, and some config, evaluates mainloop stages first.
    fn evaluates_first(graph: &Graph) -> (bool, bool) {
        let selection = decided(graph).into_selection().expect("an engine takes it");
        let ranking = selection.candidates(&Device::typical(SM_90));
        let evaluates = |ranked: &RankedConfig| ranked.config.knob(Knob::EvaluateFirst, 0) == 1;
        (evaluates(&ranking[0]), ranking.iter().any(evaluates))
    }

    #[test]
    fn a_stage_that_many_taps_or_tiles_read_is_evaluated_first_where_that_is_worth_a_workspace() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Half);
        let [dy, x] = ["dy", "x"].map(|name| graph.tensor(Tensor::new(name).channels_last([256, 256, 14, 14])));
        let bias = graph.tensor(Tensor::new("bias").channels_last([1, 256, 1, 1]));
        let shifted = graph.pointwise("shifted", PointwiseMode::Add, &[x, bias]);
        let attributes = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
        let dw = graph.convolution("conv", attributes, [dy, shifted]);
        *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([256, 256, 3, 3]);
        graph.set_output(dw);
        assert_eq!(evaluates_first(&graph), (true, true));
        assert_eq!(functions(&graph)[..2], ["fw_pointwise", "fw_convolution_backward_filter_1"]);
        let lines = decided(&graph).details(false).join("\n");
        assert!(lines.contains("with evaluate_first=1: operand 'shifted::OUT_0'"), "{lines}");
        assert!(lines.contains("evaluated first, to rows of 512 bytes in the workspace"), "{lines}");

        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Half);
        let a = graph.tensor(Tensor::new("A").row_major([1, 4096, 4096]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 4096, 4096]));
        let positive = graph.pointwise("positive", PointwiseMode::ReluFwd, &[a]);
        let c = graph.matmul("mm", positive, b);
        graph.set_output(c);
        assert_eq!(evaluates_first(&graph), (false, true));
    }

    #[test]
    fn neighbours_of_the_graph_in_16_bytes_need_no_copy() {
        let fusion =
            |graph: &Graph| crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let aligned = fusion(&matmul([1, 64, 64, 64]));
        assert!(Tiles::of_copies(&aligned, aligned.product().expect("a matmul")).is_empty());
    }
}
