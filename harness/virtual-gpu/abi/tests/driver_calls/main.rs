//! The wider driver API in virtual time: each family of calls gives correct results, documented
//! codes for wrong use, and frees what it allocated. All tests use the device of this process.

mod atomic_contention;
mod basics;
mod cooperative;
mod copies;
#[path = "../driver_support/mod.rs"]
mod driver_support;
mod error_codes;
mod graph_memory;
mod graphs;
mod grid_barrier;
mod images;
mod implicit_order;
mod memory;
mod modules;
mod streams;

use std::ptr::null_mut;
use std::sync::Mutex;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};

use driver_support::{Error, OneDevice, alloc, call, function, launch_on, ok, params, stream};

const COPY: &str = Kernel::StreamCopy.info().ptx;
const SPIN: &str = Kernel::Spin.info().ptx;

static DEVICE: OneDevice = Mutex::new(None);

/// A `turing` without noise, in virtual time, that reports a stall early.
fn quiet_turing() -> (Session, Machine) {
    let mut machine = Machine::load("turing").expect("built in");
    machine.noise = Noise::default();
    let session =
        Session { stall: std::time::Duration::from_secs(2), ..Session::new(TimeMode::Virtual, 1) };
    (session, machine)
}

/// Joins the clock, opens a context, runs the body, and cleans up. All memory must be free after
/// the context is destroyed.
fn with_context(body: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let _lock = driver_support::lock(&DEVICE, quiet_turing);
    let device = device().map_err(|code| format!("{code:?}"))?;
    device.expect(0)?;
    device.join(0)?;
    let mut context: Handle = null_mut();
    ok!(cuInit(0))?;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0))?;
    let done = body();
    let destroyed = call!(cuCtxDestroy_v2(context));
    let left = device.transact(|state, _| {
        let allocations = state.allocations.live().iter().filter(|a| a.live).count();
        let streams = state.streams.live().iter().filter(|s| s.live).count();
        (allocations, streams)
    });
    device.leave()?;
    done?;
    ok(destroyed)?;
    assert_eq!(left?, (0, 0), "allocations and streams left behind");
    Ok(())
}

fn launch(function: Handle, grid: u32, block: u32, stream: Handle, args: &mut [u64]) -> i32 {
    launch_on(function, (grid, block, 0), stream, args)
}

fn free_bytes() -> Result<usize, Error> {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
    Ok(free)
}

/// Words from device memory.
fn words(from: u64, count: usize) -> Result<Vec<u32>, Error> {
    let mut out = vec![0_u32; count];
    ok!(cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, count * 4))?;
    Ok(out)
}
