//! Programs against the ABI, without a GPU.

mod attention;
mod executed;
#[cfg(unix)]
mod forks;
mod limits;
mod norms;
mod notes;
mod quick;
mod shapes;

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnBackendHeurMode_t as Mode;
use cudarc::cudnn::sys::cudnnDataType_t as RawType;
use cudarc::cudnn::sys::cudnnPointwiseMode_t as RawMode;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::*;
use crate::device::{ComputeCapability, Device};
use crate::engine;
use crate::graph::{DataType, Graph, PointwiseMode, Port, Tensor};

/// A descriptor as a C program holds one.
struct Owned(*mut c_void);

impl Drop for Owned {
    fn drop(&mut self) {
        assert_eq!(cudnnBackendDestroyDescriptor(self.0), Status::CUDNN_STATUS_SUCCESS);
    }
}

impl Owned {
    fn new(kind: Kind) -> Self {
        let mut made = ptr::null_mut();
        // SAFETY: the pointer is to room for one.
        let status = unsafe { cudnnBackendCreateDescriptor(kind as u32, &raw mut made) };
        assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
        Self(made)
    }

    fn try_set<T>(&self, name: Name, of_type: Type, elements: &[T]) -> Status {
        let pointer = elements.as_ptr().cast();
        // SAFETY: the tests give elements of the type that they name.
        unsafe { cudnnBackendSetAttribute(self.0, name as u32, of_type as u32, elements.len() as i64, pointer) }
    }

    #[track_caller]
    fn set<T>(&self, name: Name, of_type: Type, elements: &[T]) -> &Self {
        assert_eq!(self.try_set(name, of_type, elements), Status::CUDNN_STATUS_SUCCESS, "{name:?}: {}", last_error());
        self
    }

    #[track_caller]
    fn refer(&self, name: Name, other: &Self) -> &Self {
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[other.0])
    }

    #[track_caller]
    fn finalize(self) -> Self {
        assert_eq!(cudnnBackendFinalize(self.0), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        self
    }

    fn try_get<T: Copy>(&self, name: Name, of_type: Type, room: &mut [T]) -> (Status, i64) {
        let mut count = -1;
        let (pointer, length) = (room.as_mut_ptr().cast(), room.len() as i64);
        // SAFETY: the tests give room for elements of the type that they name.
        let status =
            unsafe { cudnnBackendGetAttribute(self.0, name as u32, of_type as u32, length, &raw mut count, pointer) };
        (status, count)
    }

    #[track_caller]
    fn get<T: Copy>(&self, name: Name, of_type: Type, room: &mut [T]) -> i64 {
        let (status, count) = self.try_get(name, of_type, room);
        assert_eq!(status, Status::CUDNN_STATUS_SUCCESS, "{name:?}: {}", last_error());
        count
    }
}

fn last_error() -> String {
    let mut room = [1; 4096];
    // SAFETY: the length is that of the array.
    unsafe { cudnnGetLastErrorString(room.as_mut_ptr(), room.len()) };
    // SAFETY: the text ends with a zero byte.
    unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned()
}

fn unfinished_tensor(uid: i64, data_type: RawType, dim: &[i64], stride: &[i64], is_virtual: bool) -> Owned {
    let tensor = Owned::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid])
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[data_type as u32])
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[16_i64])
        .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, dim)
        .set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, stride)
        .set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, &[is_virtual]);
    tensor
}

const HALF: RawType = RawType::CUDNN_DATA_HALF;
const FLOAT: RawType = RawType::CUDNN_DATA_FLOAT;

/// min(relu(A·B), 6) of [1,128,64] and [1,64,256], by descriptors; `output` is the result's type.
fn matmul_relu(output: RawType) -> Owned {
    clipped(output, 6.0)
}

fn clipped(output: RawType, upper_clip: f64) -> Owned {
    graph_of(&matmul_relu_nodes(HALF, output, upper_clip), None)
}

/// The operations of it, for operands of a type.
fn matmul_relu_nodes(operands: RawType, output: RawType, upper_clip: f64) -> [Owned; 2] {
    matmul_relu_of([128, 256], [operands, output], upper_clip)
}

