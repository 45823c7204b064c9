//! The context that is current on a thread stays so, whatever is done and whatever goes.

use cudarc::driver::sys::CUcontext;
use libloading::Symbol;

use super::*;

/// The context that is current on this thread; null where none is.
pub(crate) fn current() -> CUcontext {
    let mut current: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is valid for one handle.
    unsafe { cuda::cuCtxGetCurrent(&raw mut current) }.unwrap();
    current
}

/// A device's primary context, as the CUDA runtime retains it.
pub(crate) fn retain(device: i32) -> CUcontext {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is valid for one handle, and the fake driver has the device.
    unsafe { cuda::cuDevicePrimaryCtxRetain(&raw mut context, device) }.unwrap();
    context
}

/// How often a device's primary context is retained.
pub(crate) fn retained(device: i32) -> i32 {
    // SAFETY: the fake driver is loaded, and the function has this type.
    unsafe {
        let driver = driver();
        let count: Symbol<'_, unsafe extern "C" fn(i32) -> i32> = driver.get(b"fake_retained").unwrap();
        count(device)
    }
}

/// Runs `act` and demands that it leaves the current context alone.
#[track_caller]
fn keeping<R>(what: &str, act: impl FnOnce() -> R) -> R {
    let before = current();
    let made = act();
    assert_eq!(current(), before, "{what}");
    made
}

/// All that is done with device 0, each step keeping the current context, until nothing is left of it.
fn use_device_0() {
    let case = keeping("opening", Case::new);
    let plan = keeping("building", || case.plan("scale_add"));
    let tensors = keeping("uploading", || DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap());
    keeping("executing", || tensors.execute(&plan).unwrap());
    let cuda_graph = keeping("instantiating", || tensors.instantiate(&plan).unwrap());
    keeping("downloading", || drop(tensors.download(&case.graph).unwrap()));
    keeping("timing", || time(&plan, &tensors).unwrap());
    keeping("another stream", || drop(Stream::new(&case.context).unwrap()));
    keeping("dropping a graph", || drop(cuda_graph));
    keeping("dropping tensors with their stream", || drop(tensors));
    keeping("dropping a plan", || drop(plan));
    keeping("dropping the device", || drop(case));
}

#[test]
fn the_current_context_is_kept() {
    on_two_devices("plan::tests::current_context::the_current_context_is_kept", || {
        Driver::load().unwrap();
        use_device_0();
        assert!(current().is_null(), "none before, none after");
        assert_eq!(retained(0), 0, "nothing is left of it");

        let others = [retain(1), retain(0)];
        for context in others {
            // SAFETY: it was retained above.
            unsafe { cuda::cuCtxPushCurrent_v2(context) }.unwrap();
            use_device_0();
            assert_eq!(current(), context);
        }
        assert_eq!([retained(0), retained(1)], [1, 1]);
    });
}

#[test]
fn the_last_release_on_another_thread_keeps_its_context() {
    on_two_devices("plan::tests::current_context::the_last_release_on_another_thread_keeps_its_context", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        std::thread::spawn(move || {
            // SAFETY: retained just now.
            unsafe { cuda::cuCtxPushCurrent_v2(retain(1)) }.unwrap();
            let before = current();
            drop((plan, case));
            assert_eq!((current(), retained(0)), (before, 0));
        })
        .join()
        .unwrap();
    });
}
