//! Log records for a function of the caller (LG-14, LG-15).

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, PoisonError, RwLock};

use cudarc::cudnn::sys::{cudnnCallback_t, cudnnDebugStruct, cudnnSeverity_t as RawSeverity, cudnnStatus_t as Status};

use super::failure;
use crate::logging::{self, Record, Severity};

/// What a caller set.
#[derive(Clone, Copy)]
pub(super) struct Callback {
    pub(super) mask: c_uint,
    data: usize,
    pub(super) function: cudnnCallback_t,
}

static CURRENT: RwLock<Callback> = RwLock::new(Callback { mask: 0, data: 0, function: None });

impl Callback {
    pub(super) fn data(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.data)
    }

    fn call(self, record: &Record) {
        let Some(function) = self.function else { return };
        let severity = match record.severity {
            Severity::Error => RawSeverity::CUDNN_SEV_ERROR,
            Severity::Warning => RawSeverity::CUDNN_SEV_WARNING,
            Severity::Info => RawSeverity::CUDNN_SEV_INFO,
        };
        let debug = facts(record);
        let message = lines(record);
        // SAFETY: whoever set the function promised that it may be called; both pointers are valid for the call.
        unsafe { function(severity, self.data(), &raw const debug, message.as_ptr().cast::<c_char>()) };
    }
}

pub(super) fn get() -> Callback {
    *CURRENT.read().unwrap_or_else(PoisonError::into_inner)
}

/// Sends records of the severities of a mask to a function; without one, to where the environment says.
pub(super) fn set(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) {
    let callback = Callback { mask, data: data.expose_provenance(), function };
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    *current = callback;
    logging::install_always();
    let sink: logging::Sink = Arc::new(move |record| callback.call(record));
    logging::set_sink(function.map(|_| (mask as u8, sink)));
}

/// The record's facts, as the ABI lays them out.
fn facts(record: &Record) -> cudnnDebugStruct {
    let time = record.time.timestamp();
    cudnnDebugStruct {
        cudnn_version: logging::VERSION,
        cudnnStatus: failure::status_of(record.status).unwrap_or(Status::CUDNN_STATUS_SUCCESS),
        time_sec: time.as_second() as c_uint,
        time_usec: (time.subsec_nanosecond() / 1000) as c_uint,
        time_delta: record.since_start.as_secs() as c_uint,
        handle: std::ptr::without_provenance_mut(record.handle as usize),
        stream: std::ptr::without_provenance_mut(record.stream as usize),
        pid: std::process::id().into(),
        tid: record.thread,
        cudaDeviceId: -1 as c_int,
        reserved: [0; 15],
    }
}

/// Each line with a zero byte behind it, and one more at the end.
fn lines(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in record.lines() {
        bytes.extend(line.bytes().filter(|&byte| byte != 0).chain([0]));
    }
    bytes.push(0);
    bytes
}
