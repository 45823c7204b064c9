//! A gate that every call goes through, and that is closed while the process forks: the child has none of the other threads, and
//! a lock that one of them held would be held for ever.
//!
//! A fork waits until the calls of other threads have ended, for some time at most; meanwhile no call begins. A call that lasts
//! longer is left behind in the child, with what such calls hold: the shared compiler, which is replaced there.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::session;

/// Parts of the gate, so that threads share no cache line.
const PARTS: usize = 64;

/// How long a fork, and the end of the process, wait: longer than kernels compile. A call that waits for the forking thread (its log callback for the lock
/// of an interpreter) would never end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at a gate.
const PAUSE: Duration = Duration::from_micros(20);

/// A number that threads change alone, or seldom.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// Calls that are inside, by the part that their threads go through.
static INSIDE: [Counter; PARTS] = [const { Counter(AtomicUsize::new(0)) }; PARTS];

/// Forks that are under way; above zero the gate is closed.
static CLOSED: Counter = Counter(AtomicUsize::new(0));

/// Forks from the process that loaded the library to this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Threads that have called.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// A thread before its first call.
const UNKNOWN: usize = usize::MAX;

/// What a thread knows of itself.
struct Thread {
    part: Cell<usize>,
    /// Calls that it is inside of: a log callback calls within a call.
    depth: Cell<usize>,
    is_forking: Cell<bool>,
    /// Whether nobody else was inside when it forked.
    is_alone: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            part: Cell::new(UNKNOWN),
            depth: Cell::new(0),
            is_forking: Cell::new(false),
            is_alone: Cell::new(false),
        }
    };
}

/// A call that is inside, until it is dropped.
pub(super) struct Inside(PhantomData<*const ()>);

/// Goes through the gate, once it is open.
pub(super) fn enter() -> Inside {
    THREAD.with(|thread| {
        let depth = thread.depth.get();
        if depth == 0 {
            thread.enter();
        }
        thread.depth.set(depth + 1);
    });
    Inside(PhantomData)
}

impl Drop for Inside {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            let depth = thread.depth.get() - 1;
            thread.depth.set(depth);
            if depth == 0 {
                thread.inside().fetch_sub(1, Ordering::Release);
            }
        });
    }
}

impl Thread {
    fn inside(&self) -> &'static AtomicUsize {
        &INSIDE[self.part.get() % PARTS].0
    }

    fn enter(&self) {
        if self.part.get() == UNKNOWN {
            self.part.set(THREADS.fetch_add(1, Ordering::Relaxed) % PARTS);
            watch_forks();
        }
        loop {
            // in one order with those of `prepare`: either sees that the other was first
            self.inside().fetch_add(1, Ordering::SeqCst);
            // what others do when the process forks may call, too
            if CLOSED.0.load(Ordering::SeqCst) == 0 || self.is_forking.get() {
                return;
            }
            self.inside().fetch_sub(1, Ordering::SeqCst);
            while CLOSED.0.load(Ordering::SeqCst) > 0 {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Calls of this thread, by how they are counted.
    fn own(&self) -> usize {
        usize::from(self.depth.get() > 0)
    }
}

/// How many forks lie between the process that loaded the library and this one.
pub(super) fn forks() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Has the gate closed by forks from now on. Once, and without waiting: a lock of its own could be what a child waits for.
fn watch_forks() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        // SAFETY: the functions are called around forks, by the thread that forks; they go with the library.
        unsafe {
            // without memory for it, forks are as they were
            libc::pthread_atfork(Some(prepare), Some(resume), Some(renew));
        }
    }
}

/// Has the end of the process wait for the calls of other threads: what they are in may be gone before they are. Once; asked for when a compiler is
/// loaded, so that the process waits before the compiler ends.
pub(super) fn watch_exit() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        // SAFETY: the function goes with the library, which is never unloaded.
        unsafe {
            // without memory for it, the end is as it was
            libc::atexit(wait_for_others);
        }
    }
}

#[cfg(unix)]
extern "C" fn wait_for_others() {
    // a thread that ends the process may have no thread-locals any more
    let own = THREAD.try_with(Thread::own).unwrap_or(0);
    wait_until_inside(own);
}

/// Waits until no more calls than these are inside, for some time at most; whether that is so.
fn wait_until_inside(own: usize) -> bool {
    let end = Instant::now() + PATIENCE;
    let others = || INSIDE.iter().map(|part| part.0.load(Ordering::SeqCst)).sum::<usize>() > own;
    while others() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    !others()
}

/// Before a fork: closes the gate, and waits for the calls of other threads.
extern "C" fn prepare() {
    THREAD.with(|thread| {
        thread.is_forking.set(true);
        CLOSED.0.fetch_add(1, Ordering::SeqCst);
        thread.is_alone.set(wait_until_inside(thread.own()));
    });
}

/// After a fork, in the parent.
extern "C" fn resume() {
    CLOSED.0.fetch_sub(1, Ordering::SeqCst);
    THREAD.with(|thread| thread.is_forking.set(false));
}

/// After a fork, in the child, whose only thread this is.
extern "C" fn renew() {
    THREAD.with(|thread| {
        INSIDE.iter().for_each(|part| part.0.store(0, Ordering::Relaxed));
        if thread.part.get() != UNKNOWN {
            thread.inside().store(thread.own(), Ordering::Relaxed);
        }
        CLOSED.0.store(0, Ordering::SeqCst);
        FORKS.fetch_add(1, Ordering::Relaxed);
        if !thread.is_alone.get() {
            session::replace_compiler();
        }
        thread.is_forking.set(false);
    });
}
