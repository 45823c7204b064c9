//! Executions in other shapes than those of their plan's graph.

use super::executed::{Session, executed_in};
use super::*;
use crate::capi::descriptor::Vector;
use crate::plan::tests::launches_of_any;

/// A product and RELU whose executions may have other shapes, if so asked for.
fn graph(session: &Session, flag: Option<Name>) -> Owned {
    let nodes = matmul_relu_nodes(HALF, HALF, 6.0);
    let graph = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let pointers = nodes.each_ref().map(|operation| operation.0);
    graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers).set(
        Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
        Type::CUDNN_TYPE_HANDLE,
        &[session.0],
    );
    if let Some(flag) = flag {
        graph.set(flag, Type::CUDNN_TYPE_BOOLEAN, &[true]);
    }
    graph.finalize()
}

/// A shape as the frontend gives it.
struct Shape(i64, Vec<i64>, Vec<i64>);

impl Shape {
    fn rows(uid: i64, rows: i64, width: i64) -> Self {
        Self(uid, vec![1, rows, width], vec![rows * width, width, 1])
    }
}

/// A pack with shapes, not finalized.
fn unfinished(shapes: &[Shape]) -> Owned {
    let pack = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &[1_i64, 2, 4])
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &[0x1000_usize, 0x2000, 0x3000])
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[0x10000_usize]);
    let uids: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &uids);
    let vectors =
        |of: fn(&Shape) -> &Vec<i64>| -> Vec<Vector> { shapes.iter().map(|shape| Vector::of(of(shape))).collect() };
    let (dims, strides) = (vectors(|shape| &shape.1), vectors(|shape| &shape.2));
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, Type::CUDNN_TYPE_VOID_PTR, &[Vector::of(&dims)]).set(
        Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES,
        Type::CUDNN_TYPE_VOID_PTR,
        &[Vector::of(&strides)],
    );
    pack
}

const OVERRIDE: Name = Name::CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED;

#[test]
fn a_plan_executes_in_the_shapes_of_its_packs() {
    executed_in("shapes", "a_plan_executes_in_the_shapes_of_its_packs", |session| {
        use Status as S;
        let plan = session.plan(&graph(&session, Some(OVERRIDE)), |_| {});
        let mut launches = launches_of_any();
        // the virtual tensor's shape, and one that no operation reads, are passed over
        let beside = || [Shape::rows(3, 5, 256), Shape::rows(77, 1, 1)];
        for rows in [128, 64, 8, 1, 120, 64] {
            let shapes: Vec<Shape> =
                [Shape::rows(1, rows, 64), Shape::rows(4, rows, 256)].into_iter().chain(beside()).collect();
            let pack = unfinished(&shapes).finalize();
            assert_eq!(session.execute(&plan, &pack), S::CUDNN_STATUS_SUCCESS, "{rows} rows: {}", last_error());
            assert!(launches_of_any() > launches, "{rows} rows");
            launches = launches_of_any();
        }
        let none = unfinished(&[]).finalize();
        assert_eq!(session.execute(&plan, &none), S::CUDNN_STATUS_SUCCESS, "{}", last_error());
    });
}

#[test]
fn shapes_that_do_not_fit_have_their_status() {
    executed_in("shapes", "shapes_that_do_not_fit_have_their_status", |session| {
        use Status as S;
        let plan = session.plan(&graph(&session, Some(OVERRIDE)), |_| {});
        let launches = launches_of_any();
        let refused = |plan: &Owned, shapes: &[Shape], status: Status, text: &str| {
            assert_eq!(session.execute(plan, &unfinished(shapes).finalize()), status, "{text}");
            let error = last_error();
            assert!(error.contains(text), "{error}");
        };
        let a = |rows| Shape::rows(1, rows, 64);
        refused(
            &plan,
            &[a(7)],
            S::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            "(uid 4): dims [1, 128, 256] become [1, 7, 256]",
        );
        let other_rows = [a(7), Shape::rows(4, 8, 256)];
        refused(&plan, &other_rows, S::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "(uid 4)");
        let flat = [Shape(1, vec![7, 64], vec![64, 1])];
        refused(&plan, &flat, S::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "(uid 1): found: 2 extents and 2 strides");
        let of_static = session.plan(&graph(&session, None), |_| {});
        let fitting = [a(7), Shape::rows(4, 7, 256)];
        let dynamic = S::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE;
        refused(&of_static, &fitting, dynamic, "CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED is set");
        assert_eq!(launches_of_any(), launches, "nothing is launched then");

        let fewer = unfinished(&fitting);
        fewer.set(Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &[1_i64]);
        assert_eq!(cudnnBackendFinalize(fewer.0), S::CUDNN_STATUS_BAD_PARAM);
        assert!(last_error().contains("1 uids, 2 shapes and 2 strides"), "{}", last_error());
    });
}
