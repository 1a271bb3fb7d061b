//! Kernels that fail: by a bad address, space or program counter, a trap, an assertion, a full
//! stack or ring, or by never ending.

use crate::driver::{DevicePtr, Grid};
use crate::kernel::Cost;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Checks the one word that a launch leaves, which was zero.
fn ends_with<L: Launcher>(
    name: &'static str,
    kernels: &KernelSet,
    expected: u32,
    launch: impl FnOnce(DevicePtr) -> L,
) -> Result<(), VerifyError> {
    let check = Check::new(name, kernels)?;
    let word = check.zeros::<u32>(1)?;
    check.run(&launch(word.device_ptr()))?;
    check.same("word", word.to_vec()?[0], expected)
}

// `fault_illegal_store`: stores one word at a given address.

#[derive(Debug, Clone, Copy)]
pub struct FaultIllegalStore {
    pub target: DevicePtr,
    pub value: u32,
}

impl FaultIllegalStore {
    /// An address in the first page, which no allocation gets.
    pub const UNMAPPED: DevicePtr = DevicePtr(16);

    /// The fault: error 700, raised by the MMU.
    pub const fn armed() -> Self {
        Self { target: Self::UNMAPPED, value: 0 }
    }
}

launcher! { FaultIllegalStore(self), Grid::new(1, 1), [ptr self.target, u32 self.value] }

/// At an allocated address it stores without an error.
pub fn verify_fault_illegal_store(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_illegal_store", kernels)?;
    let words = check.zeros::<u32>(3)?;
    let target = words.device_ptr().offset_bytes(4);
    check.run(&FaultIllegalStore { target, value: 7 })?;
    check.same_slice("words", &words.to_vec()?, &[0, 7, 0])
}

// `fault_misaligned`: loads a word from an address that may not be a multiple of four.

#[derive(Debug, Clone, Copy)]
pub struct FaultMisaligned {
    /// Memory of the process, at least eight bytes.
    pub base: DevicePtr,
    /// Offset in that memory.
    pub offset_bytes: u32,
    /// One u32: the loaded word.
    pub out: DevicePtr,
}

impl FaultMisaligned {
    /// The fault: error 716, raised by the SM.
    pub const fn armed(base: DevicePtr, out: DevicePtr) -> Self {
        Self { base, offset_bytes: 1, out }
    }
}

launcher! {
    FaultMisaligned(self), Grid::new(1, 1),
    [ptr self.base, u32 self.offset_bytes, ptr self.out]
}

/// At an aligned offset it loads the stored word.
pub fn verify_fault_misaligned(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_misaligned", kernels)?;
    let words = check.buffer(&[11_u32, 22])?;
    let base = words.device_ptr();
    ends_with("fault_misaligned", kernels, 22, |out| FaultMisaligned { base, offset_bytes: 4, out })
}

// `fault_trap`: executes the trap instruction when armed.

#[derive(Debug, Clone, Copy)]
pub struct FaultTrap {
    /// Whether to trap (719, on some parts 715, raised by the SM).
    pub armed: bool,
    /// One u32, set to one when the kernel reaches its end.
    pub done: DevicePtr,
}

launcher! { FaultTrap(self), Grid::new(1, 1), [u32 u32::from(self.armed), ptr self.done] }

/// Unarmed it reaches its end.
pub fn verify_fault_trap(kernels: &KernelSet) -> Result<(), VerifyError> {
    ends_with("fault_trap", kernels, 1, |done| FaultTrap { armed: false, done })
}

// `fault_assert`: fails a device-side assertion when armed.

/// Fails an assertion when armed.
#[derive(Debug, Clone, Copy)]
pub struct FaultAssert {
    /// Whether to fail (710); the driver prints the message to standard error.
    pub armed: bool,
    /// One u32, set to one when the kernel reaches its end.
    pub done: DevicePtr,
}

launcher! { FaultAssert(self), Grid::new(1, 1), [u32 u32::from(self.armed), ptr self.done] }

