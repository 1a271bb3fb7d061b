//! Operations that meet stream waits: fills, copies and kernels, in device and host memory.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::sync::atomic::Ordering;

use super::wait_support::{EQ, GEQ, STEP_NS, pinned, spin, stamps};
use super::*;

/// Work that writes 9 to every word of a range of 1024 bytes, from another range.
#[derive(Debug, Clone, Copy)]
enum Writer {
    Kernel,
    CopyWithin,
    CopyIn,
    Fill,
}

fn write_nines(by: Writer, stream: Handle, to: u64, nines: u64, host: u64) -> Result<(), Error> {
    // SAFETY: memory of that size on both sides, and valid handles.
    ok(unsafe {
        match by {
            Writer::Kernel => {
                let copy = function(COPY, "stream_copy")?;
                launch(copy, 1, 64, stream, &mut [to, nines, 64])
            }
            Writer::CopyWithin => cuMemcpyDtoDAsync_v2(to, nines, 1024, stream),
            Writer::CopyIn => cuMemcpyHtoDAsync_v2(to, host as *const _, 1024, stream),
            Writer::Fill => cuMemsetD32Async(to, 9, 256, stream),
        }
    })
}

#[test]
fn a_word_counts_when_its_writer_completes() -> Result<(), Error> {
    use Writer::{CopyIn, CopyWithin, Fill, Kernel};
    with_context(|| {
        let (first, second) = (stream()?, stream()?);
        let (flag, nines, at) = (alloc(2048)?, alloc(1024)?, alloc(32)?);
        let (host, host_address) = pinned()?;
        // SAFETY: memory of that size, and valid handles.
        unsafe {
            ok(cuMemsetD32_v2(nines, 9, 256))?;
            ok(cuMemcpyDtoH_v2(host_address as *mut _, nines, 1024))?;
            for by in [Kernel, CopyWithin, CopyIn, Fill] {
                ok(cuMemsetD32_v2(flag, 0, 512))?;
                spin(first, at)?;
                write_nines(by, first, flag, nines, host_address)?;
                // Bytes change when a call is made, so the word already passes. The word beside it
                // was not written.
                ok(cuStreamWaitValue32_v2(second, flag + 4, 9, EQ))?;
                spin(second, at + 16)?;
                ok(cuStreamSynchronize(second))?;
                let times = stamps(at, 2)?;
                assert!(times[2] >= times[1], "{by:?}: {times:?}");
                spin(first, at)?;
                write_nines(by, first, flag, nines, host_address)?;
                ok(cuStreamWaitValue32_v2(second, flag + 1536, 0, EQ))?;
                spin(second, at + 16)?;
                ok(cuCtxSynchronize())?;
                let times = stamps(at, 2)?;
                assert!(times[2] < times[1], "beside {by:?}: {times:?}");
            }
            // The device also writes host memory: by a copy and by a kernel.
            for by in [Kernel, CopyWithin] {
                host.store(0, Ordering::Relaxed);
                spin(first, at)?;
                match by {
                    Kernel => write_nines(by, first, host_address, nines, 0)?,
                    _ => ok(cuMemcpyDtoHAsync_v2(
                        host_address as *mut _,
                        nines,
                        4,
                        first,
                    ))?,
                }
                ok(cuStreamWaitValue32_v2(second, host_address, 9, EQ))?;
                spin(second, at + 16)?;
                ok(cuStreamSynchronize(second))?;
                let times = stamps(at, 2)?;
                assert!(times[2] >= times[1], "to the host, {by:?}: {times:?}");
            }
        }
        Ok(())
    })
}

/// Path of a stamp to the word under test.
#[derive(Debug, Clone, Copy)]
enum StampPath {
    /// The kernel stores it, in device or host memory.
    ByKernel(u64),
    /// A copy brings it to the host.
    ByCopy(u64),
}

fn stamped(path: StampPath, stream: Handle, at: u64) -> Result<(), Error> {
    match path {
        StampPath::ByKernel(word) => spin(stream, word),
        StampPath::ByCopy(word) => {
            spin(stream, at)?;
            // SAFETY: memory of that size on both sides.
            ok(unsafe { cuMemcpyDtoHAsync_v2(word as *mut _, at, 16, stream) })
        }
    }
}

#[test]
fn a_stamp_meets_a_wait_when_its_kernel_completes() -> Result<(), Error> {
    with_context(|| {
        let (first, second) = (stream()?, stream()?);
        let (at, aside, (_, host)) = (alloc(32)?, alloc(16)?, pinned()?);
        for path in [
            StampPath::ByKernel(at),
            StampPath::ByKernel(host),
            StampPath::ByCopy(host),
        ] {
            let (StampPath::ByKernel(word) | StampPath::ByCopy(word)) = path;
            for launched_first in [true, false] {
                // Later than every stamp that a kernel could store before it ran.
                let wanted = now_ns()? + STEP_NS / 2;
                if launched_first {
                    stamped(path, first, aside)?;
                }
                // SAFETY: memory of that size, and valid handles.
                unsafe {
                    ok(cuStreamWaitValue64_v2(second, word + 8, wanted, GEQ))?;
                    spin(second, at + 16)?;
                    if !launched_first {
                        stamped(path, first, aside)?;
                    }
                    // The stamps of the first stream are not read.
                    ok(cuStreamSynchronize(second))?;
                    ok(cuCtxSynchronize())?;
                }
                let from = match path {
                    StampPath::ByKernel(word) if word == at => at,
                    StampPath::ByKernel(_) => host,
                    StampPath::ByCopy(_) => aside,
                };
                let end = stamps(from, 1)?[1];
                let begin = stamps(at + 16, 1)?[0];
                assert!(end >= wanted, "{path:?}: {end} {wanted}");
                let late = begin.checked_sub(end);
                let late = late.ok_or_else(|| format!("{path:?}: {begin} before {end}"))?;
                assert!(late < 100_000, "{path:?}: late by {late} ns");
            }
        }
        Ok(())
    })
}
