//! Device properties: what is known of a GPU, from a GPU or from a text, so that graphs can be asked about without one.

use std::fmt::Display;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::descriptor::{Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use crate::device::Device;
use crate::plan::Driver;

/// The device of a descriptor: by its text, its handle, or its number, whichever is set first in this order.
pub(super) fn properties(given: &Given<'_>) -> Result<Device> {
    if let Some(text) = given.text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)? {
        let wrong = |message: &dyn Display| Failure::bad(format!("the device properties: {message}"));
        let device: Device = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        return if is_a_gpu(&device) { Ok(device) } else { Err(wrong(&"there is no GPU of these sizes")) };
    }
    if let Some(handle) = given.handle(Name::CUDNN_ATTR_DEVICEPROP_HANDLE) {
        return Ok(Device::clone(handle.session.device()));
    }
    let ordinal = given.int64(Name::CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
    let ordinal = ordinal.ok_or_else(|| Failure::bad("neither a handle, a device id nor a text is set"))?;
    let ordinal = u32::try_from(ordinal).map_err(|_| Failure::bad(format!("{ordinal} is no device id")))?;
    let missing = |error| Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, error);
    let driver = Driver::load().map_err(missing)?;
    if ordinal >= driver.device_count() {
        return Err(Failure::bad(format!("{ordinal} is no device id; there are {} devices", driver.device_count())));
    }
    driver.device(ordinal).map_err(missing)
}

/// Whether kernels may be planned for a device: its sizes are within some orders of magnitude of every GPU's.
fn is_a_gpu(device: &Device) -> bool {
    (1..=1 << 12).contains(&device.sm_count)
        && device.shared_bytes_per_block <= 1 << 24
        && device.l2_bytes <= 1 << 40
        && (1e6..=1e18).contains(&device.bytes_per_second)
}

impl Object for Device {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        let is_text = name == Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
        Ok(is_text.then(|| serde_json::to_vec(self).ok().map(Values::Char)).flatten())
    }
}

impl Referred for Device {
    const WANTED: &'static str = "a device properties descriptor";
}
