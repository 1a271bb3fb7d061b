//! How a call waits: on the clock, in wall time, or beside a clock that others move.

use std::time::Duration;

use super::Error;
use crate::device::{Device, DeviceError};
use crate::session::monotonic_ns;

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