/// The same of a result with so many rows and columns; types of operands and output.
fn matmul_relu_of([m, n]: [i64; 2], [operands, output]: [RawType; 2], upper_clip: f64) -> [Owned; 2] {
    let a = unfinished_tensor(1, operands, &[1, m, 64], &[m * 64, 64, 1], false).finalize();
    let b = unfinished_tensor(2, operands, &[1, 64, n], &[64 * n, 1, 64], false).finalize();
    let c = unfinished_tensor(3, FLOAT, &[1, m, n], &[m * n, n, 1], true).finalize();
    let y = unfinished_tensor(4, output, &[1, m, n], &[m * n, n, 1], false).finalize();
    let product = Owned::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    product.set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32]);
    let product = product.finalize();
    let matmul = Owned::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    matmul
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &a)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &b)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &c)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &product);
    let matmul = matmul.finalize();
    let relu = Owned::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    let mode = RawMode::CUDNN_POINTWISE_RELU_FWD as u32;
    relu.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[mode])
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32])
        .set(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Type::CUDNN_TYPE_DOUBLE, &[upper_clip]);
    let relu = relu.finalize();
    let pointwise = Owned::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    pointwise
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &relu)
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &c)
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &y)
        .set(Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, Type::CUDNN_TYPE_FLOAT, &[1.0_f32]);
    [matmul, pointwise.finalize()]
}

/// The graph of operations, perhaps with a handle.
fn graph_of(operations: &[Owned], handle: Option<*mut c_void>) -> Owned {
    let graph = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let pointers: Vec<*mut c_void> = operations.iter().map(|operation| operation.0).collect();
    graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers);
    if let Some(handle) = handle {
        graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle]);
    }
    graph.finalize()
}

/// The properties of a typical Hopper.
const HOPPER: &str = r#"{"name": "H200", "capability": "sm_90", "sm_count": 132, "shared_bytes_per_block": 232448,
    "l2_bytes": 62914560, "bytes_per_second": 4.25e12}"#;

/// A typical Hopper, by the text of its properties.
fn hopper() -> Owned {
    let device = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    device.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, HOPPER.as_bytes());
    device.finalize()
}

fn heuristics(graph: &Owned, mode: Mode) -> Owned {
    let heuristics = Owned::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics
        .refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .refer(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &hopper())
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode as u32]);
    heuristics
}

/// The same graph by the Rust API.
fn expected() -> Graph {
    let mut graph = Graph::new().compute_data_type(DataType::Float).intermediate_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").row_major([1, 128, 64]).data_type(DataType::Half));
    let b = graph.tensor(Tensor::new("B").dim([1, 64, 256]).stride([16384, 1, 64]).data_type(DataType::Half));
    let c = graph.matmul("mm", a, b);
    let mut relu = crate::graph::Pointwise::new(PointwiseMode::ReluFwd);
    relu.relu_upper_clip = Some(6.0);
    let y = graph.pointwise_with("relu", relu, &[c]);
    graph.set_output(y).data_type = Some(DataType::Half);
    graph
}

#[test]
fn descriptors_make_the_graph_that_the_rust_api_makes() {
    let graph = matmul_relu(HALF);
    let built =
        descriptor::find(graph.0).and_then(|graph| graph.object::<super::graph::OperationGraph>()).expect("a graph");
    assert_eq!(built.graph().expect("a graph").key(), expected().finalize().expect("well formed").key());
    let mut count = [0_i64];
    graph.get(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, Type::CUDNN_TYPE_INT64, &mut count);
    assert_eq!(count, [9]);
}

#[test]
fn the_largest_float_is_no_clip() {
    let operations = |graph: &Owned| {
        let built = descriptor::find(graph.0)
            .and_then(|graph| graph.object::<super::graph::OperationGraph>())
            .expect("a graph");
        built.graph().expect("a graph").operations().map(|operation| operation.attributes.clone()).collect::<Vec<_>>()
    };
    let clip = |attributes: Vec<crate::graph::Attributes>| {
        attributes.into_iter().find_map(|attributes| match attributes {
            crate::graph::Attributes::Pointwise(pointwise) => Some(pointwise.upper_clip()),
            _ => None,
        })
    };
    assert_eq!(clip(operations(&clipped(HALF, f64::from(f32::MAX)))), Some(f32::INFINITY));
    assert_eq!(clip(operations(&clipped(HALF, 6.0))), Some(6.0));
}

