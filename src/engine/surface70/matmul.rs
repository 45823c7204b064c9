//! Matmul with mainloop and epilogue fusion on plain multiply-adds.

use std::collections::BTreeSet;

use super::pass::{
    accumulations, function_name, lower_pass, partial_regions, passes, program_parameters, push_combine, stored_result,
    to_u32,
};
use super::sweep::span;
use super::{EngineConfig, NAME};
use crate::device::Device;
use crate::engine::Knob;
use crate::fusion::{Fusion, Stage};
use crate::graph::{DataType, FinalizedGraph, OperationId, TensorId};
use crate::kernel::{
    Accumulation, Axis, Body, Function, IterationSpace, Kernel, Launch, MatmulKernel, MatmulTile, Operand, Parameter,
    PartialLayout, Register, StageProgram, step,
};

const LARGE: MatmulTile = MatmulTile { block_m: 128, block_n: 128, block_k: 8, thread_m: 8, thread_n: 8 };
const MEDIUM: MatmulTile = MatmulTile { block_m: 64, block_n: 64, block_k: 16, thread_m: 4, thread_n: 4 };
const SMALL: MatmulTile = MatmulTile { block_m: 32, block_n: 32, block_k: 32, thread_m: 2, thread_n: 2 };

/// Tiles, the cheapest first.
pub(super) fn candidates(fusion: &Fusion, device: &Device) -> Vec<EngineConfig> {
    let extents = extents(fusion);
    let mut order = [LARGE, MEDIUM, SMALL];
    order.sort_by(|a, b| cost(a, extents, device).total_cmp(&cost(b, extents, device)));
    let config = |tile: MatmulTile| EngineConfig {
        engine: NAME,
        knobs: vec![(Knob::TileM, tile.block_m), (Knob::TileN, tile.block_n)],
    };
    order.into_iter().map(config).collect()
}

/// Time of a tile choice in multiply-adds of one multiprocessor: waves of blocks, each as long as its tile is large,
/// weighted by the rate of the tile relative to the largest (2048³ on an H200: 23.1, 18.2 and 11.6 TFLOP/s).
fn cost(tile: &MatmulTile, [batch, m, n, _]: [i64; 4], device: &Device) -> f64 {
    let blocks = batch * tiles(m, tile.block_m) * tiles(n, tile.block_n);
    let waves = (blocks as f64 / f64::from(device.sm_count)).ceil();
    let slowness = match tile.thread_m {
        8 => 1.0,
        4 => 1.27,
        _ => 2.0,
    };
    waves * f64::from(tile.block_m * tile.block_n) * slowness
}

/// Lowers the core with both mainloop stages and the epilogue; epilogue results of other extents than the core's get
/// passes of their own.
pub(super) fn lower(fusion: &Fusion, config: &EngineConfig, device: &Device, kernel: &mut Kernel) {
    let graph = fusion.graph().clone();
    let split = EpilogueSplit::new(fusion);
    push_matmul(fusion, &split.fused, tile(config), kernel);
    let program = StageProgram::of(&graph, split.apart.iter().copied(), None);
    for pass in passes(&graph, &split.apart) {
        lower_pass(&graph, &program, pass, config, device, kernel);
    }
}

/// Batch count, M, N, K: those of the largest epilogue value, over which the core's result broadcasts where its own
/// extent is 1.
fn extents(fusion: &Fusion) -> [i64; 4] {
    let graph = fusion.graph();
    let [a, _] = fusion.core_operands().expect("a matmul fusion has a core");
    let derived = derived_from(fusion, core_result(fusion));
    let largest = |axis: usize| derived.iter().map(|&id| graph.tensor(id).dim[axis]).max().unwrap_or(1);
    [largest(0), largest(1), largest(2), graph.tensor(a).dim[2]]
}

fn core_result(fusion: &Fusion) -> TensorId {
    fusion.core_result().expect("a matmul fusion has a core")
}

