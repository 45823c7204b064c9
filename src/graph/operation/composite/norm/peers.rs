//! Batch norm over the images of several GPUs of a node (N-10g, N-43, N-112).
//!
//! Every GPU reduces its own images; what they found is sent to all others, and each joins it in order of their ranks: a joint mean is the mean of
//! the means, a joint variance the mean of the variances and of the squares by which the means differ, as all have as many images.

use super::{DataType, Expansion, Layout, Malformed, Node, PointwiseMode, Port, TensorId, average, total};
use crate::graph::AllGather;

/// Inputs that a batch norm of training and its gradient may have beside others.
pub(super) const PORTS: &[Port] = &Port::PEER_STATS;

/// Number of GPUs that the batch norm of a node runs on.
fn count(node: &Node) -> usize {
    PORTS.iter().filter(|&&port| node.tensor(port).is_some()).count()
}

/// Extents of the tensors that peers write to: a message from each of them.
fn dim(ranks: usize, x: &[i64]) -> Vec<i64> {
    let channels = x.get(1).copied().unwrap_or(1);
    let mut dim = vec![1; x.len()];
    (dim[0], dim[1]) = (ranks as i64, AllGather::message_words(channels));
    dim
}

/// Completes tensors of peers that have no extents.
pub(super) fn complete(node: &mut Node) -> Result<(), Malformed> {
    let (ranks, x) = (count(node), node.dim(Port::X)?.to_vec());
    PORTS.iter().filter(|_| x.len() > 1).for_each(|&port| node.complete(port, dim(ranks, &x), &Layout::RowMajor));
    Ok(())
}

/// Peers come without a gap, in packed FLOAT tensors that hold a message from each; apex and cuDNN's samples say X's extents of memory that
/// is larger.
pub(super) fn check(node: &Node) -> Result<(), Malformed> {
    let (ranks, x) = (count(node), node.dim(Port::X)?);
    if ranks == 0 {
        return Ok(());
    }
    let required: i64 = dim(ranks, x).iter().product();
    for &port in &PORTS[..ranks] {
        let Some(tensor) = node.tensor(port) else {
            return Err(node.fault("N-10g", format!("port {port} is empty, and a later one has a tensor of peers")));
        };
        if tensor.data_type != Some(DataType::Float) {
            let found = tensor.data_type.map_or("none", DataType::name);
            return Err(node.fault_at("N-10g", port, format!("type {found}; required FLOAT")));
        }
        let elements: i64 = tensor.dim.iter().product();
        if elements != required && tensor.dim != x {
            let message = format!(
                "dims are {:?}; required {required} elements, {} words from each of {ranks} GPUs",
                tensor.dim,
                required / ranks as i64
            );
            return Err(node.fault_at("N-10g", port, message));
        }
    }
    Ok(())
}

/// Tensors that peers send to, in order of their ranks; none where there is one GPU.
fn peers(expansion: &mut Expansion) -> Vec<TensorId> {
    PORTS.iter().map_while(|&port| expansion.input(port)).collect()
}

/// Number of GPUs, as a factor of counts.
pub(super) fn ranks(expansion: &mut Expansion) -> f64 {
    peers(expansion).len().max(1) as f64
}

/// Mean and variance of the images of all GPUs.
pub(super) fn join_moments(
    expansion: &mut Expansion,
    mean: Option<TensorId>,
    variance: TensorId,
) -> (Option<TensorId>, TensorId) {
    use PointwiseMode as M;
    let peers = peers(expansion);
    let Some(own) = mean.filter(|_| !peers.is_empty()) else { return (mean, variance) };
    let dim = expansion.dim(own).to_vec();
    let means = expansion.all_gather(0, own, &peers);
    let variances = expansion.all_gather(1, variance, &peers);
    let mean = average(expansion, means, &dim);
    let difference = expansion.pointwise(M::Sub, &[means, mean]);
    let square = expansion.pointwise(M::Mul, &[difference, difference]);
    let about_mean = expansion.pointwise(M::Add, &[variances, square]);
    (Some(mean), average(expansion, about_mean, &dim))
}

/// The two sums of a gradient, over the images of all GPUs.
pub(super) fn join_sums(expansion: &mut Expansion, sums: &mut [Option<TensorId>; 2]) {
    let peers = peers(expansion);
    for (place, sum) in sums.iter_mut().enumerate().filter(|_| !peers.is_empty()) {
        let Some(own) = *sum else { continue };
        let dim = expansion.dim(own).to_vec();
        let of_all = expansion.all_gather(place as i64, own, &peers);
        *sum = Some(total(expansion, of_all, &dim));
    }
}

/// A gradient of a parameter is a GPU's share of the joint sum (N-43).
pub(super) fn share(expansion: &mut Expansion, port: Port, sum: TensorId) {
    match peers(expansion).len() {
        0 => expansion.result(port, PointwiseMode::Identity, &[sum]),
        count => {
            let rank = expansion.dim(sum).len();
            let count = expansion.constant(count as f64, rank);
            expansion.result(port, PointwiseMode::Div, &[sum, count]);
        }
    }
}