#[test]
fn heuristics_give_the_configs_of_the_rust_api_in_order() {
    let graph = matmul_relu(HALF);
    let device = Device::typical(ComputeCapability::SM_90);
    let wanted = engine::select(&Arc::new(expected().finalize().expect("well formed")), device.capability);
    let wanted = wanted.expect("an engine").candidates(&device);
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_INSTANT] {
        let heuristics = heuristics(&graph, mode).finalize();
        let results = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        assert_eq!(results.len(), wanted.len());
        for (result, wanted) in results.iter().zip(&wanted) {
            let config = descriptor::find(result.0)
                .and_then(|result| result.object::<super::engine::Config>())
                .expect("a config");
            assert_eq!(config.config, wanted.config);
        }
    }
}

/// The descriptors of a kind that an attribute gives.
fn got(from: &Owned, name: Name, kind: Kind) -> Vec<Owned> {
    let of_descriptors = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    let count = from.get(name, of_descriptors, &mut [] as &mut [*mut c_void]);
    let made: Vec<Owned> = (0..count).map(|_| Owned::new(kind)).collect();
    let mut pointers: Vec<*mut c_void> = made.iter().map(|one| one.0).collect();
    assert_eq!(from.get(name, of_descriptors, &mut pointers), count);
    made
}

/// An engine with these knobs is a config.
fn assert_makes(engine: &Owned, choices: &[Owned], config: &Owned) {
    let pointers: Vec<*mut c_void> = choices.iter().map(|choice| choice.0).collect();
    let again = Owned::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    again.refer(Name::CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    let knobs = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    let again = again.set(knobs, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers).0;
    assert_eq!(cudnnBackendFinalize(again), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
    let config_of =
        |pointer| descriptor::find(pointer).and_then(|one| one.object::<super::engine::Config>()).expect("a config");
    assert_eq!(config_of(again).config, config_of(config.0).config);
}

/// A config's engine and knobs, read and set again, are the config.
#[test]
fn configs_are_made_of_engines_and_knobs() {
    let graph = matmul_relu(HALF);
    let heuristics = heuristics(&graph, Mode::CUDNN_HEUR_MODE_A).finalize();
    let results = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    assert!(results.len() > 8, "{} configs", results.len());
    for result in &results {
        let engine = got(result, Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        let mut number = [-1_i64];
        engine[0].get(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &mut number);
        assert_eq!(number, [0]);
        let knobs = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
        let choices = got(result, knobs, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        assert_makes(&engine[0], &choices, result);
    }
}

/// As programs rebuild a config that they wrote down: of all knobs of the engine, those that the config does not have are left as they are.
#[test]
fn configs_are_made_of_engines_whose_knobs_are_not_all_chosen() {
    let graph = matmul_relu(HALF);
    let heuristics = heuristics(&graph, Mode::CUDNN_HEUR_MODE_A).finalize();
    let results = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    let knobs = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    let of = |from: &Owned, name: Name| {
        let mut kind = [u32::MAX];
        from.get(name, Type::CUDNN_TYPE_KNOB_TYPE, &mut kind);
        kind[0]
    };
    for result in &results {
        let engine = got(result, Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        let set = got(result, knobs, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        let value_of = |kind: u32| {
            let choice = set.iter().find(|choice| of(choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) == kind);
            let mut value = [-1_i64];
            choice
                .map(|choice| choice.get(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, &mut value));
            value
        };
        let infos = got(&engine[0], Name::CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
        let kinds = infos.iter().map(|info| of(info, Name::CUDNN_ATTR_KNOB_INFO_TYPE));
        let choices: Vec<Owned> = kinds
            .map(|kind| {
                let choice = Owned::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
                choice.set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, &[kind]).set(
                    Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                    Type::CUDNN_TYPE_INT64,
                    &value_of(kind),
                );
                choice.finalize()
            })
            .collect();
        assert!(choices.len() > set.len(), "KERNEL_CFG at least is left as it is");
        assert_makes(&engine[0], &choices, result);
    }
}

#[test]
fn knob_infos_bound_the_knobs() {
    let engine = Owned::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine
        .refer(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &matmul_relu(HALF))
        .refer(Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &hopper())
        .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &[0_i64]);
    let engine = engine.finalize();
    let infos = got(&engine, Name::CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    let count = infos.len();
    assert!(count >= 3, "{count} knobs");
    for info in &infos {
        let number = |name: Name| {
            let mut value = [-1_i64];
            info.get(name, Type::CUDNN_TYPE_INT64, &mut value);
            value[0]
        };
        let [least, most] =
            [Name::CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, Name::CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE].map(number);
        let stride = number(Name::CUDNN_ATTR_KNOB_INFO_STRIDE);
        assert!(least <= most && stride >= 1 && (most - least) % stride == 0, "{least} {most} {stride}");
    }
    let mut notes = [9_u32; 4];
    let count = engine.get(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE, &mut notes);
    assert_eq!((count, &notes[..2]), (2, &[0, 3][..]));
}

#[test]
fn a_refusal_names_rule_and_status() {
    let graph = matmul_relu(RawType::CUDNN_DATA_DOUBLE);
    let heuristics = heuristics(&graph, Mode::CUDNN_HEUR_MODE_A);
    assert_eq!(cudnnBackendFinalize(heuristics.0), Status::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    let text = last_error();
    assert!(text.contains("S90-DTYPE-OUTPUT") && text.starts_with("cudnnBackendFinalize: "), "{text}");
    assert_eq!(last_error(), "", "it is forgotten once it was read");
}

#[test]
fn wrong_use_has_the_documented_status() {
    use Status as S;
    let tensor = unfinished_tensor(1, HALF, &[1, 8, 8], &[64, 8, 1], false);
    let name = Name::CUDNN_ATTR_TENSOR_UNIQUE_ID;
    assert_eq!(tensor.try_get(name, Type::CUDNN_TYPE_INT64, &mut [0_i64]).0, S::CUDNN_STATUS_NOT_INITIALIZED);
    assert_eq!(tensor.try_set(name, Type::CUDNN_TYPE_FLOAT, &[0.0_f32]), S::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_eq!(tensor.try_set(name, Type::CUDNN_TYPE_INT64, &[1_i64, 2]), S::CUDNN_STATUS_BAD_PARAM);
    let other = Name::CUDNN_ATTR_MATMUL_COMP_TYPE;
    assert_eq!(tensor.try_set(other, Type::CUDNN_TYPE_DATA_TYPE, &[0_u32]), S::CUDNN_STATUS_BAD_PARAM);
    let finished = tensor.finalize();
    assert_eq!(finished.try_set(name, Type::CUDNN_TYPE_INT64, &[1_i64]), S::CUDNN_STATUS_NOT_INITIALIZED);
    assert_eq!(cudnnBackendFinalize(finished.0), S::CUDNN_STATUS_BAD_PARAM, "it is finalized already");

    let matmul = Owned::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    assert_eq!(cudnnBackendFinalize(matmul.0), S::CUDNN_STATUS_BAD_PARAM, "nothing is set");
    let missing = unfinished_tensor(9, HALF, &[1, 8, 8], &[64, 8, 1], false);
    matmul
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &finished)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &missing)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &finished)
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &finished);
    assert_eq!(cudnnBackendFinalize(matmul.0), S::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);

    let odd = unfinished_tensor(2, HALF, &[1, 8, 8], &[64, 8, 1], false);
    odd.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[3_i64]);
    assert_eq!(cudnnBackendFinalize(odd.0), S::CUDNN_STATUS_BAD_PARAM);
    odd.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &[1_i64, 0, 8]);
    assert_eq!(cudnnBackendFinalize(odd.0), S::CUDNN_STATUS_BAD_PARAM);
}

/// The status of finalizing a product of FLOAT tensors, packed by rows.
fn product(a: &[i64], b: &[i64], c: &[i64]) -> Status {
    let tensor = |uid: i64, dim: &[i64]| {
        let stride: Vec<i64> = (0..dim.len()).map(|axis| dim[axis + 1..].iter().product()).collect();
        unfinished_tensor(uid, FLOAT, dim, &stride, false).finalize()
    };
    let bundle = Owned::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    bundle.set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32]);
    let operation = Owned::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &tensor(1, a))
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &tensor(2, b))
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &tensor(3, c))
        .refer(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &bundle.finalize());
    cudnnBackendFinalize(operation.0)
}

