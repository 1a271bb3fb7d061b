//! Event sets: Xids as they happen, from registration on.

use std::ffi::c_uint;
use std::mem::offset_of;
use std::time::Duration;

use super::library::{catch_up_with_the_living, device_handle, library, only_device};
use super::objects::EventSet;
use super::returns::{self, Return};
use super::target::device;
use super::types::{EventData, NO_INSTANCE};
use super::wait_policy::WaitPolicy;
use super::{DeviceHandle, check_not_null, put};
use crate::arguments::put_prefix;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::simulation::next_event_ns;
use gpubench_virtual_gpu_model::state::XIDS;

/// `nvmlEventTypeXidCriticalError`: the only kind of event that this device has.
const XID: u64 = 8;
/// `nvmlEventTypeAll` of nvml.h 13.4; other bits are no event types.
const KNOWN: u64 = 0xfe9f;
/// Polling interval on the virtual clock: an event is delivered at most this much late.
const STEP_NS: u64 = 1_000_000;
/// Longest sleep in wall time before a waiter looks for dead processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

figures! {
    fn nvmlDeviceGetSupportedEventTypes(_) -> u64 {
        Ok(XID)
    }
}

entries! {
    fn nvmlEventSetCreate(set: *mut Handle) {
        let mut library = library()?;
        check_not_null(set)?;
        let handle = library.sets.insert(EventSet::default())?;
        put(set, handle)
    }

    fn nvmlEventSetFree(set: Handle) {
        library()?.sets.remove(set).map(drop)
    }

    fn nvmlDeviceRegisterEvents(handle: DeviceHandle, types: u64, set: Handle) {
        let device = device(handle)?;
        // An unknown set is refused before the call takes time.
        library()?.sets.get_mut(set)?;
        if types & !KNOWN != 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        if types & !XID != 0 {
            return Err(returns::NOT_SUPPORTED);
        }
        catch_up_with_the_living(&device)?;
        let raised = device.shared().read(|state| state.xids_raised)?;
        let mut library = library()?;
        let entry = library.sets.get_mut(set)?;
        if entry.types & XID == 0 {
            entry.next = raised;
        }
        entry.types |= types;
        Ok(())
    }

    fn nvmlEventSetWait(set: Handle, data: *mut EventData, timeout_ms: c_uint) {
        check_not_null(data)?;
        let event = wait(set, timeout_ms)?;
        // This form's structure ends before the instance ids.
        put_prefix(data.cast(), offset_of!(EventData, gpu_instance_id), &event);
        Ok(())
    }

    fn nvmlEventSetWait_v2(set: Handle, data: *mut EventData, timeout_ms: c_uint) {
        check_not_null(data)?;
        put(data, wait(set, timeout_ms)?)
    }
}

/// The set's next event, if it has been raised.
fn due(device: &Device, set: Handle) -> Result<Option<EventData>, Return> {
    let mut library = library()?;
    let entry = library.sets.get_mut(set)?;
    if entry.types & XID == 0 {
        return Ok(None);
    }
    let next = entry.next;
    let found = device.shared().read(|state| {
        // The table keeps the last ones only; what was overwritten is lost.
        let number = next.max(state.xids_raised.saturating_sub(XIDS as u64));
        let xid = state.xids.rows[(number % XIDS as u64) as usize];
        (number < state.xids_raised).then_some((number, xid))
    })?;
    let Some((number, xid)) = found else {
        return Ok(None);
    };
    entry.next = number + 1;
    let (gpu_instance_id, compute_instance_id) = xid.instance.unwrap_or((NO_INSTANCE, NO_INSTANCE));
    Ok(Some(EventData {
        device: device_handle(),
        event_type: XID,
        event_data: u64::from(xid.number),
        gpu_instance_id,
        compute_instance_id,
    }))
}

/// Waits for the set's next event.
fn wait(set: Handle, timeout_ms: u32) -> Result<EventData, Return> {
    let device = only_device()?;
    library()?.sets.get_mut(set)?;
    let policy = WaitPolicy::of(&device)?;
    let deadline_ns = policy.now_ns(&device) + u64::from(timeout_ms) * 1_000_000;
    loop {
        // Read before the check, so that a change in between ends the sleep.
        let change = device.shared().change();
        catch_up_with_the_living(&device)?;
        if let Some(event) = due(&device, set)? {
            return Ok(event);
        }
        let now_ns = policy.now_ns(&device);
        if now_ns >= deadline_ns {
            return Err(returns::TIMEOUT);
        }
        match policy {
            WaitPolicy::Wall => {
                let left = Duration::from_nanos(deadline_ns - now_ns);
                let next_ns = device.transact(|state, side| next_event_ns(state, side))?;
                let next =
                    Duration::from_nanos(next_ns.saturating_sub(device.session().wall_now_ns()));
                device
                    .shared()
                    .sleep_on_change(change, left.min(next).min(LOOK_INTERVAL));
            }
            WaitPolicy::OnClock | WaitPolicy::Beside => {
                policy.sleep_until(&device, deadline_ns.min(now_ns + STEP_NS))?;
            }
        }
    }
}
