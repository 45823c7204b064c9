//! Children of a process whose threads call.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::limits::alone;
use super::*;
use crate::session::SessionOptions;

/// How long a fork waits for the calls of others.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a child finds, by its exit code; one that does not end is killed.
fn in_child(find: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls the library, which allows that, and ends without destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process");
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(20);
            libc::_exit(i32::from(!find()));
        }
    }
    let mut status = -1;
    // SAFETY: it is a child of this process; there is room for a status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn makes_a_tensor() -> bool {
    let tensor = unfinished_tensor(1, HALF, &[1, 8, 8], &[64, 8, 1], false);
    cudnnBackendFinalize(tensor.0) == Status::CUDNN_STATUS_SUCCESS
}

#[test]
fn a_call_that_does_not_end_is_left_behind_with_the_compiler() {
    alone("forks::a_call_that_does_not_end_is_left_behind_with_the_compiler", || {
        assert!(makes_a_tensor());
        let compiler = SessionOptions::default().compiler;
        let has_it = || Arc::ptr_eq(&compiler, &SessionOptions::default().compiler);
        let start = Instant::now();
        assert!(in_child(|| makes_a_tensor() && has_it()), "nobody was using it");
        assert!(start.elapsed() < PATIENCE, "nobody was waited for: {:?}", start.elapsed());
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _inside = gate::enter();
                barrier.wait();
                barrier.wait();
            });
            barrier.wait();
            let start = Instant::now();
            let is_left_behind = in_child(|| {
                let start = Instant::now();
                makes_a_tensor() && !has_it() && in_child(makes_a_tensor) && start.elapsed() < PATIENCE
            });
            let elapsed = start.elapsed();
            barrier.wait();
            assert!(is_left_behind, "the call has the compiler still, or was waited for again");
            assert!(elapsed >= PATIENCE, "{elapsed:?}");
        });
        assert!(makes_a_tensor() && has_it());
        assert!(in_child(|| makes_a_tensor() && has_it()));
    });
}

/// A log callback forks while its thread is inside of a call.
#[test]
fn a_call_that_forks_does_not_wait_for_itself() {
    alone("forks::a_call_that_forks_does_not_wait_for_itself", || {
        let _inside = gate::enter();
        let start = Instant::now();
        assert!(in_child(|| makes_a_tensor() && gate::forks() == 1 && in_child(makes_a_tensor)));
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert!(makes_a_tensor() && gate::forks() == 0);
    });
}