#[test]
fn operations_whose_tensors_do_not_fit_are_not_finalized() {
    assert_eq!(product(&[2, 8, 4], &[1, 4, 16], &[2, 8, 16]), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
    for (b, c) in [([1, 5, 16], [2, 8, 16]), ([1, 4, 16], [2, 8, 15]), ([3, 4, 16], [2, 8, 16])] {
        assert_eq!(product(&[2, 8, 4], &b, &c), Status::CUDNN_STATUS_BAD_PARAM, "{b:?} {c:?}");
        let text = last_error();
        assert!(text.contains("the operation") && text.contains("uid"), "{text}");
    }
    assert_eq!(product(&[2, 8, 4], &[4, 16], &[2, 8, 16]), Status::CUDNN_STATUS_BAD_PARAM);
}

/// The status of finalizing a convolution's bundle of two axes, but for one array.
fn convolution_but_for(name: Name, elements: &[i64]) -> Status {
    let bundle = Owned::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    bundle
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32])
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[1_u32])
        .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2_i64]);
    let arrays = [
        Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        Name::CUDNN_ATTR_CONVOLUTION_DILATIONS,
    ];
    for array in arrays {
        bundle.set(array, Type::CUDNN_TYPE_INT64, if array == name { elements } else { &[1, 1] });
    }
    cudnnBackendFinalize(bundle.0)
}

