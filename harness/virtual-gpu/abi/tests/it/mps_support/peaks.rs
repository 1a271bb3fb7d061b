//! Peak rates of a client without neighbours, in units of work per nanosecond of device time.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;

use crate::driver_support::ok;

use super::Error;
use super::blocks::device_ns;
use super::client::{CHAIN, alloc, kernel, launch};

const COPY_TEXT: &str = Kernel::StreamCopy.info().ptx;
const ITERATIONS: u64 = 200;
/// Launches queued together, so that the first one's latency counts for little.
const LAUNCHES: usize = 16;
const PINNED_MIB: u64 = 64;

fn repeat(mut launch: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    (0..LAUNCHES).try_for_each(|_| launch())
}

/// Copies in DRAM, multiply-adds, copies to the device and to the host.
pub fn peaks(blocks: u32, threads: u32, window_mib: u64) -> Result<String, Error> {
    let memory = |mib| alloc(mib).map_err(|code| format!("CUresult {code}"));
    let (to, from, out) = (memory(window_mib)?, memory(window_mib)?, memory(64)?);
    let (copy, chain) = (kernel((COPY_TEXT, "stream_copy"))?, kernel(CHAIN)?);
    let window_bytes = window_mib << 20;
    let args = &mut [to, from, window_bytes / 16];
    let copied_ns =
        device_ns(null_mut(), || repeat(|| ok(launch(copy, blocks, threads, null_mut(), args))))?;

    // Each is a multiplication and an addition; the text of the loop holds one iteration.
    let flops = 2 * CHAIN.0.matches("fma.rn.f32").count() as u64 * ITERATIONS;
    let (half, one) = (0.5_f32.to_bits().into(), 1_f32.to_bits().into());
    let work = &mut [out, ITERATIONS, half, one];
    let chained_ns =
        device_ns(null_mut(), || repeat(|| ok(launch(chain, blocks, threads, null_mut(), work))))?;

    let bytes = (PINNED_MIB << 20) as usize;
    let mut host: *mut c_void = null_mut();
    // SAFETY: a valid pointer, and memory of these sizes.
    let (pushed_ns, pulled_ns) = unsafe {
        ok(cuMemHostAlloc(&raw mut host, bytes, 0))?;
        let device = memory(PINNED_MIB)?;
        (
            device_ns(null_mut(), || ok(cuMemcpyHtoDAsync_v2(device, host, bytes, null_mut())))?,
            device_ns(null_mut(), || ok(cuMemcpyDtoHAsync_v2(host, device, bytes, null_mut())))?,
        )
    };
    let times = LAUNCHES as f64;
    let lanes = f64::from(blocks) * f64::from(threads);
    Ok(format!(
        "{} {} {} {}",
        2.0 * times * window_bytes as f64 / copied_ns,
        times * lanes * flops as f64 / chained_ns,
        bytes as f64 / pushed_ns,
        bytes as f64 / pulled_ns
    ))
}
