//! Tensor maps as arguments.

use super::*;
use crate::kernel::{MapElement, Swizzle, TensorMap};

/// A map of two rows of three elements, in boxes of two rows of four.
fn map_of(tensor: TensorId) -> TensorMap {
    TensorMap {
        tensor,
        element: MapElement::Float,
        rank: 2,
        dims: [3, 2, 0, 0, 0],
        strides: [16, 0, 0, 0],
        box_dims: [4, 2, 0, 0, 0],
        swizzle: Swizzle::None,
        pixels: None,
        lead: 0,
        next_line_later: true,
    }
}

/// A launch that writes what the driver was told of two maps, and the last element of x.
fn launch(case: &Case, x_map: TensorMap, y_map: TensorMap) -> Launch {
    let parameters = vec![
        Parameter::Tensor(case.id(-1)),
        Parameter::TensorMap(x_map),
        Parameter::Tensor(case.id(10)),
        Parameter::TensorMap(y_map),
    ];
    Launch { parameters, ..case.launch("read_map") }
}

pub(super) fn plan(case: &Case) -> ExecutionPlan {
    case.build(vec![launch(case, map_of(case.id(10)), map_of(case.id(-1)))]).unwrap()
}

#[test]
fn maps_arrive_with_geometry_and_pointer() {
    maps_arrive(Version::Cuda13, "maps_arrive_with_geometry_and_pointer");
}

#[test]
fn maps_arrive_where_only_the_driver_can_set_their_address() {
    maps_arrive(Version::Cuda12, "maps_arrive_where_only_the_driver_can_set_their_address");
}

fn maps_arrive(version: Version, name: &str) {
    on_version(version, &format!("tensor_maps::{name}"), || {
        let case = Case::new();
        let y_map = TensorMap { element: MapElement::Byte, rank: 1, ..map_of(case.id(-1)) };
        let elements = [
            (MapElement::Byte, 0.0),
            (MapElement::Half, 6.0),
            (MapElement::Float, 7.0),
            (MapElement::BFloat16, 9.0),
            (MapElement::TFloat32, 11.0),
        ];
        let swizzles = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];
        for (element, type_code) in elements {
            for (swizzle, swizzle_code) in swizzles.into_iter().zip([0.0, 1.0, 2.0, 3.0]) {
                let x_map = TensorMap { element, swizzle, ..map_of(case.id(10)) };
                let plan = case.build(vec![launch(&case, x_map, y_map)]).unwrap();
                let outputs = run_on_device(&plan, &case.graph, &case.inputs()).unwrap();
                let said: Vec<f32> = outputs[&case.id(-1)].to_dense().unwrap();
                assert_eq!(said, [100.0 * type_code + 20.0 + swizzle_code, 3002.0, 16.0, 4002.0, 10.0, 5.0]);
            }
        }
    });
}

#[test]
fn a_misaligned_pointer_is_refused_only_where_there_is_a_map() {
    on_fake_driver("tensor_maps::a_misaligned_pointer_is_refused_only_where_there_is_a_map", || {
        let case = Case::aligned(4);
        let stream = Stream::new(&case.context).unwrap();
        let mut memory = DeviceBuffer::new(&case.context, 1024, 256).unwrap();
        memory.fill(0, &stream).unwrap();
        let start = memory.pointer().address();
        let at = |offset: u64| DevicePointer::from_raw(start + offset);
        let mut pack = VariantPack::new();
        pack.set_pointer(10, at(8)).set_pointer(-1, at(64)).set_scalar(3, Scalar::Integer(1));
        let workspace = Workspace { pointer: at(256), bytes: 512 };

        // SAFETY: what the pointers stand for lies in the buffer, which outlives the executions.
        let execute = |plan: &ExecutionPlan, pack: &VariantPack| unsafe { plan.execute(pack, workspace, &stream) };
        let with_maps = plan(&case);
        let error = execute(&with_maps, &pack).unwrap_err();
        let expected = "tensor 'x' (uid 10): required: an alignment of 16 bytes; found: address 0x";
        assert!(error.to_string().contains(expected) && error.exit_code() == 2, "{error}");
        assert_eq!(memory.download(&stream).unwrap(), [0; 1024]);
        execute(&case.plan("scale_add"), &pack).unwrap();
        execute(&with_maps, pack.set_pointer(10, at(16))).unwrap();
    });
}

#[test]
fn a_geometry_that_the_driver_refuses_is_our_fault() {
    on_fake_driver("tensor_maps::a_geometry_that_the_driver_refuses_is_our_fault", || {
        let case = Case::new();
        let refused = |x_map: TensorMap, expected: &[&str]| {
            let error = case.build(vec![launch(&case, x_map, map_of(case.id(-1)))]).unwrap_err();
            assert!(matches!(error, Error::Generated { .. }), "{error:?}");
            assert!(expected.iter().all(|part| error.to_string().contains(part)), "{error}");
        };
        let map = map_of(case.id(10));
        let geometry =
            "Float, rank 2, dims [3, 2, 0, 0, 0], byte strides [24, 0, 0, 0], box [4, 2, 0, 0, 0], swizzle None";
        refused(
            TensorMap { strides: [24, 0, 0, 0], ..map },
            &["tensor map of 'x' (uid 10) cannot be encoded: CUDA_ERROR_INVALID_VALUE", geometry],
        );
        refused(TensorMap { box_dims: [257, 2, 0, 0, 0], ..map }, &["box [257, 2, 0, 0, 0]"]);
        refused(TensorMap { rank: 0, ..map }, &["required: a rank from 1 to 5", "rank 0"]);
        refused(TensorMap { rank: 6, ..map }, &["required: a rank from 1 to 5", "rank 6"]);
        refused(TensorMap { tensor: case.id(3), ..map }, &["'a' (uid 3) is no tensor in device memory"]);
    });
}

#[test]
fn arguments_are_at_most_four_kib() {
    on_fake_driver("tensor_maps::arguments_are_at_most_four_kib", || {
        let case = Case::new();
        let maps = |count| vec![Parameter::TensorMap(map_of(case.id(10))); count];
        let build = |parameters| case.build(vec![Launch { parameters, ..case.launch("scale_add") }]);
        assert!(build(maps(32)).is_ok());
        let mut one_more = maps(32);
        one_more.push(Parameter::Tensor(case.id(-1)));
        let error = build(one_more).unwrap_err();
        let expected = "kernel scale_add has 4104 bytes of parameters; required: at most 4096";
        assert_eq!((error.to_string().as_str(), error.exit_code()), (expected, 3));
    });
}

#[test]
fn an_old_driver_runs_plans_without_maps() {
    on_version(Version::Cuda11, "tensor_maps::an_old_driver_runs_plans_without_maps", || {
        let case = Case::new();
        assert!(run_on_device(&case.plan("scale_add"), &case.graph, &case.inputs()).is_ok());
        let error = case.build(vec![launch(&case, map_of(case.id(10)), map_of(case.id(-1)))]).unwrap_err();
        let expected = "a kernel with tensor maps needs a newer driver: libcuda has no function cuTensorMapEncodeTiled; \
                        required: a driver for CUDA 12";
        assert!(matches!(error, Error::Environment { .. }) && error.to_string() == expected, "{error:?}");
    });
}
