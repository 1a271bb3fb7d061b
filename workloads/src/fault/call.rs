//! Faults that are one driver call, and the two controls.

use gpubench_kernels::driver::{DeviceBuffer, Grid};
use gpubench_kernels::{Kernel, Launcher as _, kernel::empty::Empty};

use super::{Answer, Armed, Arming, Class, FAULT, Fault, HostAct, InjectError, Moment, Severity};
use crate::load::{Gpu, LoadError};

/// More threads than a block of any device has (CUDA C++ Programming Guide, technical
/// specifications: 1024).
const THREADS_TOO_MANY: u32 = 2048;

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[PLACEBO, CANARY, EMPTY_LAUNCH, BAD_LAUNCH, DOUBLE_FREE];

/// Control: must affect no victim.
const PLACEBO: Fault = Fault {
    name: super::PLACEBO,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    class: Class::Control,
    summary: "launches an empty kernel and waits for it: must affect no victim",
    ..FAULT
};

/// Control: its effect must always be detected. The victim's death may reach this process too:
/// under MPS the effect of a client's death on other clients is undefined (MPS documentation, "When
/// to use MPS").
const CANARY: Fault = Fault {
    name: super::CANARY,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    xids: &[45],
    class: Class::Control,
    summary: "the coordinator kills the first victim: must always be detected",
    act: HostAct::KillVictim,
    answer: Answer::Open(&[]),
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
const EMPTY_LAUNCH: Fault = Fault {
    name: "empty-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks without threads, which the driver refuses",
    answer: Answer::Codes(&[1]),
    arm: |gpu, _| {
        gpu.kernels.prepare(&[Kernel::Empty])?;
        Ok(Box::new(BadLaunch { threads: 0 }))
    },
    ..FAULT
};

/// INVALID_VALUE, or LAUNCH_OUT_OF_RESOURCES (cuda.h).
const BAD_LAUNCH: Fault = Fault {
    name: "bad-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks of 2048 threads, which the driver refuses",
    answer: Answer::Codes(&[1, 701]),
    arm: |gpu, _| {
        gpu.kernels.prepare(&[Kernel::Empty])?;
        Ok(Box::new(BadLaunch { threads: THREADS_TOO_MANY }))
    },
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
const DOUBLE_FREE: Fault = Fault {
    name: "double-free",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "frees device memory twice, which the driver refuses",
    answer: Answer::Codes(&[1]),
    arm: |gpu, _| Ok(Box::new(DoubleFree(Some(DeviceBuffer::alloc(&gpu.context, 1)?)))),
    ..FAULT
};

/// Prepares an empty kernel.
pub(super) fn nothing(gpu: &Gpu, _how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
    gpu.kernels.prepare(&[Kernel::Empty])?;
    Ok(Box::new(Nothing))
}

struct Nothing;

impl Armed for Nothing {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        let grid = Grid::new(1, 1);
        Empty { grid }.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

struct BadLaunch {
    threads: u32,
}

impl Armed for BadLaunch {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        let grid = Grid::new(1, self.threads);
        Empty { grid }.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

struct DoubleFree(Option<DeviceBuffer<u32>>);

impl Armed for DoubleFree {
    fn inject(&mut self, _gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(self.0.take().map_or(Ok(()), DeviceBuffer::free_twice)?)
    }
}
