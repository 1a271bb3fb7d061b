//! What a client measures block by block: the device time of a few pieces of work alone, then of
//! the same beside a client that leans on the device meanwhile.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu::abi::cuda::calls::*;
use gpubench_virtual_gpu::abi::handles::Handle;
use gpubench_virtual_gpu::device::Device;

use super::Error;
use super::client::{CHAIN, alloc, kernel, launch, ok};

const L2: (&str, &str) = (
    include_str!("../../../../kernels/ptx/l2_stream.ptx"),
    "l2_stream",
);

/// A block begins so often; the second phase begins and the leaning lasts so long after that. What
/// is queued by then goes on for a while: it must be over when the next block begins.
pub const BLOCK_NS: u64 = 40_000_000;
const BESIDE_NS: u64 = 16_000_000;
const LEANING_NS: std::ops::Range<u64> = 15_000_000..28_000_000;

/// Pieces of work in a phase; and in the queue of whoever leans, who must never be without.
const PIECES: usize = 4;

/// Some work for the null stream, a millisecond or so.
enum Work {
    /// Writes this much device memory: DRAM.
    Pour { to: u64, words: usize },
    /// Reads a buffer in L2 again and again.
    L2 { function: Handle, args: Vec<u64> },
    /// Copies pinned memory to the device: the link.
    Push { to: u64, from: usize, bytes: usize },
    /// Arithmetic on this many blocks: SMs and power.
    Chain {
        function: Handle,
        grid: u32,
        args: Vec<u64>,
    },
}

impl Work {
    fn new(text: &str) -> Result<Self, Error> {
        let memory = |mib| alloc(mib).map_err(|code| format!("CUresult {code}"));
        let (name, size) = text.split_once(':').ok_or("no size")?;
        let size: u64 = size.parse()?;
        Ok(match name {
            "pour" => Self::Pour {
                to: memory(size)?,
                words: (size << 18) as usize,
            },
            "l2" => {
                let (source, hits) = (memory(16)?, memory(1)?);
                let args = vec![source, 1 << 20, size, 1, hits];
                Self::L2 {
                    function: kernel(L2)?,
                    args,
                }
            }
            "push" => {
                let (to, bytes) = (memory(size)?, (size << 20) as usize);
                let mut from: *mut c_void = null_mut();
                // SAFETY: a valid place.
                ok(unsafe { cuMemHostAlloc(&raw mut from, bytes, 0) })?;
                let from = from as usize;
                Self::Push { to, from, bytes }
            }
            "chain" => {
                let (half, one) = (0.5_f32.to_bits().into(), 1_f32.to_bits().into());
                let args = vec![memory(64)?, 200, half, one];
                Self::Chain {
                    function: kernel(CHAIN)?,
                    grid: size as u32,
                    args,
                }
            }
            other => return Err(format!("unknown work {other:?}").into()),
        })
    }

    fn submit(&mut self) -> Result<(), Error> {
        // SAFETY: memory of these sizes, made above.
        ok(unsafe {
            match self {
                Self::Pour { to, words } => cuMemsetD32Async(*to, 1, *words, null_mut()),
                Self::L2 { function, args } => launch(*function, 1056, 256, args),
                Self::Push { to, from, bytes } => {
                    cuMemcpyHtoDAsync_v2(*to, *from as *const c_void, *bytes, null_mut())
                }
                Self::Chain {
                    function,
                    grid,
                    args,
                } => launch(*function, *grid, 256, args),
            }
        })
    }
}

fn event() -> Result<Handle, Error> {
    let mut event: Handle = null_mut();
    // SAFETY: a valid place.
    ok(unsafe { cuEventCreate(&raw mut event, 0) })?;
    Ok(event)
}

/// Device time of what is submitted to the null stream.
pub fn device_ns(submit: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let (first, last, mut milliseconds) = (event()?, event()?, 0.0_f32);
    // SAFETY: valid handles and a valid place.
    unsafe {
        ok(cuEventRecord(first, null_mut()))?;
        submit()?;
        ok(cuEventRecord(last, null_mut()))?;
        ok(cuCtxSynchronize())?;
        ok(cuEventElapsedTime(&raw mut milliseconds, first, last))?;
        ok(cuEventDestroy_v2(first))?;
        ok(cuEventDestroy_v2(last))?;
    }
    Ok(f64::from(milliseconds) * 1e6)
}

/// Measures both phases of so many blocks; says their device times in nanoseconds, in order.
pub fn measure(device: &Device, work: &str, count: u64, begin_ms: u64) -> Result<String, Error> {
    let mut work = Work::new(work)?;
    let mut said = Vec::new();
    for block in 0..count {
        let begin_ns = begin_ms * 1_000_000 + block * BLOCK_NS;
        for phase_ns in [0, BESIDE_NS] {
            device.sleep_until(begin_ns + phase_ns)?;
            let took_ns = device_ns(|| (0..PIECES).try_for_each(|_| work.submit()))?;
            said.push(format!("{took_ns:.0}"));
        }
        if device.now_ns() > begin_ns + LEANING_NS.end {
            return Err(format!("block {block} is longer than the leaning: {said:?}").into());
        }
    }
    Ok(said.join(" "))
}

/// Keeps the device busy during the second phase of so many blocks.
pub fn lean(device: &Device, work: &str, count: u64, begin_ms: u64) -> Result<String, Error> {
    let mut work = Work::new(work)?;
    let events: Vec<Handle> = (0..PIECES).map(|_| event()).collect::<Result<_, _>>()?;
    for block in 0..count {
        let begin_ns = begin_ms * 1_000_000 + block * BLOCK_NS;
        device.sleep_until(begin_ns + LEANING_NS.start)?;
        let mut pieces = 0;
        while pieces < PIECES || device.now_ns() < begin_ns + LEANING_NS.end {
            let mark = events[pieces % PIECES];
            // SAFETY: valid handles.
            unsafe {
                ok(cuEventSynchronize(mark))?;
                work.submit()?;
                ok(cuEventRecord(mark, null_mut()))?;
            }
            pieces += 1;
        }
        // SAFETY: plain call.
        ok(unsafe { cuCtxSynchronize() })?;
        if device.now_ns() > begin_ns + BLOCK_NS {
            return Err(format!("block {block}: the leaning lasts into the next one").into());
        }
    }
    Ok("0".to_owned())
}

/// What a launch costs the host, in nanoseconds, over so many.
pub fn launches(device: &Device, count: u64) -> Result<String, Error> {
    let out = alloc(64).map_err(|code| format!("CUresult {code}"))?;
    let function = kernel(CHAIN)?;
    let shoot = || ok(launch(function, 1, 32, &mut [out, 1, 0, 0]));
    shoot()?;
    let begun_ns = device.now_ns();
    for _ in 0..count {
        shoot()?;
    }
    let per_launch = (device.now_ns() - begun_ns) as f64 / count as f64;
    Ok(format!("{per_launch:.1}"))
}
