//! A prepared fault and its injection.

use std::cell::Cell;

use gpubench_kernels::driver::{DeviceBuffer, DriverError, codes};

use crate::clock::{ClockError, Time};
use crate::load::Gpu;

/// A prepared fault. Belongs to the thread that prepared it.
pub trait Armed {
    /// Injects the fault and waits for the driver's result.
    ///
    /// # Errors
    /// The error of the driver, which most faults cause on purpose.
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError>;
}

/// The time of an injection.
pub struct Moment<'t> {
    /// The clock.
    pub time: &'t dyn Time,
    /// The latest instant at which the fault ends.
    pub until_ns: u64,
    /// When the driver returned, where the process does more before it reports.
    answered_ns: Cell<Option<u64>>,
}

impl<'t> Moment<'t> {
    /// An injection that starts now.
    #[must_use]
    pub fn new(time: &'t dyn Time, until_ns: u64) -> Self {
        Self { time, until_ns, answered_ns: Cell::new(None) }
    }

    /// Records that the driver returned; the first call counts.
    pub fn answered(&self) {
        if self.answered_ns.get().is_none() {
            self.answered_ns.set(Some(self.time.now_ns()));
        }
    }

    /// When the driver returned.
    #[must_use]
    pub fn answered_ns(&self) -> Option<u64> {
        self.answered_ns.get()
    }
}

/// Why an injection returned an error, which most faults cause on purpose.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A clock operation failed.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// The error code of harmless calls after a fault: a synchronisation and a small allocation.
///
/// # Errors
/// When the call could not be made.
pub fn afterwards(gpu: &Gpu) -> Result<i32, DriverError> {
    let tried = gpu
        .context
        .synchronize()
        .and_then(|()| DeviceBuffer::<u32>::alloc(&gpu.context, 1))
        .map(|_| ());
    match tried {
        Ok(()) => Ok(codes::SUCCESS),
        Err(error) => error.code().ok_or(error),
    }
}