fn tile(config: &EngineConfig) -> MatmulTile {
    let wanted = (config.knob(Knob::TileM, MEDIUM.block_m), config.knob(Knob::TileN, MEDIUM.block_n));
    [LARGE, MEDIUM, SMALL].into_iter().find(|tile| (tile.block_m, tile.block_n) == wanted).unwrap_or(MEDIUM)
}

fn tiles(extent: i64, block: u32) -> i64 {
    (extent + i64::from(block) - 1) / i64::from(block)
}

/// Epilogue operations evaluated with the core's tiles, and those that stand apart.
struct EpilogueSplit {
    fused: Vec<OperationId>,
    apart: Vec<OperationId>,
}

impl EpilogueSplit {
    /// An operation stands apart if it neither depends on the core nor feeds an operation that does. A value that both
    /// need is evaluated in both.
    fn new(fusion: &Fusion) -> Self {
        let graph = fusion.graph();
        let derived = derived_from(fusion, core_result(fusion));
        let depends = |&id: &OperationId| graph.operation(id).input_tensors().any(|input| derived.contains(&input));
        let epilogue: Vec<OperationId> = fusion.operations(Stage::Epilogue).collect();
        let without_core: Vec<OperationId> = epilogue.iter().copied().filter(|id| !depends(id)).collect();
        let exposed =
            without_core.iter().any(|&id| stored_result(graph, id).is_some() || !accumulations(graph, id).is_empty());
        let mut wanted = BTreeSet::new();
        let mut fused = Vec::new();
        for &id in epilogue.iter().rev() {
            let operation = graph.operation(id);
            if depends(&id) || operation.output_tensors().any(|tensor| wanted.contains(&tensor)) {
                wanted.extend(operation.input_tensors());
                fused.push(id);
            }
        }
        fused.reverse();
        Self { fused, apart: if exposed { without_core } else { Vec::new() } }
    }
}

/// Tensors computed from `source`, itself included.
fn derived_from(fusion: &Fusion, source: TensorId) -> BTreeSet<TensorId> {
    let graph = fusion.graph();
    let mut derived = BTreeSet::from([source]);
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        if operation.input_tensors().any(|input| derived.contains(&input)) {
            derived.extend(operation.output_tensors());
        }
    }
    derived
}

fn push_matmul(fusion: &Fusion, epilogue: &[OperationId], tile: MatmulTile, kernel: &mut Kernel) {
    let graph = fusion.graph().clone();
    let c = core_result(fusion);
    let extents = extents(fusion);
    let program = StageProgram::of(&graph, epilogue.iter().copied(), Some(c));
    let derived = derived_from(fusion, c);
    let stores = stores(&graph, c, epilogue, &derived);
    let reduction = epilogue.iter().flat_map(|&id| accumulations(&graph, id)).find(|a| derived.contains(&a.source));
    let sources = reduction.iter().map(|accumulation| accumulation.source);
    let matmul = MatmulKernel {
        extents,
        tile,
        a: operand(fusion, 0),
        b: operand(fusion, 1),
        accumulator: accumulator(fusion),
        c,
        epilogue: program.needed_for(stores.iter().copied().chain(sources).chain([c])),
        reduction: reduction.map(|accumulation| (accumulation, partial_layout(&graph, &accumulation, extents, tile))),
        n_contiguous: n_contiguous(&graph, &stores, c),
        wide_index: wide_index(&graph),
        stores,
    };
    let partials = match &matmul.reduction {
        Some((_, layout)) => partial_regions(kernel, 1, layout.splits * layout.kept),
        None => Vec::new(),
    };
    let launch = launch(&graph, &matmul, &partials, kernel);
    let combine = matmul.reduction.clone();
    kernel.functions.push(Function { launch, body: Body::Matmul(matmul) });
    if let Some((accumulation, layout)) = combine {
        let space = kept_space(&graph, &accumulation, extents, layout.reduced);
        let source = &graph.tensor(accumulation.source).dim;
        let count =
            source.iter().zip(layout.reduced).filter(|(_, reduced)| *reduced).map(|(extent, _)| extent).product();
        push_combine(&graph, space, vec![accumulation], partials, layout.splits, count, kernel);
    }
}

