//! On several GPUs of a node: batch norms over the images of all of them, against one norm of the joint images on the CPU.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fusewright::graph::DataType::{BFloat16, Float, Half};
use fusewright::graph::{DataType, FinalizedGraph, Graph, Port, TensorId};
use fusewright::harness::DeviceTensors;
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::plan::{DeviceContext, Driver, ExecutionPlan};
use fusewright::reference::{BoundOptions, Distribution, bounds_with, compare, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::device;
use crate::norm_cases::{batch, batch_backward};
use crate::pipeline;

/// Executions that must not differ by a bit.
const REPEATS: usize = 5;

/// GPUs at most.
const MOST: u32 = 4;

/// Longer than kernels wait for a GPU.
const PATIENCE: Duration = Duration::from_secs(20);

/// A norm of so many images on each of so many GPUs.
type Norm = fn(DataType, [i64; 4], usize) -> Graph;

const CASES: [(&str, Norm, DataType, [i64; 4]); 6] = [
    ("forward_half", batch, Half, [4, 64, 14, 14]),
    ("forward_float_of_odd_channels", batch, Float, [3, 35, 5, 7]),
    ("forward_bf16_of_many_pixels", batch, BFloat16, [8, 256, 56, 56]),
    ("backward_half", batch_backward, Half, [4, 64, 14, 14]),
    ("backward_float_of_odd_channels", batch_backward, Float, [3, 35, 5, 7]),
    ("backward_bf16_of_many_pixels", batch_backward, BFloat16, [8, 256, 28, 28]),
];

/// The GPUs, each of which addresses the memory of all.
static NODE: LazyLock<Result<Vec<DeviceContext>, String>> = LazyLock::new(|| {
    let driver = Driver::load().map_err(|error| error.to_string())?;
    let open = |ordinal| driver.open(ordinal).map_err(|error| error.to_string());
    let node = (0..driver.device_count().min(MOST)).map(open).collect::<Result<Vec<_>, _>>()?;
    let pairs = node.iter().flat_map(|one| node.iter().map(move |other| (one, other)));
    for (one, other) in pairs.filter(|(one, other)| one.ordinal() != other.ordinal()) {
        one.access_memory_of(other).map_err(|error| error.to_string())?;
    }
    Ok(node)
});

pub(crate) fn trials() -> Vec<Trial> {
    let is_alone = NODE.as_ref().is_ok_and(|node| node.len() < 2);
    let joint = CASES.map(|(name, norm, data_type, image)| {
        Trial::test(format!("device::peers::{name}"), move || all_compute_the_joint_norm(norm, data_type, image))
    });
    let absent = Trial::test("device::peers::absent", an_absent_gpu_is_named);
    joint.into_iter().chain([absent]).map(|trial| trial.with_ignored_flag(is_alone)).collect()
}

fn node() -> Result<&'static [DeviceContext], Failed> {
    NODE.as_ref().map(Vec::as_slice).map_err(|error| Failed::from(error.clone()))
}

/// A graph on each GPU of a node.
struct OnNode {
    graph: Arc<FinalizedGraph>,
    plans: Vec<ExecutionPlan>,
}

impl OnNode {
    fn new(graph: &Graph) -> Result<Self, Failed> {
        let plan = |context: &DeviceContext| device::build(context, &pipeline::lower(graph, context.device())?);
        let plans = node()?.iter().map(plan).collect::<Result<Vec<_>, Failed>>()?;
        Ok(Self { graph: Arc::new(graph.finalize()?), plans })
    }

    fn peers(&self) -> Vec<TensorId> {
        let operation = self.graph.operations().next().expect("a norm");
        Port::PEER_STATS.iter().map_while(|&port| operation.input(port)).collect()
    }

    /// Runs on the first GPUs of the node, with messages that have not come; the results of each.
    fn run(&self, inputs: &[HostTensors]) -> Result<Vec<HostTensors>, Failed> {
        let upload = |(plan, inputs): (&ExecutionPlan, &HostTensors)| DeviceTensors::upload(plan, &self.graph, inputs);
        let tensors = self.plans.iter().zip(inputs).map(upload).collect::<Result<Vec<_>, _>>()?;
        // messages to GPUs that do not run go to memory of the first
        let owner = |rank: usize| tensors.get(rank).unwrap_or(&tensors[0]);
        for (plan, own) in self.plans.iter().zip(&tensors) {
            let mut pack = own.pack().clone();
            for (rank, id) in self.peers().into_iter().enumerate() {
                let uid = self.graph.tensor(id).uid;
                pack.set_pointer(uid, owner(rank).pack().pointer(uid).expect("a tensor in memory"));
            }
            // SAFETY: the pack has a buffer for each tensor, on this device or on one whose memory it addresses, until all are waited for.
            unsafe { plan.execute(&pack, own.workspace(), own.stream()) }?;
        }
        tensors.iter().try_for_each(|tensors| tensors.stream().wait(PATIENCE))?;
        tensors.iter().map(|tensors| Ok(tensors.download(&self.graph)?)).collect()
    }
}

