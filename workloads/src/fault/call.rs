//! Faults that are one call, and the controls, which are none.

use gpubench_kernels::driver::{DeviceBuffer, Grid};
use gpubench_kernels::{Kernel, Launcher as _, kernel::empty::Empty};

use super::{Answer, Armed, Arming, Class, FAULT, Fault, HostAct, Moment, Severity, StrikeError};
use crate::load::{Gpu, LoadError};

/// More threads than a block of any device has (CUDA C++ Programming Guide, technical
/// specifications: 1024).
const THREADS_TOO_MANY: u32 = 2048;

/// Must never be seen in anybody.
pub(super) const PLACEBO: Fault = Fault {
    name: super::PLACEBO,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    class: Class::Control,
    summary: "launches an empty kernel and waits for it: must hurt nobody",
    ..FAULT
};

/// Must always be seen. The victim's death may reach this process too: under MPS it is undefined
/// what a client's death at work does to the others (MPS documentation, "When to use MPS").
pub(super) const CANARY: Fault = Fault {
    name: super::CANARY,
    severity: Severity::Control,
    resource: "none: the instrument itself",
    xids: &[45],
    class: Class::Control,
    summary: "the coordinator kills the first victim: must always be seen",
    act: HostAct::KillVictim,
    answer: Answer::Open(&[]),
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
pub(super) const EMPTY_LAUNCH: Fault = Fault {
    name: "empty-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks of no thread, which the driver refuses",
    answer: Answer::Codes(&[1]),
    arm: |gpu, _| {
        gpu.kernels.prepare(&[Kernel::Empty])?;
        Ok(Box::new(BadLaunch { threads: 0 }))
    },
    ..FAULT
};

/// INVALID_VALUE, or LAUNCH_OUT_OF_RESOURCES (cuda.h).
pub(super) const BAD_LAUNCH: Fault = Fault {
    name: "bad-launch",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "launches blocks of 2048 threads, which the driver refuses",
    answer: Answer::Codes(&[1, 701]),
    arm: |gpu, _| {
        gpu.kernels.prepare(&[Kernel::Empty])?;
        Ok(Box::new(BadLaunch {
            threads: THREADS_TOO_MANY,
        }))
    },
    ..FAULT
};

/// INVALID_VALUE (cuda.h).
pub(super) const DOUBLE_FREE: Fault = Fault {
    name: "double-free",
    severity: Severity::Benign,
    resource: "the driver's checks of calls",
    class: Class::Api,
    summary: "frees device memory twice, which the driver refuses",
    answer: Answer::Codes(&[1]),
    arm: |gpu, _| {
        Ok(Box::new(DoubleFree(Some(DeviceBuffer::alloc(
            &gpu.context,
            1,
        )?))))
    },
    ..FAULT
};

/// Readies an empty kernel.
pub(super) fn nothing(gpu: &Gpu, _how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
    gpu.kernels.prepare(&[Kernel::Empty])?;
    Ok(Box::new(Nothing))
}

struct Nothing;

impl Armed for Nothing {
    fn strike(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), StrikeError> {
        let grid = Grid::new(1, 1);
        Empty { grid }.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

struct BadLaunch {
    threads: u32,
}

impl Armed for BadLaunch {
    fn strike(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), StrikeError> {
        let grid = Grid::new(1, self.threads);
        Empty { grid }.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

struct DoubleFree(Option<DeviceBuffer<u32>>);

impl Armed for DoubleFree {
    fn strike(&mut self, _gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), StrikeError> {
        Ok(self.0.take().map_or(Ok(()), DeviceBuffer::free_twice)?)
    }
}