#[test]
fn bundles_that_contradict_themselves_are_not_finalized() {
    use Status as S;
    let (pre, post) = (Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    let (stride, dilation) = (Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Name::CUDNN_ATTR_CONVOLUTION_DILATIONS);
    for (name, least) in [(pre, 0), (post, 0), (stride, 1), (dilation, 1)] {
        assert_eq!(convolution_but_for(name, &[least, 2]), S::CUDNN_STATUS_SUCCESS, "{name:?}: {}", last_error());
        assert_eq!(convolution_but_for(name, &[least - 1, 2]), S::CUDNN_STATUS_BAD_PARAM, "{name:?}");
        assert_eq!(convolution_but_for(name, &[1]), S::CUDNN_STATUS_BAD_PARAM, "{name:?}");
        assert!(last_error().contains(&format!("{name:?} has 1 elements for 2 axes")));
        assert_eq!(convolution_but_for(name, &[1, 1, 1]), S::CUDNN_STATUS_BAD_PARAM, "{name:?}");
    }
    let relu = Owned::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    relu.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[9999_u32]);
    relu.set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32]);
    assert_eq!(cudnnBackendFinalize(relu.0), S::CUDNN_STATUS_BAD_PARAM);
    assert!(last_error().contains("9999 is no pointwise mode"));
}

#[test]
fn a_descriptor_is_as_it_was_made_after_initialize() {
    let tensor = unfinished_tensor(1, HALF, &[1, 8, 8], &[64, 8, 1], false).finalize();
    assert_eq!(cudnnBackendInitialize(tensor.0), Status::CUDNN_STATUS_SUCCESS);
    assert_eq!(cudnnBackendFinalize(tensor.0), Status::CUDNN_STATUS_BAD_PARAM);
    assert!(last_error().contains("CUDNN_ATTR_TENSOR_UNIQUE_ID is not set"), "nothing is left of it");
}

#[test]
fn a_get_counts_what_it_writes() {
    let name = Name::CUDNN_ATTR_TENSOR_DIMENSIONS;
    let tensor = unfinished_tensor(1, HALF, &[3, 8, 5], &[40, 5, 1], false).finalize();
    let mut room = [-1_i64; 4];
    assert_eq!(tensor.get(name, Type::CUDNN_TYPE_INT64, &mut [] as &mut [i64]), 3, "how many there are");
    assert_eq!((tensor.get(name, Type::CUDNN_TYPE_INT64, &mut room[..2]), room), (2, [3, 8, -1, -1]));
    assert_eq!((tensor.get(name, Type::CUDNN_TYPE_INT64, &mut room), room), (3, [3, 8, 5, -1]));
    let mut count = -1;
    let (number, of_type) = (name as u32, Type::CUDNN_TYPE_INT64 as u32);
    // SAFETY: nothing is written.
    let status = unsafe { cudnnBackendGetAttribute(tensor.0, number, of_type, 4, &raw mut count, ptr::null_mut()) };
    assert_eq!((status, count), (Status::CUDNN_STATUS_SUCCESS, 3));
    let elements = room.as_mut_ptr().cast();
    // SAFETY: there is more room than is said.
    let status = unsafe { cudnnBackendGetAttribute(tensor.0, number, of_type, -1, &raw mut count, elements) };
    assert_eq!((status, count, room), (Status::CUDNN_STATUS_BAD_PARAM, 3, [3, 8, 5, -1]));
}