/// The core's own result if it is stored, then every stored result derived from it.
fn stores(
    graph: &FinalizedGraph,
    c: TensorId,
    epilogue: &[OperationId],
    derived: &BTreeSet<TensorId>,
) -> Vec<TensorId> {
    let core = (!graph.tensor(c).is_virtual).then_some(c);
    let results = epilogue.iter().filter_map(|&id| stored_result(graph, id)).filter(|id| derived.contains(id));
    core.into_iter().chain(results).collect()
}

fn operand(fusion: &Fusion, slot: usize) -> Operand {
    let graph = fusion.graph();
    let tensor = fusion.core_operands().expect("a matmul fusion has a core")[slot];
    let stage = [Stage::MainloopA, Stage::MainloopB][slot];
    let program = match graph.producer(tensor) {
        Some(_) => StageProgram::of(graph, fusion.operations(stage), None).needed_for([tensor].into_iter()),
        None => StageProgram::load(tensor),
    };
    let largest = program
        .loads()
        .max_by_key(|&id| (super::sweep::elements(graph.tensor(id)), std::cmp::Reverse(id)))
        .expect("an operand reads some tensor");
    let rank = graph.tensor(tensor).dim.len();
    let k_axis = if slot == 0 { rank - 1 } else { rank - 2 };
    let k_contiguous = graph.tensor(largest).stride[k_axis] == 1;
    Operand { program, tensor, k_contiguous }
}

/// INT32 compute accumulates in `int`; every other compute type in `float` (A-40: wider than HALF is acceptable).
fn accumulator(fusion: &Fusion) -> Register {
    let core = fusion.core().expect("a matmul fusion has a core");
    Register::of(fusion.graph().compute_type(core))
}

/// Whether N is contiguous in the first packed boolean, whose bytes are gathered from neighbouring threads, else in the
/// first stored tensor, else in C.
fn n_contiguous(graph: &FinalizedGraph, stores: &[TensorId], c: TensorId) -> bool {
    let is_packed = |id: TensorId| {
        let tensor = graph.tensor(id);
        tensor.data_type == DataType::Boolean && super::sweep::elements(tensor) > 1
    };
    let packed = stores.iter().find(|&&id| is_packed(id));
    let tensor = graph.tensor(*packed.or(stores.first()).unwrap_or(&c));
    let rank = tensor.dim.len();
    let (m, n) = (rank - 2, rank - 1);
    tensor.stride[n] == 1 && (tensor.dim[n] > 1 || tensor.stride[m] != 1) || tensor.dim[m] == 1
}

fn wide_index(graph: &FinalizedGraph) -> bool {
    graph.tensors().any(|tensor| !tensor.is_virtual && span(tensor) > i64::from(i32::MAX))
}

/// Reduced tiles give one partial each; a reduced batch axis gives one for each batch.
fn partial_layout(
    graph: &FinalizedGraph,
    accumulation: &Accumulation,
    [batch, m, n, _]: [i64; 4],
    tile: MatmulTile,
) -> PartialLayout {
    let target = &graph.tensor(accumulation.target).dim;
    let whole = [batch, m, n];
    let reduced = [0, 1, 2].map(|axis| target[axis] == 1 && whole[axis] > 1);
    let split = [batch, tiles(m, tile.block_m), tiles(n, tile.block_n)];
    let product = |extents: [i64; 3], wanted: bool| -> i64 {
        extents.iter().zip(reduced).filter(|(_, reduced)| *reduced == wanted).map(|(extent, _)| extent).product()
    };
    PartialLayout { reduced, splits: product(split, true), kept: product(whole, false) }
}