/// The part of a tensor that a GPU has: its images.
fn part(whole: &HostTensor, like: &fusewright::graph::FinalTensor, rank: usize) -> Result<HostTensor, Failed> {
    let values: Vec<f32> = whole.to_dense()?;
    let count = like.dim.iter().product::<i64>() as usize;
    let start = if values.len() > count { rank * count } else { 0 };
    Ok(HostTensor::from_dense(like.data_type, &like.dim, &like.stride, &values[start..start + count])?)
}

/// What each GPU is given of the inputs of the joint norm: tensors correspond by their names.
fn given(
    graph: &FinalizedGraph,
    joint: &FinalizedGraph,
    inputs: &HostTensors,
    rank: usize,
) -> Result<HostTensors, Failed> {
    let mut own = HostTensors::new();
    for id in graph.inputs() {
        let tensor = graph.tensor(id);
        let host = match joint.tensor_ids().find(|&other| joint.tensor(other).name == tensor.name) {
            Some(other) => match inputs.get(&other) {
                Some(whole) => part(whole, tensor, rank)?,
                None => continue,
            },
            None => HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |_| 0.0)?,
        };
        own.insert(id, host);
    }
    Ok(own)
}

/// The results of all GPUs as those of the joint norm: images one behind the other, and of a gradient the sum of all shares.
fn joined(joint: &FinalizedGraph, graph: &FinalizedGraph, found: &[HostTensors]) -> Result<HostTensors, Failed> {
    let mut outputs = HostTensors::new();
    for id in joint.results() {
        let tensor = joint.tensor(id);
        let own =
            graph.results().into_iter().find(|&own| graph.tensor(own).name == tensor.name).expect("the same results");
        let parts = found.iter().map(|found| found[&own].to_dense::<f32>()).collect::<Result<Vec<_>, _>>()?;
        let is_at = |port: &Port| joint.operations().any(|operation| operation.output(*port) == Some(id));
        let is_share = [Port::DSCALE, Port::DBIAS].iter().any(is_at);
        let values: Vec<f32> = match tensor.dim == graph.tensor(own).dim {
            true if parts.iter().any(|part| part != &parts[0]) => {
                return Err(format!("{}: GPUs have found different values", tensor.name).into());
            }
            true if is_share => parts[0].iter().map(|value| value * found.len() as f32).collect(),
            true => parts[0].clone(),
            false => parts.concat(),
        };
        outputs.insert(id, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values)?);
    }
    Ok(outputs)
}

fn all_compute_the_joint_norm(norm: Norm, data_type: DataType, image: [i64; 4]) -> Result<(), Failed> {
    let gpus = node()?.len();
    let on_node = OnNode::new(&norm(data_type, image, gpus))?;
    let joint = Arc::new(norm(data_type, [image[0] * gpus as i64, image[1], image[2], image[3]], 0).finalize()?);
    for seed in 0..2 {
        let inputs = random_inputs(&joint, seed, Distribution::Normal)?;
        let own = |rank| given(&on_node.graph, &joint, &inputs, rank);
        let own = (0..gpus).map(own).collect::<Result<Vec<_>, _>>()?;
        let found = on_node.run(&own)?;
        let actual = joined(&joint, &on_node.graph, &found)?;
        let bounds = bounds_with(&joint, &inputs, BoundOptions::default())?;
        let comparison = compare(&joint, &execute(&joint, &inputs)?, &actual, Some(&bounds))?;
        if !comparison.is_match() {
            return Err(format!("{gpus} GPUs\n{comparison}").into());
        }
        for _ in 0..REPEATS {
            if on_node.run(&own)? != found {
                return Err("an execution differs from the one before it".into());
            }
        }
    }
    on_node.plans.iter().try_for_each(ExecutionPlan::check_peers)?;
    Ok(())
}

/// A GPU that waits for one that does not run ends, with NaN and an error that names the rank.
fn an_absent_gpu_is_named() -> Result<(), Failed> {
    let graph = batch(Half, [2, 8, 4, 4], node()?.len());
    let on_node = OnNode::new(&graph)?;
    let inputs = random_inputs(&on_node.graph, 1, Distribution::Normal)?;
    let with_silence = on_node.graph.inputs().filter(|id| inputs.contains_key(id)).map(|id| {
        let tensor = on_node.graph.tensor(id);
        let silence = HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |_| 0.0);
        let is_of_peers = on_node.peers().contains(&id);
        Ok((id, if is_of_peers { silence? } else { inputs[&id].clone() }))
    });
    let inputs = with_silence.collect::<Result<HostTensors, Failed>>()?;
    let found = on_node.run(std::slice::from_ref(&inputs))?;
    let y = on_node.graph.results()[0];
    if found[0][&y].to_dense::<f32>()?.iter().any(|value| !value.is_nan()) {
        return Err("what was computed without a GPU is not NaN".into());
    }
    match on_node.plans[0].check_peers() {
        Err(error) if error.to_string().contains("did not send its statistics within 10 s") => Ok(()),
        other => Err(format!("required an error that names the rank; found {other:?}").into()),
    }
}
