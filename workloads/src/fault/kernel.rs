//! Faults that a kernel raises. The codes are those of cuda.h; where the documents do not specify
//! which of several applies, all are listed.

use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, Grid, Limit};
use gpubench_kernels::kernel::empty::Empty;
use gpubench_kernels::kernel::fault_assert::FaultAssert;
use gpubench_kernels::kernel::fault_bad_pc::FaultBadPc;
use gpubench_kernels::kernel::fault_bad_space::FaultBadSpace;
use gpubench_kernels::kernel::fault_illegal_store::FaultIllegalStore;
use gpubench_kernels::kernel::fault_misaligned::FaultMisaligned;
use gpubench_kernels::kernel::fault_shared_oob::FaultSharedOob;
use gpubench_kernels::kernel::fault_stack::FaultStack;
use gpubench_kernels::kernel::fault_trap::FaultTrap;
use gpubench_kernels::{Kernel, Launcher};

use super::{Answer, Armed, Class, FAULT, Fault, InjectError, Moment};
use crate::load::{Gpu, LoadError};

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[
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
