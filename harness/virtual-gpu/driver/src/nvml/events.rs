//! Event sets: Xids as they happen, from registration on; and how a call waits for them.

use std::time::Duration;

use super::Error;
use super::library::{catch_up_with_the_living, library, only_device};
use super::objects::EventSet;
use crate::code::refuse;
use crate::device::{Device, DeviceError};
use crate::handles::Handle;
use crate::session::monotonic_ns;
use gpubench_virtual_gpu_model::simulation::next_event_ns;
use gpubench_virtual_gpu_model::state::XIDS;

/// `nvmlEventTypeXidCriticalError`: the only kind of event that this device has.
pub const XID: u64 = 8;
/// `nvmlEventTypeAll` of nvml.h 13.4; other bits are no event types.
const KNOWN: u64 = 0xfe9f;
/// Polling interval on the virtual clock: an event is delivered at most this much late.
const STEP_NS: u64 = 1_000_000;
/// Longest sleep in wall time before a waiter looks for dead processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub struct Event {
    pub xid: u32,
    /// Ids of the GPU instance and the compute instance, where it has them.
    pub instance: Option<(u32, u32)>,
}

pub fn create_set() -> Result<Handle, Error> {
    Ok(library()?.sets.insert(EventSet::default())?)
}

pub fn free_set(set: Handle) -> Result<(), Error> {
    library()?.sets.remove(set)?;
    Ok(())
}

/// Adds kinds of events to a set, from now on.
pub fn register(device: &Device, types: u64, set: Handle) -> Result<(), Error> {
    // An unknown set is refused before the call takes time.
    library()?.sets.get(set)?;
    refuse(types & !KNOWN != 0, Error::InvalidArgument)?;
    refuse(types & !XID != 0, Error::NotSupported)?;
    catch_up_with_the_living(device)?;
    let raised = device.shared().read(|state| state.xids_raised)?;
    let mut library = library()?;
    let entry = library.sets.get_mut(set)?;
    if entry.types & XID == 0 {
        entry.next = raised;
    }
    entry.types |= types;
    Ok(())
}

/// Waits for the set's next event.
pub fn wait(set: Handle, timeout_ms: u32) -> Result<Event, Error> {
    let device = only_device()?;
    library()?.sets.get(set)?;
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
        refuse(now_ns >= deadline_ns, Error::Timeout)?;
        match policy {
            WaitPolicy::Wall => {
                let left = Duration::from_nanos(deadline_ns - now_ns);
                let next_ns = device.transact(|state, side| next_event_ns(state, side))?;
                let next =
                    Duration::from_nanos(next_ns.saturating_sub(device.session().wall_now_ns()));
                device.shared().sleep_on_change(change, left.min(next).min(LOOK_INTERVAL));
            }
            WaitPolicy::OnClock | WaitPolicy::Beside => {
                policy.sleep_until(&device, deadline_ns.min(now_ns + STEP_NS))?;
            }
        }
    }
}

/// The set's next event, if it has been raised.
fn due(device: &Device, set: Handle) -> Result<Option<Event>, Error> {
    let mut library = library()?;
    let entry = library.sets.get_mut(set)?;
    if entry.types & XID == 0 {
        return Ok(None);
    }
    let next = entry.next;
    let found = device.shared().read(|state| {
        // The table keeps the last ones only; what was overwritten is lost.
        let first = next.max(state.xids_raised.saturating_sub(XIDS as u64));
        let mut numbers = (first..state.xids_raised)
            .map(|number| (number, state.xids.rows[(number % XIDS as u64) as usize]));
        numbers.find(|(_, xid)| !xid.log_only)
    })?;
    let Some((number, xid)) = found else { return Ok(None) };
    entry.next = number + 1;
    Ok(Some(Event { xid: xid.number, instance: xid.instance }))
}

/// How the calling thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// The thread takes part in virtual time.
    OnClock,
    /// Time is real.
    Wall,
    /// Time is virtual, and the thread has not joined the clock: it polls.
    Beside,
}

impl WaitPolicy {
    /// The calling thread's.
    pub fn of(device: &Device) -> Result<Self, Error> {
        if !device.is_virtual_time() {
            return Ok(Self::Wall);
        }
        match device.sleep_until(0) {
            Ok(()) => Ok(Self::OnClock),
            Err(DeviceError::NotJoined(_)) => Ok(Self::Beside),
            Err(error) => Err(error.into()),
        }
    }

    /// The time by which it waits: the model's on the clock, else the host's.
    pub fn now_ns(self, device: &Device) -> u64 {
        match self {
            Self::OnClock => device.now_ns(),
            Self::Wall | Self::Beside => monotonic_ns(),
        }
    }

    /// Sleeps until an instant of [`WaitPolicy::now_ns`].
    pub fn sleep_until(self, device: &Device, t_ns: u64) -> Result<(), Error> {
        match self {
            Self::OnClock => device.sleep_until(t_ns)?,
            Self::Wall | Self::Beside => {
                std::thread::sleep(Duration::from_nanos(t_ns.saturating_sub(monotonic_ns())));
            }
        }
        Ok(())
    }
}
