//! Event sets: Xids as they happen, from registration on.

use std::ffi::c_uint;

use super::returns::Return;
use super::types::{EventData, NO_INSTANCES};
use super::{DeviceHandle, check_not_null, put};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::nvml::events;
use gpubench_virtual_gpu_driver::nvml::library::{check_initialised, device, device_handle};

entries! {
    fn nvmlEventSetCreate(set: *mut Handle) {
        check_initialised()?;
        check_not_null(set)?;
        put(set, events::create_set()?)
    }

    fn nvmlEventSetFree(set: Handle) { Ok(events::free_set(set)?) }
    fn nvmlDeviceRegisterEvents(handle: DeviceHandle, types: u64, set: Handle) {
        Ok(events::register(&*device(handle)?, types, set)?)
    }

    fn nvmlEventSetWait_v2(set: Handle, data: *mut EventData, timeout_ms: c_uint) {
        check_not_null(data)?;
        put(data, wait(set, timeout_ms)?)
    }
}

fn wait(set: Handle, timeout_ms: u32) -> Result<EventData, Return> {
    let event = events::wait(set, timeout_ms)?;
    let (gpu_instance_id, compute_instance_id) = event.instance.unwrap_or(NO_INSTANCES);
    Ok(EventData {
        device: device_handle(),
        event_type: events::XID,
        event_data: u64::from(event.xid),
        gpu_instance_id,
        compute_instance_id,
    })
}