#[test]
fn attributes_that_no_engine_has_are_refused() {
    let pack = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES;
    assert_eq!(pack.try_set(name, Type::CUDNN_TYPE_VOID_PTR, &[16_usize]), Status::CUDNN_STATUS_NOT_SUPPORTED);
    assert!(last_error().contains("no engine supports CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES; leave it out"));
    let got = pack.try_get(name, Type::CUDNN_TYPE_VOID_PTR, &mut [0_usize]);
    assert_eq!(got, (Status::CUDNN_STATUS_NOT_SUPPORTED, -1));
}

#[test]
fn attributes_of_tensors_that_are_not_set_have_their_defaults() {
    let tensor = unfinished_tensor(1, HALF, &[1, 8, 8], &[64, 8, 1], false);
    let number = |tensor: &Owned, name: Name| {
        let mut room = [7_i64];
        tensor.get(name, Type::CUDNN_TYPE_INT64, &mut room);
        room[0]
    };
    let tensor = tensor.finalize();
    assert_eq!(number(&tensor, Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT), 1);
    assert_eq!(number(&tensor, Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION), -1);
    let mut is_by_value = [7_u8];
    tensor.get(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Type::CUDNN_TYPE_BOOLEAN, &mut is_by_value);
    let mut reordering = [7_u32];
    let name = Name::CUDNN_ATTR_TENSOR_REORDERING_MODE;
    tensor.get(name, Type::CUDNN_TYPE_TENSOR_REORDERING_MODE, &mut reordering);
    assert_eq!((is_by_value, reordering), ([0], [0]));
}

#[test]
fn a_descriptor_that_refers_to_itself_is_not_finalized() {
    let graph = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.refer(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &graph);
    assert_eq!(cudnnBackendFinalize(graph.0), Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

#[test]
fn what_refers_to_itself_goes_with_its_pointer() {
    let unfinished = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    unfinished.refer(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &unfinished);
    let kept = Arc::downgrade(&descriptor::find(unfinished.0).expect("a descriptor"));
    drop(unfinished);
    assert!(kept.upgrade().is_none());
    // an attribute that nothing asks for: the operation would be finalized, and refer to itself for ever
    let relu = Owned::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    let mode = RawMode::CUDNN_POINTWISE_RELU_FWD as u32;
    relu.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[mode]).set(
        Name::CUDNN_ATTR_POINTWISE_MATH_PREC,
        Type::CUDNN_TYPE_DATA_TYPE,
        &[FLOAT as u32],
    );
    let [x, y] = [1, 2].map(|uid| unfinished_tensor(uid, HALF, &[1, 8, 8], &[64, 8, 1], false).finalize());
    let operation = Owned::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &relu.finalize())
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &x)
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &y)
        .refer(Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, &operation);
    assert_eq!(cudnnBackendFinalize(operation.0), Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

/// What lies behind the room of a get stays as it is, whatever type it was set in.
#[test]
fn elements_are_got_in_the_type_that_is_asked_for() {
    let relu = Owned::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    let (alpha, clip) = (Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA, Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP);
    relu.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[0_u32])
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32])
        .set(alpha, Type::CUDNN_TYPE_DOUBLE, &[2.5_f64])
        .set(clip, Type::CUDNN_TYPE_FLOAT, &[6.0_f32]);
    let relu = relu.finalize();
    let mut floats = [0.0, -1.0_f32];
    assert_eq!(relu.get(alpha, Type::CUDNN_TYPE_FLOAT, &mut floats), 1);
    assert_eq!(floats, [2.5, -1.0]);
    let mut doubles = [0.0, -1.0_f64];
    assert_eq!(relu.get(clip, Type::CUDNN_TYPE_DOUBLE, &mut doubles), 1);
    assert_eq!(doubles, [6.0, -1.0]);

    let resample = Owned::new(Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    let (window, strides) = (Name::CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, Name::CUDNN_ATTR_RESAMPLE_STRIDES);
    let (pre, post) = (Name::CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, Name::CUDNN_ATTR_RESAMPLE_POST_PADDINGS);
    resample
        .set(Name::CUDNN_ATTR_RESAMPLE_MODE, Type::CUDNN_TYPE_RESAMPLE_MODE, &[0_u32])
        .set(Name::CUDNN_ATTR_RESAMPLE_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32])
        .set(Name::CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2_i64])
        .set(window, Type::CUDNN_TYPE_FRACTION, &[[4_i64, 2], [3, 1]])
        .set(strides, Type::CUDNN_TYPE_FRACTION, &[[1_i64, 2], [1, 0]])
        .set(pre, Type::CUDNN_TYPE_INT64, &[1_i64, 0])
        .set(post, Type::CUDNN_TYPE_INT64, &[1_i64, 0]);
    let resample = resample.finalize();
    let mut whole = [0, 0, -1_i64];
    assert_eq!(resample.get(window, Type::CUDNN_TYPE_INT64, &mut whole), 2);
    assert_eq!(whole, [2, 3, -1]);
    let refused = resample.try_get(strides, Type::CUDNN_TYPE_INT64, &mut whole).0;
    assert_eq!((refused, whole), (Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, [2, 3, -1]));
    let mut fractions = [[0, 0], [0, 0], [-1, -1_i64]];
    assert_eq!(resample.get(pre, Type::CUDNN_TYPE_FRACTION, &mut fractions), 2);
    assert_eq!(fractions, [[1, 1], [0, 1], [-1, -1]]);
}

