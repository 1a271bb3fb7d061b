//! A prepared fault, and the moment at which it is injected.

use std::cell::Cell;

use gpubench_kernels::driver::{DeviceBuffer, DriverError, codes};

use crate::clock::{ClockError, Time};
use crate::load::Gpu;

/// A prepared fault. Belongs to the thread that prepared it.
pub trait Armed {
    /// Injects the fault and waits for the driver's answer.
    ///
    /// # Errors
    /// The answer, where it is not success.
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError>;
}

/// When a fault happens.
pub struct Moment<'t> {
    /// The clock.
    pub time: &'t dyn Time,
    /// When it is over at the latest.
    pub until_ns: u64,
    /// When the answer came, where the process does something else before it reports.
    answered_ns: Cell<Option<u64>>,
}

impl<'t> Moment<'t> {
    /// An injection that begins now.
    #[must_use]
    pub fn new(time: &'t dyn Time, until_ns: u64) -> Self {
        Self {
            time,
            until_ns,
            answered_ns: Cell::new(None),
        }
    }

    /// Notes that the answer came; the first call counts.
    pub fn answered(&self) {
        if self.answered_ns.get().is_none() {
            self.answered_ns.set(Some(self.time.now_ns()));
        }
    }

    /// When the answer came.
    #[must_use]
    pub fn answered_ns(&self) -> Option<u64> {
        self.answered_ns.get()
    }
}

/// Why an injection did not succeed, which is what most faults are for.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The driver's answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The clock refused.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// The error code of harmless calls after a fault: a wait, and a small allocation.
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
