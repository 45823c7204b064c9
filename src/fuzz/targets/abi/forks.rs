//! Calls in the child of a fork.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::caller::Caller;
use crate::fuzz::finding::{Finding, finding};
use crate::fuzz::targets::expect;

/// How long a child may take for a few calls.
const PATIENCE: Duration = Duration::from_secs(20);

/// Does something in a child, while another thread of the parent calls the library.
///
/// # Errors
/// That it does not end, or with a finding; what that is goes to standard error.
pub(super) fn in_child(act: impl FnOnce() -> Result<(), Finding>) -> Result<(), Finding> {
    let (calls, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let child = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                call();
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        while calls.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // SAFETY: the child calls the library, which allows that, and ends without its parent's destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = outcome(act);
            // SAFETY: as above.
            unsafe { libc::_exit(code) };
        }
        is_over.store(true, Ordering::Relaxed);
        child
    });
    if child < 0 {
        return Ok(()); // the machine has no processes left
    }
    let status = wait(child)?;
    expect("a child's calls answer as its parent's", status == 0, || format!("wait status {status:#x}"))
}

/// Calls as another thread may make them at any time.
fn call() {
    let mut caller = Caller::new();
    let _ = caller.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR as u32).and_then(|tensor| caller.finalize(tensor));
    let _ = caller.destroy_all();
}

#[expect(clippy::print_stderr, reason = "a child has no other way to tell")]
fn outcome(act: impl FnOnce() -> Result<(), Finding>) -> i32 {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => 0,
        Ok(Err(finding)) => {
            eprintln!("in a child: {finding}");
            1
        }
        Err(_) => 2,
    }
}

fn wait(child: libc::pid_t) -> Result<i32, Finding> {
    let (mut status, end) = (0, Instant::now() + PATIENCE);
    loop {
        // SAFETY: it is a child of this process, and there is room for a status.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        match ended {
            0 if Instant::now() < end => std::thread::sleep(Duration::from_micros(200)),
            0 => break,
            _ if ended == child => return Ok(status),
            _ => return Err(finding("a child can be waited for", format!("{child}: {ended}"))),
        }
    }
    // SAFETY: it is a child of this process that has not ended.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &raw mut status, 0);
    }
    Err(finding("a child's calls end", format!("after {PATIENCE:?}")))
}
