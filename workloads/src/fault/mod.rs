//! The device code of the faults in `gpubench-catalogue`: fault injectors.
//!
//! To add one, write the facts of the fault there, its injector in a file here, and the line of
//! that file in `MODULES`.

mod hang;
mod kernel;
mod oom;

use std::cell::Cell;

use gpubench_catalogue::fault::{self, Fault};
use gpubench_kernels::driver::{DeviceBuffer, DriverError, error};

use crate::clock::{ClockError, Time};
use crate::load::{Gpu, LoadError};

/// The input of a fault's preparation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arming<'a> {
    /// Longest time that its work may stay on the device.
    pub budget_ns: u64,
    pub from_helper: Option<&'a str>,
}

type Arm = fn(&Gpu, &Arming<'_>) -> Result<Box<dyn Armed>, LoadError>;

/// Prepares a helper process, and returns its text for the process that it helps.
type ArmHelper = fn(&Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError>;

/// The device code of a fault.
#[derive(Clone, Copy)]
pub struct Injector {
    pub facts: &'static Fault,
    arm: Arm,
    /// Prepares its helper process, where it has one.
    helper: Option<ArmHelper>,
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.facts.name)
    }
}

const INJECTOR: Injector =
    Injector { facts: &fault::entries::PLACEBO, arm: kernel::nothing, helper: None };

/// The injectors, by the file that defines them.
const MODULES: &[&[Injector]] = &[
    kernel::CALL_FAULTS,
    kernel::PRINT_FAULTS,
    oom::FAULTS,
    hang::HANG_FAULTS,
    hang::SERVICE_FAULTS,
    hang::LOCK_FAULTS,
    kernel::KERNEL_FAULTS,
    hang::PEER_FAULTS,
];

pub fn find(name: &str) -> Option<&'static Injector> {
    MODULES.iter().copied().flatten().find(|injector| injector.facts.name == name)
}

impl Injector {
    /// Allocates and loads everything that the fault needs.
    pub fn arm(&self, gpu: &Gpu, how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
        (self.arm)(gpu, how)
    }

    /// Prepares its helper process; returns its text for the process that it helps.
    pub fn arm_helper(&self, gpu: &Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError> {
        let arm = self
            .helper
            .ok_or(LoadError::Fault { fault: self.facts.name, what: "it has no helper process" })?;
        arm(gpu)
    }
}

// A prepared fault and its injection.

/// A prepared fault. Belongs to the thread that prepared it.
pub trait Armed {
    /// Injects the fault and waits for the driver's result.
    /// Fails with the error of the driver, which most faults cause on purpose.
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError>;
}

pub struct Moment<'t> {
    pub time: &'t dyn Time,
    /// The latest instant at which the fault ends.
    pub until_ns: u64,
    /// When the driver returned, where the process does more before it reports.
    answered_ns: Cell<Option<u64>>,
}

impl<'t> Moment<'t> {
    /// An injection that starts now.
    pub fn new(time: &'t dyn Time, until_ns: u64) -> Self {
        Self { time, until_ns, answered_ns: Cell::new(None) }
    }

    /// Records that the driver returned; the first call counts.
    pub fn answered(&self) {
        if self.answered_ns.get().is_none() {
            self.answered_ns.set(Some(self.time.now_ns()));
        }
    }

    pub fn answered_ns(&self) -> Option<u64> {
        self.answered_ns.get()
    }
}

/// Why an injection returned an error, which most faults cause on purpose.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// The error code of harmless calls after a fault: a synchronisation and a small allocation.
pub fn afterwards(gpu: &Gpu) -> Result<i32, DriverError> {
    let tried = gpu
        .context
        .synchronize()
        .and_then(|()| DeviceBuffer::<u32>::alloc(&gpu.context, 1))
        .map(|_| ());
    match tried {
        Ok(()) => Ok(error::SUCCESS),
        Err(error) => error.code().ok_or(error),
    }
}

#[cfg(test)]
mod tests {
    use gpubench_catalogue::fault::CATALOGUE;

    use super::{MODULES, find};

    #[test]
    fn every_fault_has_its_injector() {
        for fault in CATALOGUE {
            let injector = find(fault.name).unwrap_or_else(|| panic!("{} has no code", fault.name));
            assert_eq!(injector.helper.is_some(), fault.has_helper, "{}", fault.name);
        }
        assert_eq!(MODULES.iter().copied().flatten().count(), CATALOGUE.len());
    }
}
