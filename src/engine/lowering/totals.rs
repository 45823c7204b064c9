//! What passes may do at once around totals: mean and variance of a value that is read once, and what follows totals in their combination.

use std::collections::BTreeSet;

use super::passes::{Moments, Pass};
use crate::graph::{Attributes, DataType, FinalizedGraph, PointwiseMode, Port, TensorId};
use crate::kernel::{Accumulation, Combine, Finish, Map, StageProgram, Value};

/// Passes of which an average and the average of squares of differences from it are one: each such pair is a pass of its own, which reads
/// the value once. What is between them is computed in FLOAT and kept nowhere.
pub(super) fn with_moments(graph: &FinalizedGraph, passes: &mut Vec<Pass>) {
    let pairs: Vec<(usize, usize, Moments)> =
        passes.iter().enumerate().flat_map(|(first, pass)| pairs_of(graph, passes, first, pass)).collect();
    for (first, second, moments) in pairs {
        let apart = |pass: &mut Pass, target| pass.accumulations.retain(|accumulation| accumulation.target != target);
        apart(&mut passes[first], moments.mean);
        apart(&mut passes[second], moments.variance);
        let of_pair =
            Pass { stores: Vec::new(), accumulations: Vec::new(), moments: Some(moments), ..passes[first].clone() };
        passes.push(of_pair);
    }
    let is_empty = |pass: &Pass| pass.totals().next().is_none() && pass.stores.is_empty() && pass.gathered.is_empty();
    passes.retain(|pass| !is_empty(pass));
    passes.sort_by_key(|pass| (pass.level, pass.packed.is_none()));
}

/// The pairs whose first average is in a pass.
fn pairs_of(graph: &FinalizedGraph, passes: &[Pass], first: usize, pass: &Pass) -> Vec<(usize, usize, Moments)> {
    let averages = pass.accumulations.iter().filter(|accumulation| is_average(accumulation));
    let pair = |average: &Accumulation| {
        passes.iter().enumerate().skip(first + 1).find_map(|(second, later)| {
            let is_alike = (&later.extents, &later.reduced) == (&pass.extents, &pass.reduced);
            let variance = later.accumulations.iter().find(|other| is_variance(graph, average, other));
            let variance = variance.filter(|_| is_alike)?;
            Some((first, second, Moments { source: average.source, mean: average.target, variance: variance.target }))
        })
    };
    averages.filter_map(pair).collect()
}

fn is_average(accumulation: &Accumulation) -> bool {
    (accumulation.map, accumulation.combine, accumulation.finish) == (Map::Identity, Combine::Sum, Finish::Mean)
}

/// Whether a reduction averages the squares of differences from an average of the same value.
fn is_variance(graph: &FinalizedGraph, average: &Accumulation, other: &Accumulation) -> bool {
    let operands = |id: TensorId, mode: PointwiseMode| {
        let operation = graph.producer(id)?;
        let Attributes::Pointwise(pointwise) = &graph.operation(operation).attributes else { return None };
        let found = graph.operation(operation);
        let is_exact = pointwise.mode == mode
            && !pointwise.is_scaled()
            && graph.compute_type(operation) == DataType::Float
            && is_kept_nowhere(graph, id);
        is_exact.then_some([found.input(Port::IN_0)?, found.input(Port::IN_1)?])
    };
    let squared = operands(other.source, PointwiseMode::Mul).filter(|[a, b]| a == b).map(|[a, _]| a);
    let difference = squared.and_then(|difference| operands(difference, PointwiseMode::Sub));
    is_average(other)
        && is_kept_nowhere(graph, average.target)
        && is_kept_nowhere(graph, other.target)
        && difference == Some([average.source, average.target])
}

fn is_kept_nowhere(graph: &FinalizedGraph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    tensor.is_virtual && tensor.data_type == DataType::Float
}

/// What has a value for each kept point of one reduction, and needs no other totals than its, goes with these.
pub(super) fn with_following(graph: &FinalizedGraph, program: &StageProgram, passes: Vec<Pass>) -> Vec<Pass> {
    let gathered = passes.iter().flat_map(|pass| &pass.gathered).map(|gathered| gathered.target);
    let all: BTreeSet<TensorId> = passes.iter().flat_map(Pass::totals).chain(gathered).collect();
    let (mut left, mut done) = (passes, Vec::new());
    while !left.is_empty() {
        let (pass, others) = with_following_of(graph, program, (left, &all), 0);
        done.push(pass);
        left = others;
    }
    done
}

