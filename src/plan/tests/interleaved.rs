//! Plans measured against each other: kernels `stated_a`, `_b` and `_c` take 1.125, 1 and 1.5 ms on the fake driver.

use std::ffi::{CStr, c_char};

use libloading::Symbol;

use super::*;

/// Last letters of the kernels with a stated time in the order of their launches, repetitions left out.
fn launched() -> String {
    // SAFETY: the fake driver is loaded already; the function has this type and gives a text that ends.
    unsafe {
        let driver = driver();
        let launches: Symbol<'_, unsafe extern "C" fn() -> *const c_char> = driver.get(b"fake_timed_launches").unwrap();
        CStr::from_ptr(launches()).to_str().unwrap().to_owned()
    }
}

#[test]
fn rounds_alternate_and_a_clear_loser_leaves_after_the_first() {
    on_fake_driver("interleaved::rounds_alternate_and_a_clear_loser_leaves_after_the_first", || {
        let case = Case::new();
        let plans = ["stated_a", "stated_b", "stated_c"].map(|function| case.plan(function));
        let tensors = DeviceTensors::upload(&plans[0], &case.graph, &case.inputs()).unwrap();
        let sampled = time_interleaved(&plans, &tensors).unwrap();
        let medians: Vec<f64> = sampled.iter().map(|sampled| sampled.median_ms).collect();
        assert_eq!(medians, [1.125, 1.0, 1.5]);
        let runs = sampled[2].runs;
        assert!(runs > 0 && sampled[0].runs > runs && sampled[1].runs > runs, "{sampled:?}");
        // Each plan's first runs; the first round; five rounds of two, the order of which alternates.
        assert_eq!(
            launched(),
            ["abc", "abc", "ba", "ab", "ba", "ab", "ba"].concat().replace("aa", "a").replace("bb", "b")
        );
    });
}

#[test]
fn no_plans_take_no_time() {
    on_fake_driver("interleaved::no_plans_take_no_time", || {
        let case = Case::new();
        let tensors = DeviceTensors::allocate(&case.context, &case.graph, &case.inputs()).unwrap();
        assert_eq!(time_interleaved(&[], &tensors).unwrap(), []);
    });
}

#[test]
fn plans_share_tensors_once_there_is_workspace_for_each() {
    on_fake_driver("interleaved::plans_share_tensors_once_there_is_workspace_for_each", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let mut tensors = DeviceTensors::allocate(&case.context, &case.graph, &case.inputs()).unwrap();
        let error = tensors.execute(&plan).unwrap_err();
        assert!(error.to_string().contains("required: 512 bytes"), "{error}");
        for plan in [&plan, &case.plan("scale_add")] {
            tensors.reserve(plan).unwrap();
            tensors.execute(plan).unwrap();
            let y: Vec<f32> = tensors.download(&case.graph).unwrap()[&case.id(-1)].to_dense().unwrap();
            assert_eq!(y, [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
        }
    });
}
