//! Faults that are one driver call, and the two controls.

use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, Grid, Limit};
use gpubench_kernels::kernel::faults::{
    FaultAssert, FaultBadPc, FaultBadSpace, FaultIllegalStore, FaultMisaligned, FaultSharedOob,
    FaultStack, FaultTrap,
};
use gpubench_kernels::kernel::timing::Empty;
use gpubench_kernels::{Kernel, Launcher};

use super::{Answer, Armed, Arming, Class, FAULT, Fault, HostAct, InjectError, Moment, Severity};
use crate::load::{Gpu, LoadError};

/// More threads than a block of any device has (CUDA C++ Programming Guide, technical
/// specifications: 1024).
const THREADS_TOO_MANY: u32 = 2048;

/// The entries of the catalogue.
pub(super) const CALL_FAULTS: &[Fault] = &[PLACEBO, CANARY, EMPTY_LAUNCH, BAD_LAUNCH, DOUBLE_FREE];

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

// Faults that a kernel raises. The codes are those of cuda.h; where the documents do not specify
// which of several applies, all are listed.

/// The entries of the catalogue.
pub(super) const KERNEL_FAULTS: &[Fault] = &[
    ASSERT,
    TRAP,
    MISALIGNED,
    SHARED_OOB,
    STACK,
    BAD_SPACE,
    BAD_PC,
    ILLEGAL_INSTRUCTION,
    ILLEGAL_ADDRESS,
];

const ASSERT: Fault = Fault {
    name: "assert",
    resource: "exceptions of the SMs",
    xids: &[43],
    summary: "fails a device-side assertion",
    answer: Answer::Codes(&[710]),
    arm: |gpu, _| armed(gpu, |done| FaultAssert { armed: true, done }),
    ..FAULT
};

const TRAP: Fault = Fault {
    name: "trap",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "executes the trap instruction",
    answer: Answer::Codes(&[719, 715]),
    arm: |gpu, _| armed(gpu, |done| FaultTrap { armed: true, done }),
    ..FAULT
};

const MISALIGNED: Fault = Fault {
    name: "misaligned",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "loads a word from an address that is not a multiple of four",
    answer: Answer::Codes(&[716]),
    arm: |gpu, _| armed(gpu, |out| FaultMisaligned::armed(out, out.offset_bytes(8))),
    ..FAULT
};

const SHARED_OOB: Fault = Fault {
    name: "shared-oob",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "stores far beyond its window of shared memory",
    answer: Answer::Codes(&[719, 700]),
    arm: |gpu, _| armed(gpu, FaultSharedOob::armed),
    ..FAULT
};

const STACK: Fault = Fault {
    name: "stack-overflow",
    resource: "exceptions of the SMs",
    xids: &[13, 31],
    summary: "calls itself deeper than its stack allows",
    answer: Answer::Codes(&[714, 700, 719]),
    arm: |gpu, _| {
        let stack_bytes = gpu.context.limit_bytes(Limit::StackBytes)?;
        let stack_bytes = u32::try_from(stack_bytes).unwrap_or(u32::MAX / 4);
        armed(gpu, |out| FaultStack::armed(stack_bytes, out))
    },
    ..FAULT
};

/// The documents leave the effect of such an address undefined. An H100 raised no error, which
/// makes a trial invalid (`h100-80.toml`).
const BAD_SPACE: Fault = Fault {
    name: "wrong-address-space",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "adds atomically through a pointer to local memory",
    answer: Answer::Codes(&[717]),
    arm: |gpu, _| armed(gpu, |global| FaultBadSpace { armed: true, global }),
    ..FAULT
};

const BAD_PC: Fault = Fault {
    name: "bad-pc",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "calls a function at an address without code",
    answer: Answer::Codes(&[718]),
    arm: |gpu, _| armed(gpu, FaultBadPc::armed),
    ..FAULT
};

/// PTX has no illegal instruction; a machine file plants one for launches of many threads.
const ILLEGAL_INSTRUCTION: Fault = Fault {
    name: "illegal-instruction",
    resource: "exceptions of the SMs",
    xids: &[13],
    summary: "executes an instruction that does not exist, where a machine file plants one",
    answer: Answer::Codes(&[715]),
    planted_only: true,
    arm: |gpu, _| {
        gpu.kernels.prepare(&[Kernel::Empty])?;
        Ok(Box::new(Many))
    },
    ..FAULT
};

const ILLEGAL_ADDRESS: Fault = Fault {
    name: "illegal-address",
    resource: "translation of addresses",
    xids: &[31],
    class: Class::Mmu,
    summary: "stores to an address that is not mapped",
    answer: Answer::Codes(&[700]),
    arm: |gpu, _| armed(gpu, |_| FaultIllegalStore::armed()),
    ..FAULT
};

/// Words of memory that each of these kernels gets.
const WORDS: usize = 8;

/// Allocates the memory of a kernel and loads it.
fn armed<L: Launcher + 'static>(
    gpu: &Gpu,
    with: impl FnOnce(DevicePtr) -> L,
) -> Result<Box<dyn Armed>, LoadError> {
    let words = DeviceBuffer::from_slice(&gpu.context, &[0_u32; WORDS])?;
    let launch = with(words.device_ptr());
    gpu.kernels.prepare(&[launch.kernel()])?;
    Ok(Box::new(OneLaunch { launch, _words: words }))
}

struct OneLaunch<L> {
    launch: L,
    _words: DeviceBuffer<u32>,
}

impl<L: Launcher> Armed for OneLaunch<L> {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

/// Blocks of the launch that a machine file makes fail: more threads than any workload launches.
const MANY_BLOCKS: u32 = 1 << 17;

struct Many;

impl Armed for Many {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        let grid = Grid::new(MANY_BLOCKS, 1024);
        Empty { grid }.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}