/// One of the passes with what follows it, of all these totals, and the others.
pub(super) fn with_following_of(
    graph: &FinalizedGraph,
    program: &StageProgram,
    (mut passes, all): (Vec<Pass>, &BTreeSet<TensorId>),
    number: usize,
) -> (Pass, Vec<Pass>) {
    let mut pass = passes.remove(number);
    let (following, others): (Vec<Pass>, Vec<Pass>) =
        passes.into_iter().partition(|later| follows(graph, program, (&pass, all), later));
    pass.following.extend(following.into_iter().flat_map(|pass| pass.stores));
    (pass, others)
}

/// Whether a pass needs the totals of another one, and no others of `all`, for the points that these have.
fn follows(
    graph: &FinalizedGraph,
    program: &StageProgram,
    (pass, all): (&Pass, &BTreeSet<TensorId>),
    later: &Pass,
) -> bool {
    let own: BTreeSet<TensorId> = pass.totals().collect();
    let needed = program.needed_for(later.stores.iter().copied());
    let read: BTreeSet<TensorId> = needed.loads().filter(|id| all.contains(id)).collect();
    let is_plain = needed.steps.iter().all(|step| matches!(step.value, Value::Load | Value::Pointwise { .. }));
    let is_alone = later.totals().next().is_none() && later.packed.is_none() && later.gathered.is_empty();
    // bytes of packed booleans are of several points
    let is_packed = later.stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean);
    is_plain
        && is_alone
        && !is_packed
        && later.extents == pass.kept_extents()
        && own.iter().all(|&id| is_kept_nowhere(graph, id))
        && !read.is_empty()
        && read.is_subset(&own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::lowering::passes::passes;
    use crate::graph::{Graph, NormForward, NormMode, NormPhase, Port, ReductionMode, Scalar, Tensor};

    /// A training norm of channels with its statistics, whose mean is kept in a type.
    fn norm(mean: DataType) -> FinalizedGraph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([4, 24, 5, 7]));
        let epsilon = graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5)));
        let norm = NormForward::new(NormMode::Batch, NormPhase::Training);
        let outputs = [Port::Y, Port::MEAN, Port::INV_VARIANCE];
        let [scale, bias] = [Port::SCALE, Port::BIAS].map(|port| {
            (port, graph.tensor(Tensor::new(port.0).channels_last([1, 24, 1, 1]).data_type(DataType::Float)))
        });
        let inputs = [(Port::X, x), scale, bias, (Port::EPSILON, epsilon)];
        let results = graph.composite("norm", norm, &inputs, &outputs);
        for (id, data_type) in results.into_iter().zip([DataType::Half, mean, DataType::Float]) {
            graph.set_output(id).data_type = Some(data_type);
        }
        graph.finalize().expect("well formed").expand_in(DataType::Float).as_ref().clone()
    }

    fn gathered(graph: &FinalizedGraph) -> Vec<Pass> {
        let operations: Vec<_> = graph.operation_ids().collect();
        let program = StageProgram::of(graph, operations.iter().copied(), None);
        let mut passes = passes(graph, &operations, None);
        with_moments(graph, &mut passes);
        with_following(graph, &program, passes)
    }

    #[test]
    fn mean_and_variance_are_one_pass_that_statistics_follow() {
        let passes = gathered(&norm(DataType::Float));
        let shape = |pass: &Pass| (pass.moments.is_some(), pass.following.len(), pass.stores.len());
        assert_eq!(passes.iter().map(shape).collect::<Vec<_>>(), [(true, 2, 0), (false, 0, 1)]);
    }

    #[test]
    fn bytes_of_packed_booleans_do_not_follow_totals() {
        let passes = gathered(&norm(DataType::Boolean));
        let following: Vec<usize> = passes.iter().map(|pass| pass.following.len()).collect();
        assert_eq!((passes.len(), following.iter().sum::<usize>()), (3, 1));
    }

    #[test]
    fn an_average_of_squares_around_another_average_is_a_reduction_like_any() {
        let mut graph = Graph::new()
            .io_data_type(DataType::Float)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let [x, y] = ["x", "y"].map(|name| graph.tensor(Tensor::new(name).channels_last([4, 24, 5, 7])));
        let mean = graph.reduction("mean", ReductionMode::Avg, y, [1, 24, 1, 1]);
        let apart = graph.pointwise("apart", PointwiseMode::Sub, &[x, mean]);
        let square = graph.pointwise("square", PointwiseMode::Mul, &[apart, apart]);
        let average = graph.reduction("average", ReductionMode::Avg, square, [1, 24, 1, 1]);
        graph.set_output(average);
        let passes = gathered(&graph.finalize().expect("well formed"));
        assert!(passes.iter().all(|pass| pass.moments.is_none()));
    }
}
