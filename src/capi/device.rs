//! Device properties: what is known of a GPU, from a GPU or from a text, so that graphs can be asked about without one.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use serde::{Deserialize, Serialize};

use super::descriptor::Given;
use super::failure::{Failure, Result};
use super::values::Values;
use crate::device::{ComputeCapability, Device};
use crate::plan::Driver;

/// A device as the text says it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    compute_capability: [u32; 2],
    sm_count: u32,
    shared_bytes_per_block: u32,
    l2_bytes: u64,
    bytes_per_second: f64,
}

/// The device of a descriptor: by its text, its handle, or its number, whichever is set first in this order.
pub(super) fn properties(given: &Given<'_>) -> Result<Device> {
    if let Some(Values::Char(bytes)) = given.of(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) {
        return parse(bytes);
    }
    if let Some(Values::Handle(handle)) = given.of(Name::CUDNN_ATTR_DEVICEPROP_HANDLE) {
        return Ok(handle.context.device().clone());
    }
    let ordinal = given.int64(Name::CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
    let ordinal = ordinal.ok_or_else(|| Failure::bad("neither a handle, a device id nor a text is set"))?;
    let ordinal = u32::try_from(ordinal).map_err(|_| Failure::bad(format!("{ordinal} is no device id")))?;
    let missing = |error| Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, error);
    Driver::load().map_err(missing)?.device(ordinal).map_err(missing)
}

fn parse(bytes: &[u8]) -> Result<Device> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let text: Text =
        serde_json::from_slice(bytes).map_err(|error| Failure::bad(format!("the device properties: {error}")))?;
    let [major, minor] = text.compute_capability;
    Ok(Device {
        name: text.name,
        capability: ComputeCapability::new(major, minor),
        sm_count: text.sm_count,
        shared_bytes_per_block: text.shared_bytes_per_block,
        l2_bytes: text.l2_bytes,
        bytes_per_second: text.bytes_per_second,
    })
}

/// The text of a device.
pub(super) fn attribute(device: &Device, name: Name) -> Option<Values> {
    let text = Text {
        name: device.name.clone(),
        compute_capability: [device.capability.major, device.capability.minor],
        sm_count: device.sm_count,
        shared_bytes_per_block: device.shared_bytes_per_block,
        l2_bytes: device.l2_bytes,
        bytes_per_second: device.bytes_per_second,
    };
    let is_text = name == Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    is_text.then(|| serde_json::to_vec(&text).ok().map(Values::Char)).flatten()
}
