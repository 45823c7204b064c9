//! Runs with the tensors of a graph.

use super::*;
use crate::graph::{DataType, FinalizedGraph, PointwiseMode, Scalar};
use crate::host_tensor::{HostTensor, HostTensors};

const SCALE_AND_ADD: &str = r#"
extern "C" __global__ void __launch_bounds__(32)
scale_and_add(const unsigned short* __restrict__ x, float scale, int shift, float* __restrict__ y) {
  y[threadIdx.x * 2] = fw_f16_bits_to_f32(x[threadIdx.x]) * scale + (float)shift;
}"#;

/// y = x · 1/3 + shift: x of 32 halves, 1/3 a half known to the graph, shift an integer given at run time, y of floats
/// with gaps.
struct Fixture {
    graph: FinalizedGraph,
    ids: [TensorId; 4],
    source: Source,
    inputs: HostTensors,
}

fn fixture() -> Fixture {
    let mut graph = Graph::new().compute_data_type(DataType::Float).intermediate_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").uid(1).data_type(DataType::Half).row_major([1, 32]));
    let scale = graph.tensor(Tensor::scalar("scale", DataType::Half, Scalar::Float(1.0 / 3.0)).uid(2));
    let shift = Tensor { value: None, ..Tensor::scalar("shift", DataType::Int32, Scalar::Integer(0)) };
    let shift = graph.tensor(shift.uid(3));
    let scaled = graph.pointwise("scale", PointwiseMode::Mul, &[x, scale]);
    let y = graph.pointwise("add", PointwiseMode::Add, &[scaled, shift]);
    *graph.tensor_mut(y) = Tensor::new("y").uid(4).data_type(DataType::Float).dim([1, 32]).stride([64, 2]);
    let graph = graph.finalize().unwrap();

    let ids = [1, 2, 3, 4].map(|uid| graph.tensor_by_uid(uid).unwrap());
    let [x, scale, shift, y] = ids;
    let parameters =
        vec![Parameter::Tensor(x), Parameter::Scalar(scale), Parameter::Scalar(shift), Parameter::Tensor(y)];
    let function = "scale_and_add".to_owned();
    let launch = Launch {
        function,
        grid: [1; 2],
        cluster: 1,
        block: [32, 1, 1],
        shared_bytes: 0,
        starts_early: false,
        parameters,
    };
    let source = Source {
        text: SCALE_AND_ADD.to_owned(),
        launches: vec![launch],
        workspace_bytes: 0,
        uses_tf32: false,
        uses_fp8: false,
    };
    let given = HostTensor::from_fn(DataType::Half, &[1, 32], &[32, 1], |i| 3.0 * i as f64).unwrap();
    let rank = graph.tensor(shift).dim.len();
    let inputs = [(x, given), (shift, HostTensor::scalar(DataType::Int32, rank, Scalar::Integer(7)).unwrap())].into();
    Fixture { graph, ids, source, inputs }
}

fn compile(source: &Source) -> Option<EmulatedKernel> {
    Some(EmulatedKernel::compile_with(&compiler()?, source, &cache_dir()).unwrap())
}

#[test]
fn inputs_and_scalars_reach_the_kernel_and_outputs_come_back() {
    let Fixture { graph, ids, source, inputs } = fixture();
    let Some(kernel) = compile(&source) else { return };
    let outputs = kernel.run(&graph, &inputs).unwrap();
    assert_eq!(outputs.keys().collect::<Vec<_>>(), [&ids[3]]);
    let y = &outputs[&ids[3]];
    let third = half::f16::from_f64(1.0 / 3.0).to_f32();
    assert_eq!(y.to_dense::<f32>().unwrap(), (0..32).map(|i| 3.0 * i as f32 * third + 7.0).collect::<Vec<_>>());
    assert!(y.gap_bytes_equal(&HostTensor::poisoned_like(graph.tensor(ids[3])).unwrap()));
}

