//! Plans that are quick ones at first, on a driver without a GPU.

use super::executed::{COMPLETE, Session, executed_with, in_cuda_graph, pack, text_of};
use super::*;
use crate::plan::tests::launches_of_any;

const ASKED_FOR: &[(&str, &str)] = &[("FUSEWRIGHT_QUICK_PLANS", "1")];

fn workspace(plan: &Owned) -> i64 {
    let mut bytes = [-1_i64];
    plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, &mut bytes);
    bytes[0]
}

/// The engine config of a plan's text.
fn config_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let knobs = text.split("warpgroup_mma ").nth(1).expect("a config");
    knobs.split(['"', '\\']).next().expect("its end").to_owned()
}

/// The tile of a config.
fn tile_of(config: &str) -> i64 {
    let knob = |name: &str| config.split(name).nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
    knob("tile_m=").expect("a tile") * knob("tile_n=").expect("a tile")
}

#[test]
fn a_plan_executes_at_once_and_its_text_is_that_of_its_config() {
    let name = "a_plan_executes_at_once_and_its_text_is_that_of_its_config";
    executed_with(ASKED_FOR, "quick", name, |session| {
        let graph = graph_of(&matmul_relu_of([4096, 4096], [HALF; 2], 6.0), Some(session.0));
        let plan = session.plan(&graph, |_| {});
        let before = workspace(&plan);
        let pack = pack(&COMPLETE, 0x10000);
        assert_eq!(session.execute(&plan, &pack), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        let launches = launches_of_any();
        assert!(launches >= 1);
        // waits
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
        let best = config_of(&text_of(&plan, name));
        assert!(tile_of(&best) >= 128 * 128, "{best}");
        assert_eq!(workspace(&plan), before, "programs have asked by then");
        assert_eq!(session.execute(&plan, &pack), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        assert!(launches_of_any() > launches);
        // from memory now
        assert_eq!(config_of(&text_of(&session.plan(&graph, |_| {}), name)), best);
        settle(plan.0);
        settle(pack.0);
        settle(std::ptr::null_mut());
    });
}

/// The compiler is in use by a thread of its own then.
#[test]
fn the_process_may_end_while_the_best_plan_is_built() {
    executed_with(ASKED_FOR, "quick", "the_process_may_end_while_the_best_plan_is_built", |session| {
        let graph = graph_of(&matmul_relu_of([8192, 4096], [HALF; 2], 6.0), Some(session.0));
        session.plan(&graph, |_| {});
    });
}

/// What is filled by one plan is bound to pointers by the same.
#[test]
fn a_cuda_graph_has_the_plan_of_the_config() {
    executed_with(ASKED_FOR, "quick", "a_cuda_graph_has_the_plan_of_the_config", |session| {
        let plan = session.plan(&graph_of(&matmul_relu_of([4096, 4096], [HALF; 2], 6.0), Some(session.0)), |_| {});
        let pack = pack(&COMPLETE, 0x10000);
        in_cuda_graph(|graph| {
            for fill in [cudnnBackendPopulateCudaGraph, cudnnBackendUpdateCudaGraph] {
                // SAFETY: the kernels do nothing; the graph is used here alone.
                let status = unsafe { fill(session.0, plan.0, pack.0, graph) };
                assert_eq!(status, Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
            }
        });
    });
}

/// No tile of these is so much smaller that it would be there sooner.
#[test]
fn small_problems_have_the_plan_of_their_config() {
    executed_with(ASKED_FOR, "quick", "small_problems_have_the_plan_of_their_config", |session| {
        let graph = graph_of(&matmul_relu_nodes(HALF, HALF, 6.0), Some(session.0));
        let plan = session.plan(&graph, |_| {});
        assert_eq!(session.execute(&plan, &pack(&COMPLETE, 0x10000)), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
    });
}

#[test]
fn other_values_of_the_variable_ask_for_nothing() {
    let name = "other_values_of_the_variable_ask_for_nothing";
    executed_with(&[("FUSEWRIGHT_QUICK_PLANS", "yes")], "quick", name, |session: Session| {
        let graph = graph_of(&matmul_relu_of([4096, 4096], [HALF; 2], 6.0), Some(session.0));
        let plan = session.plan(&graph, |_| {});
        assert!(!super::super::quick::is_asked_for());
        assert_eq!(session.execute(&plan, &pack(&COMPLETE, 0x10000)), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
    });
}