/// The kept axes of B, M, N, with the target's strides.
fn kept_space(
    graph: &FinalizedGraph,
    accumulation: &Accumulation,
    extents: [i64; 4],
    reduced: [bool; 3],
) -> IterationSpace {
    let target = accumulation.target;
    let axes = (0..3).filter(|&axis| !reduced[axis]).map(|axis| Axis {
        extent: extents[axis],
        reduced: false,
        graph_axes: vec![axis],
        strides: [(target, step(graph.tensor(target), axis))].into(),
    });
    IterationSpace { axes: axes.collect() }
}

fn launch(graph: &FinalizedGraph, matmul: &MatmulKernel, partials: &[Parameter], kernel: &Kernel) -> Launch {
    let [batch, m, n, _] = matmul.extents;
    let tile = matmul.tile;
    let programs = [&matmul.a.program, &matmul.b.program, &matmul.epilogue];
    let loads = programs.into_iter().flat_map(|program| program.loads());
    let mut parameters = program_parameters(loads, &matmul.stores, |id| graph.tensor(id).is_pass_by_value);
    parameters.extend(partials);
    Launch {
        function: function_name("matmul", kernel),
        grid: [to_u32(batch * tiles(m, tile.block_m) * tiles(n, tile.block_n)), 1, 1],
        block: [tile.threads(), 1, 1],
        shared_bytes: shared_bytes(tile),
        starts_early: false,
        parameters,
    }
}

/// Both operand tiles during the mainloop, the accumulator tile in the epilogue; rows are padded by one word.
fn shared_bytes(tile: MatmulTile) -> u32 {
    let mainloop = tile.block_k * (tile.block_m + 1 + tile.block_n + 1);
    let epilogue = tile.block_m * tile.block_n;
    4 * mainloop.max(epilogue)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{Graph, PointwiseMode, Tensor};

    fn graph([m, n, k]: [i64; 3]) -> (Graph, TensorId) {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        (graph, c)
    }

    fn fused(graph: &Graph) -> Fusion {
        crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul")
    }

    #[test]
    fn large_problems_take_large_tiles_and_few_rows_small_ones() {
        let device = Device::typical(ComputeCapability::SM_90);
        let order = |extents| -> Vec<u32> {
            let configs = candidates(&fused(&graph(extents).0), &device);
            configs.iter().map(|config| config.knob(Knob::TileM, 0)).collect()
        };
        assert_eq!(order([8192, 8192, 64])[0], 128);
        assert_eq!(order([16, 2048, 2048])[0], 32);
        assert_eq!(order([2048, 2048, 2048]).len(), 3);
    }

    #[test]
    fn operations_beside_the_core_stand_apart_only_if_they_are_stored() {
        for stored in [false, true] {
            let (mut graph, c) = graph([8, 16, 4]);
            let x = graph.tensor(Tensor::new("x").row_major([1, 1, 16]));
            let side = graph.pointwise("side", PointwiseMode::Exp, &[x]);
            let sum = graph.pointwise("sum", PointwiseMode::Add, &[c, side]);
            graph.set_output(sum);
            if stored {
                graph.set_output(side);
            }
            let split = EpilogueSplit::new(&fused(&graph));
            assert_eq!((split.fused.len(), split.apart.len()), (2, usize::from(stored)));
        }
    }

    #[test]
    fn packed_booleans_decide_how_threads_step() {
        let (mut graph, c) = graph([16, 16, 4]);
        let mask = graph.pointwise("mask", PointwiseMode::CmpGt, &[c, c]);
        graph.set_output(mask).data_type = Some(DataType::Boolean);
        graph.tensor_mut(mask).stride = vec![256, 1, 16];
        let graph = graph.finalize().expect("well formed");
        let stores: Vec<TensorId> = graph.outputs().collect();
        assert!(!n_contiguous(&graph, &stores, stores[0]));
    }
}
