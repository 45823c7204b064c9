//! Device properties as texts: cuDNN's, told to our side in its own words.

use fusewright::device::{ComputeCapability, Device};
use serde::Deserialize;

/// What our side needs to know of what cuDNN's text says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    /// 100 · major + 10 · minor.
    device_ver: u32,
    device_name: String,
    multi_processor_count: u32,
    max_shared_memory_per_block_optin: u32,
    l2_cache_size: u64,
}

/// cuDNN's text as ours; `None` of a text that is not cuDNN's. The memory's rate is that of a typical device, as cuDNN does not
/// say how wide its bus is.
pub(crate) fn translated(text: &[u8]) -> Option<Vec<u8>> {
    let text: Text = serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(text)).ok()?;
    let capability = ComputeCapability::new(text.device_ver / 100, text.device_ver % 100 / 10);
    let device = Device {
        name: text.device_name,
        capability,
        sm_count: text.multi_processor_count,
        shared_bytes_per_block: text.max_shared_memory_per_block_optin,
        l2_bytes: text.l2_cache_size,
        ..Device::typical(capability)
    };
    serde_json::to_vec(&device).ok()
}
