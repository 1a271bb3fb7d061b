//! Shared by tests of stream waits: work of a known duration with timestamps, words that host and
//! device share, and comparison kinds.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;

use super::*;

/// `CUstreamWaitValue_flags` (cuda.h).
pub const GEQ: u32 = 0;
pub const EQ: u32 = 1;
pub const AND: u32 = 2;
pub const NOR: u32 = 3;

/// Duration of one spin.
pub const STEP_NS: u64 = 2_000_000;

/// A spin of one step that stores its start and end at `stamps`.
pub fn spin(stream: Handle, stamps: u64) -> Result<(), Error> {
    let spin = function(SPIN, "spin")?;
    ok(launch(
        spin,
        1,
        32,
        stream,
        &mut [STEP_NS, 9 * STEP_NS, stamps],
    ))
}

/// Start and end of `count / 2` spins with stamps at this address, two each.
pub fn stamps(at: u64, count: usize) -> Result<Vec<u64>, Error> {
    let mut out = vec![0_u64; 2 * count];
    // SAFETY: a buffer of that size.
    unsafe { ok(cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), at, 16 * count)) }?;
    Ok(out)
}

/// A zeroed word that host and device share.
pub fn pinned() -> Result<(&'static AtomicU32, u64), Error> {
    let mut pointer = null_mut();
    // SAFETY: a valid pointer; the memory is zeroed, aligned, and never freed.
    unsafe {
        ok(cuMemHostAlloc(&raw mut pointer, 4096, 0))?;
        Ok((&*pointer.cast::<AtomicU32>(), pointer as u64))
    }
}