#[test]
fn inputs_must_be_there_and_have_the_graphs_layout() {
    let Fixture { graph, ids, source, inputs } = fixture();
    let Some(kernel) = compile(&source) else { return };
    let refused = |change: &dyn Fn(&mut HostTensors), expected: &str| {
        let mut inputs = inputs.clone();
        change(&mut inputs);
        let error = kernel.run(&graph, &inputs).unwrap_err();
        assert!(matches!(error, Error::Input { .. }) && error.to_string().contains(expected), "{error}");
    };
    refused(&|inputs| drop(inputs.remove(&ids[0])), "'x' (uid 1): the run needs this input");
    refused(&|inputs| drop(inputs.remove(&ids[2])), "'shift' (uid 3): the run needs this input");
    refused(&|inputs| inputs.get_mut(&ids[0]).unwrap().stride = vec![64, 2], "'x' (uid 1): the graph has HALF");
    refused(&|inputs| inputs.get_mut(&ids[0]).unwrap().data_type = DataType::Float, "'x' (uid 1): the graph has HALF");
    refused(&|inputs| inputs.get_mut(&ids[0]).unwrap().bytes.truncate(63), "63 bytes");
}

#[test]
fn a_virtual_tensor_is_no_argument() {
    let Fixture { graph, mut source, inputs, .. } = fixture();
    let scaled = graph.tensor_ids().find(|&id| graph.tensor(id).is_virtual).unwrap();
    source.launches[0].parameters[0] = Parameter::Tensor(scaled);
    let Some(kernel) = compile(&source) else { return };
    let error = kernel.run(&graph, &inputs).unwrap_err();
    assert!(matches!(&error, Error::Wrong(message) if message.contains("which the run does not have")), "{error}");
}

#[test]
fn a_race_between_threads_is_found_by_running_under_both_schedules() {
    let Fixture { graph, mut source, inputs, .. } = fixture();
    source.text = source.text.replace("y[threadIdx.x * 2]", "y[0]");
    let Some(kernel) = compile(&source) else { return };
    let error = kernel.run(&graph, &inputs).unwrap_err();
    assert!(error.to_string().contains("output 'y' (uid 4) depends on the order in which threads run"), "{error}");
}

/// The fixture with 128 bytes of shared memory, of which one element is read; y's third element is of this `text`.
fn run_with_unwritten(text: &str) -> Option<Result<HostTensors>> {
    let Fixture { graph, mut source, inputs, .. } = fixture();
    let right = "(float)shift;";
    assert!(source.text.contains(right));
    source.text = source.text.replace(
        right,
        &format!(
            "{right}\n  FW_SHARED(shared);\n  const float* s = reinterpret_cast<const float*>(shared);\n  \
             if (threadIdx.x == 2) y[4] = {text};"
        ),
    );
    source.launches[0].shared_bytes = 128;
    Some(compile(&source)?.run(&graph, &inputs))
}

#[test]
fn a_read_of_unwritten_shared_memory_is_found_by_running_under_both_schedules() {
    // the second is how a kernel hides NaN
    for text in ["s[9]", "s[9] == s[9] ? s[9] : 0.0f"] {
        let Some(result) = run_with_unwritten(text) else { return };
        let error = result.unwrap_err();
        let words = [
            "output 'y' (uid 4) depends on the order in which threads run (byte 16 differs)",
            "shared memory is read that nobody wrote",
        ];
        let is_found = matches!(&error, Error::Wrong(message) if words.iter().all(|&word| message.contains(word)));
        assert!(is_found, "{text}: {error}");
    }
}

#[test]
fn which_nan_an_element_is_does_not_count_between_schedules() {
    // 0xffffffff under one schedule, 0x7fc00000 under the other
    let nan = "__uint_as_float(s[9] == s[9] ? 0x7fc00000u : __float_as_uint(s[9]))";
    let Some(result) = run_with_unwritten(nan) else { return };
    let outputs = result.unwrap();
    let y = outputs.values().next().unwrap();
    assert_eq!(y.bytes[16..20], [0xff; 4]);
    let y = y.to_dense::<f32>().unwrap();
    assert_eq!(y.iter().map(|y| y.is_nan()).collect::<Vec<_>>(), (0..32).map(|i| i == 2).collect::<Vec<_>>());
}
