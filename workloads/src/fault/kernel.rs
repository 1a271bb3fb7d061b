//! Faults that are one driver call or one kernel, and the two controls.

use gpubench_catalogue::fault::entries;
use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, Grid, Limit};
use gpubench_kernels::kernel::faults::{
    FaultAssert, FaultBadPc, FaultBadSpace, FaultIllegalStore, FaultMisaligned, FaultPrintf,
    FaultSharedOob, FaultStack, FaultTrap,
};
use gpubench_kernels::kernel::timing::Empty;
use gpubench_kernels::{Kernel, Launcher};

use super::{Armed, Arming, INJECTOR, InjectError, Injector, Moment};
use crate::load::{Gpu, LoadError};

/// More threads than a block of any device has (CUDA C++ Programming Guide, technical
/// specifications: 1024).
const THREADS_TOO_MANY: u32 = 2048;

pub(super) const CALL_FAULTS: &[Injector] = &[
    Injector { facts: &entries::PLACEBO, ..INJECTOR },
    Injector { facts: &entries::CANARY, ..INJECTOR },
    Injector {
        facts: &entries::EMPTY_LAUNCH,
        arm: |gpu, _| empty(gpu, Grid::new(1, 0)),
        ..INJECTOR
    },
    Injector {
        facts: &entries::BAD_LAUNCH,
        arm: |gpu, _| empty(gpu, Grid::new(1, THREADS_TOO_MANY)),
        ..INJECTOR
    },
    Injector {
        facts: &entries::DOUBLE_FREE,
        arm: |gpu, _| Ok(Box::new(DoubleFree(Some(DeviceBuffer::alloc(&gpu.context, 1)?)))),
        ..INJECTOR
    },
];

/// Prepares an empty kernel.
pub(super) fn nothing(gpu: &Gpu, _how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
    empty(gpu, Grid::new(1, 1))
}

/// Prepares an empty kernel of this shape.
fn empty(gpu: &Gpu, grid: Grid) -> Result<Box<dyn Armed>, LoadError> {
    gpu.kernels.prepare(&[Kernel::Empty])?;
    Ok(Box::new(OneLaunch { launch: Empty { grid }, _words: None }))
}

struct DoubleFree(Option<DeviceBuffer<u32>>);

impl Armed for DoubleFree {
    fn inject(&mut self, _gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(self.0.take().map_or(Ok(()), DeviceBuffer::free_twice)?)
    }
}

// Faults that a kernel raises. The codes are those of cuda.h; where the documents do not specify
// which of several applies, all are listed.

pub(super) const KERNEL_FAULTS: &[Injector] = &[
    Injector {
        facts: &entries::ASSERT,
        arm: |gpu, _| armed(gpu, |done| FaultAssert { armed: true, done }),
        ..INJECTOR
    },
    Injector {
        facts: &entries::TRAP,
        arm: |gpu, _| armed(gpu, |done| FaultTrap { armed: true, done }),
        ..INJECTOR
    },
    Injector {
        facts: &entries::MISALIGNED,
        arm: |gpu, _| armed(gpu, |out| FaultMisaligned::armed(out, out.offset_bytes(8))),
        ..INJECTOR
    },
    Injector {
        facts: &entries::SHARED_OOB,
        arm: |gpu, _| armed(gpu, FaultSharedOob::armed),
        ..INJECTOR
    },
    Injector {
        facts: &entries::STACK,
        arm: |gpu, _| {
            let stack_bytes = gpu.context.limit_bytes(Limit::StackBytes)?;
            let stack_bytes = u32::try_from(stack_bytes).unwrap_or(u32::MAX / 4);
            armed(gpu, |out| FaultStack::armed(stack_bytes, out))
        },
        ..INJECTOR
    },
    Injector {
        facts: &entries::BAD_SPACE,
        arm: |gpu, _| armed(gpu, |global| FaultBadSpace { armed: true, global }),
        ..INJECTOR
    },
    Injector { facts: &entries::BAD_PC, arm: |gpu, _| armed(gpu, FaultBadPc::armed), ..INJECTOR },
    Injector {
        facts: &entries::ILLEGAL_INSTRUCTION,
        arm: |gpu, _| empty(gpu, Grid::new(MANY_BLOCKS, 1024)),
        ..INJECTOR
    },
    Injector {
        facts: &entries::ILLEGAL_ADDRESS,
        arm: |gpu, _| armed(gpu, |_| FaultIllegalStore::armed()),
        ..INJECTOR
    },
];

/// Blocks of the launch that a machine file makes fail: more threads than any workload launches.
const MANY_BLOCKS: u32 = 1 << 17;

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
    Ok(Box::new(OneLaunch { launch, _words: Some(words) }))
}

struct OneLaunch<L> {
    launch: L,
    _words: Option<DeviceBuffer<u32>>,
}

impl<L: Launcher> Armed for OneLaunch<L> {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

// A print that is longer than the printf buffer.

/// Size of the buffer, small so that it overflows at once.
const RING_BYTES: u32 = 64 << 10;

pub(super) const PRINT_FAULTS: &[Injector] = &[Injector {
    facts: &entries::PRINTF_FLOOD,
    arm: |gpu, _| {
        gpu.context.set_limit_bytes(Limit::PrintfBytes, RING_BYTES as usize)?;
        let ring_bytes = gpu.context.limit_bytes(Limit::PrintfBytes)?;
        let ring_bytes = u32::try_from(ring_bytes).unwrap_or(RING_BYTES);
        armed(gpu, |done| FaultPrintf::armed(ring_bytes, done))
    },
    ..INJECTOR
}];