/// Unarmed it reaches its end.
pub fn verify_fault_assert(kernels: &KernelSet) -> Result<(), VerifyError> {
    ends_with("fault_assert", kernels, 1, |done| FaultAssert { armed: false, done })
}

// `fault_stack`: calls itself to a given depth.

/// Calls itself recursively.
#[derive(Debug, Clone, Copy)]
pub struct FaultStack {
    /// Recursion depth; each call uses `FRAME_BYTES` of stack or more.
    pub depth: u32,
    /// One u32: the sum of the numbers up to `depth`.
    pub out: DevicePtr,
}

impl FaultStack {
    /// Smallest stack frame of one call: an array of 64 words.
    pub const FRAME_BYTES: u32 = 256;

    /// The fault (714, 700 or 719): twice the depth that a stack of `stack_bytes` allows.
    pub const fn armed(stack_bytes: u32, out: DevicePtr) -> Self {
        Self { depth: 2 * (stack_bytes / Self::FRAME_BYTES) + 2, out }
    }
}

launcher! { FaultStack(self), Grid::new(1, 1), [u32 self.depth, ptr self.out] }

/// Within the stack of any context it returns the sum.
pub fn verify_fault_stack(kernels: &KernelSet) -> Result<(), VerifyError> {
    // The stack of a new context is 1 KiB (CUDA driver API, CU_LIMIT_STACK_SIZE).
    ends_with("fault_stack", kernels, 3, |out| FaultStack { depth: 2, out })
}

// `fault_bad_pc`: calls a function through a pointer that the host can offset.

/// Calls a function through a pointer.
#[derive(Debug, Clone, Copy)]
pub struct FaultBadPc {
    /// Added to the function's address; zero is harmless.
    pub offset_bytes: u64,
    pub x: u32,
    /// One u32: the argument plus one.
    pub out: DevicePtr,
}

impl FaultBadPc {
    /// The fault: error 718, raised by the SM. The address is beyond any code, and aligned.
    pub const fn armed(out: DevicePtr) -> Self {
        Self { offset_bytes: 1 << 40, x: 0, out }
    }
}

launcher! { FaultBadPc(self), Grid::new(1, 1), [u64 self.offset_bytes, u32 self.x, ptr self.out] }

/// With an unchanged pointer it calls the function.
pub fn verify_fault_bad_pc(kernels: &KernelSet) -> Result<(), VerifyError> {
    ends_with("fault_bad_pc", kernels, 42, |out| FaultBadPc { offset_bytes: 0, x: 41, out })
}

// `fault_bad_space`: an atomic addition through a generic pointer, to local memory when armed.

/// Adds atomically through a generic pointer.
#[derive(Debug, Clone, Copy)]
pub struct FaultBadSpace {
    /// Whether the pointer leads to local memory (error 717, raised by the SM).
    pub armed: bool,
    /// One u32, incremented when unarmed.
    pub global: DevicePtr,
}

launcher! { FaultBadSpace(self), Grid::new(1, 1), [u32 u32::from(self.armed), ptr self.global] }

/// Unarmed it adds one to global memory.
pub fn verify_fault_bad_space(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_bad_space", kernels)?;
    let global = check.buffer(&[8_u32])?;
    check.run(&FaultBadSpace { armed: false, global: global.device_ptr() })?;
    check.same("word", global.to_vec()?[0], 9)
}

// `fault_shared_oob`: stores a word at an offset of shared memory.

/// Stores a word in shared memory and loads it again.
#[derive(Debug, Clone, Copy)]
pub struct FaultSharedOob {
    /// The offset; inside `WINDOW_BYTES` the store is harmless.
    pub offset_bytes: u32,
    pub value: u32,
    /// One u32: the loaded word.
    pub out: DevicePtr,
}

impl FaultSharedOob {
    /// Bytes of shared memory of the launch.
    pub const WINDOW_BYTES: u32 = 64;