#[test]
fn devices_that_nothing_fits_are_refused() {
    let of_text = |from: &str, to: &str| {
        let text = HOPPER.replace(from, to);
        let device = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        device.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, text.as_bytes());
        device
    };
    for (from, to) in
        [("132", "0"), ("132", "4294967295"), ("4.25e12", "0"), ("4.25e12", "-1"), ("232448", "4294967295")]
    {
        assert_eq!(cudnnBackendFinalize(of_text(from, to).0), Status::CUDNN_STATUS_BAD_PARAM, "{to} for {from}");
    }
    let graph = matmul_relu(HALF);
    let without_memory = of_text("232448", "0").finalize();
    let heuristics = Owned::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics
        .refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)
        .refer(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &without_memory)
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[0_u32]);
    let insufficient = Status::CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT;
    assert_eq!(cudnnBackendFinalize(heuristics.0), insufficient);
}

#[test]
fn a_pointer_to_another_kind_of_object_is_found_out() {
    let (letters, numbers) = (registry::Registry::new(&registry::NUMBERS), registry::Registry::new(&registry::NUMBERS));
    let (letter, number) = (letters.insert('a'), numbers.insert(1));
    assert_eq!((letters.get(letter).as_deref(), numbers.get(number).as_deref()), (Some(&'a'), Some(&1)));
    assert_eq!((letters.get(number), numbers.get(letter)), (None, None));
}

#[test]
fn foreign_null_and_destroyed_pointers_are_found_out() {
    use Status as S;
    let null = ptr::null_mut();
    assert_eq!(cudnnBackendFinalize(null), S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_eq!(cudnnBackendFinalize(ptr::without_provenance_mut(0x1234)), S::CUDNN_STATUS_BAD_PARAM);
    let mut number = 7_i64;
    assert_eq!(cudnnBackendFinalize((&raw mut number).cast()), S::CUDNN_STATUS_BAD_PARAM);
    let descriptor = Owned::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    let pointer = descriptor.0;
    drop(descriptor);
    assert_eq!(cudnnBackendFinalize(pointer), S::CUDNN_STATUS_BAD_PARAM);
    assert_eq!(cudnnBackendDestroyDescriptor(pointer), S::CUDNN_STATUS_BAD_PARAM);
    assert_eq!(cudnnDestroy(null), S::CUDNN_STATUS_SUCCESS, "there is nothing to destroy");
    assert_eq!(cudnnDestroy(pointer), S::CUDNN_STATUS_BAD_PARAM);
    assert_eq!(cudnnBackendInitialize(pointer), S::CUDNN_STATUS_BAD_PARAM);
    // SAFETY: null is allowed where there is no room.
    unsafe {
        assert_eq!(cudnnBackendCreateDescriptor(17, null.cast()), S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        assert_eq!(cudnnBackendCreateDescriptor(9999, (&raw mut number).cast()), S::CUDNN_STATUS_NOT_SUPPORTED);
        assert_eq!(cudnnBackendExecute(null, null, null), S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        let tensor = Owned::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        let status = cudnnBackendSetAttribute(tensor.0, 906, 3, 1, ptr::null());
        assert_eq!(status, S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        assert_eq!(cudnnBackendSetAttribute(tensor.0, 902, 3, -1, ptr::null()), S::CUDNN_STATUS_BAD_PARAM);
    }
}

/// Softmax of [2,8,32] in HALF with its logarithms of sums, alone in a graph.
#[test]
fn a_softmax_is_the_graph_that_the_rust_api_makes() {
    let tensor =
        |uid, data_type, dim: &[i64], stride: &[i64]| unfinished_tensor(uid, data_type, dim, stride, false).finalize();
    let (x, y) = (tensor(1, HALF, &[2, 8, 32], &[256, 32, 1]), tensor(2, HALF, &[2, 8, 32], &[256, 32, 1]));
    let (stats, sink) = (tensor(3, FLOAT, &[2, 8, 1], &[8, 1, 1]), tensor(4, FLOAT, &[1, 8, 1], &[8, 1, 1]));
    let softmax = Owned::new(Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR);
    softmax
        .refer(Name::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC, &x)
        .refer(Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, &y)
        .refer(Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC, &stats)
        .refer(Name::CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC, &sink);
    let made = graph_of(&[softmax.finalize()], None);
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([2, 8, 32]));
    let sink = graph.tensor(Tensor::new("sink").row_major([1, 8, 1]).data_type(DataType::Float));
    let (y, statistics) = graph.softmax_with("s", x, Some(sink), &[Port::STATS]);
    for id in [y].into_iter().chain(statistics) {
        graph.set_output(id);
    }
    let built =
        descriptor::find(made.0).and_then(|graph| graph.object::<super::graph::OperationGraph>()).expect("a graph");
    assert_eq!(built.graph().expect("a graph").key(), graph.finalize().expect("well formed").key());
}

#[test]
fn packs_hold_a_pointer_for_each_uid() {
    let pack = |uids: &[i64], pointers: &[usize]| {
        let pack = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, uids);
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, pointers);
        cudnnBackendFinalize(pack.0)
    };
    assert_eq!(pack(&[1, 2], &[16, 32]), Status::CUDNN_STATUS_SUCCESS);
    assert_eq!(pack(&[1, 2], &[16]), Status::CUDNN_STATUS_BAD_PARAM);
    assert_eq!(pack(&[1, 1], &[16, 32]), Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
}

#[test]
fn device_properties_are_read_back() {
    let device = hopper();
    let mut room = [0_u8; 512];
    let name = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    let count = device.get(name, Type::CUDNN_TYPE_CHAR, &mut room) as usize;
    let again = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    again.set(name, Type::CUDNN_TYPE_CHAR, &room[..count]);
    let again = again.finalize();
    let device = descriptor::find(again.0).and_then(|device| device.object::<Device>()).expect("device properties");
    assert_eq!(*device, Device::typical(ComputeCapability::SM_90));
    let broken = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    broken.set(name, Type::CUDNN_TYPE_CHAR, b"{\"name\": 3}");
    assert_eq!(cudnnBackendFinalize(broken.0), Status::CUDNN_STATUS_BAD_PARAM);
}

#[test]
fn every_status_and_mode_has_its_name() {
    // SAFETY: names end with a zero byte.
    let name = |status: u32| unsafe { CStr::from_ptr(cudnnGetErrorString(status)) }.to_str().expect("ASCII");
    assert_eq!(name(0), "CUDNN_STATUS_SUCCESS");
    assert_eq!(name(3002), "CUDNN_STATUS_NOT_SUPPORTED_SHAPE");
    assert_eq!(name(77), "CUDNN_UNKNOWN_STATUS");
    let modes: Vec<PointwiseMode> = (0..700).filter_map(|number| translate::pointwise(number).ok()).collect();
    let mut sorted = modes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((modes.len(), sorted.len()), (51, 51));
    assert_eq!(cudnnGetVersion(), 92_100);
}