    /// The fault: error 719 or 700. 16 MiB is beyond the shared memory window of any device.
    pub const fn armed(out: DevicePtr) -> Self {
        Self { offset_bytes: 16 << 20, value: 0, out }
    }
}

launcher! {
    FaultSharedOob(self), Grid::new(1, 1).with_shared(Self::WINDOW_BYTES),
    [u32 self.offset_bytes, u32 self.value, ptr self.out]
}

/// At the last word of its window it stores and loads.
pub fn verify_fault_shared_oob(kernels: &KernelSet) -> Result<(), VerifyError> {
    let offset_bytes = FaultSharedOob::WINDOW_BYTES - 4;
    ends_with("fault_shared_oob", kernels, 5, |out| FaultSharedOob { offset_bytes, value: 5, out })
}

// `fault_printf`: prints lines from the device.

/// Prints lines; they go to the process's standard output when it synchronises.
#[derive(Debug, Clone, Copy)]
pub struct FaultPrintf {
    pub lines: u32,
    /// One u32, set to one when the kernel reaches its end.
    pub done: DevicePtr,
    pub grid: Grid,
}

impl FaultPrintf {
    /// Smallest size of one line in the ring buffer: three numbers of four bytes.
    const LINE_BYTES: u32 = 12;

    /// The fault: twice as many lines as a ring buffer of `ring_bytes` holds.
    pub const fn armed(ring_bytes: u32, done: DevicePtr) -> Self {
        let lines = 2 * (ring_bytes / (Self::LINE_BYTES * 1024)) + 2;
        Self { lines, done, grid: Grid::new(4, 256) }
    }
}

launcher! { FaultPrintf(self), self.grid, [u32 self.lines, ptr self.done] }

/// With nothing to print it reaches its end.
pub fn verify_fault_printf(kernels: &KernelSet) -> Result<(), VerifyError> {
    let grid = Grid::new(2, 32);
    ends_with("fault_printf", kernels, 1, |done| FaultPrintf { lines: 0, done, grid })
}

// `fault_hang`: runs until a flag is set or its budget is spent.

/// Runs until a flag is set.
#[derive(Debug, Clone, Copy)]
pub struct FaultHang {
    /// One u32, best in pinned host memory: any value but zero ends the kernel.
    pub flag: DevicePtr,
    /// The time limit after which it ends by itself.
    pub budget_ns: u64,
    /// Room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    pub grid: Grid,
}

launcher! {
    FaultHang(self), self.grid, [ptr self.flag, u64 self.budget_ns, ptr self.stamps]
        => Cost::busy(self.budget_ns, self.budget_ns, self.grid)
}

/// A flag ends it at once, and the budget ends it without a flag.
pub fn verify_fault_hang(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_hang", kernels)?;
    let grid = Grid::new(2, 32);
    for (raised, budget_ns) in [(1_u32, u64::MAX), (0, 3_000)] {
        let flag = check.buffer(&[raised])?;
        let stamps = check.zeros::<u64>(4)?;
        let (flag_at, stamps_at) = (flag.device_ptr(), stamps.device_ptr());
        check.run(&FaultHang { flag: flag_at, budget_ns, stamps: stamps_at, grid })?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            let at_least_ns = if raised == 1 { 0 } else { budget_ns };
            check.lasted("a block", pair[0], pair[1], at_least_ns)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armed_it_needs_more_than_the_stack() {
        for stack_bytes in [0, 1024, 1 << 19] {
            let depth = FaultStack::armed(stack_bytes, DevicePtr::NULL).depth;
            assert!(depth * FaultStack::FRAME_BYTES > stack_bytes);
        }
    }

    #[test]
    fn armed_it_prints_more_than_the_ring_holds() {
        for ring_bytes in [0, 1 << 20, 64 << 20] {
            let flood = FaultPrintf::armed(ring_bytes, DevicePtr::NULL);
            let bytes = flood.grid.total_threads() * u64::from(flood.lines * 12);
            assert!(bytes > u64::from(ring_bytes), "{ring_bytes}");
        }
    }
}
