//! The wider driver interface as a program uses it, in virtual time: each family of calls gives
//! right results, right codes for wrong use, and gives back what it took.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

mod batches;
mod contention;
mod cooperative;
mod graph_memory;
mod graphs;
mod host;
mod memory;
mod modules;
mod order;
mod streams;
mod waiting;
mod words;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;

use gpubench_virtual_gpu::abi::cuda::calls::*;
use gpubench_virtual_gpu::abi::handles::Handle;
use gpubench_virtual_gpu::abi::process::device;
use gpubench_virtual_gpu::machine::{Machine, Noise};
use gpubench_virtual_gpu::session::{ENV, Session, TimeMode};

type Error = Box<dyn std::error::Error>;

const COPY: &str = include_str!("../../../../kernels/ptx/stream_copy.ptx");
const SPIN: &str = include_str!("../../../../kernels/ptx/spin.ptx");

/// One device for the whole binary: the library knows one device a process. Tests take turns.
fn turn() -> std::sync::MutexGuard<'static, Option<tempfile::TempDir>> {
    static DEVICE: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);
    let mut held = DEVICE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if held.is_none() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut machine = Machine::load("turing").expect("built in");
        machine.noise = Noise::default();
        let session = Session {
            stall: std::time::Duration::from_secs(2),
            ..Session::new(TimeMode::Virtual, 1)
        };
        session.create(dir.path(), &machine).expect("a device");
        // SAFETY: under the lock, before any other thread of this binary reads the environment.
        unsafe { std::env::set_var(ENV, dir.path()) };
        *held = Some(dir);
    }
    held
}

fn ok(code: i32) -> Result<(), Error> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("CUresult {code}").into())
    }
}

/// Joins the clock, opens a context, runs the body, and cleans up. All memory has to be back
/// when the context is gone.
fn with_context(body: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let _turn = turn();
    let device = device().map_err(|code| format!("{code:?}"))?;
    device.expect(0)?;
    device.join(0)?;
    let mut context: Handle = null_mut();
    // SAFETY: valid places.
    unsafe {
        ok(cuInit(0))?;
        ok(cuCtxCreate_v2(&raw mut context, 0, 0))?;
    }
    let done = body();
    // SAFETY: the context made above.
    let destroyed = unsafe { cuCtxDestroy_v2(context) };
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

fn function(text: &str, name: &str) -> Result<Handle, Error> {
    let (mut module, mut function): (Handle, Handle) = (null_mut(), null_mut());
    let (text, name) = (CString::new(text)?, CString::new(name)?);
    // SAFETY: valid strings and places.
    unsafe {
        ok(cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
        ok(cuModuleGetFunction(
            &raw mut function,
            module,
            name.as_ptr(),
        ))?;
    }
    Ok(function)
}

fn alloc(bytes: usize) -> Result<u64, Error> {
    let mut pointer = 0;
    // SAFETY: a valid place.
    unsafe { ok(cuMemAlloc_v2(&raw mut pointer, bytes)) }?;
    Ok(pointer)
}

fn stream() -> Result<Handle, Error> {
    let mut stream: Handle = null_mut();
    // SAFETY: a valid place.
    unsafe { ok(cuStreamCreate(&raw mut stream, 1)) }?;
    Ok(stream)
}

/// Pointers to the arguments of a launch.
fn params(args: &mut [u64]) -> Vec<*mut c_void> {
    let pointers = args.iter_mut();
    pointers.map(|arg| std::ptr::from_mut(arg).cast()).collect()
}

fn launch(function: Handle, grid: u32, block: u32, stream: Handle, args: &mut [u64]) -> i32 {
    let mut params = params(args);
    let list = params.as_mut_ptr();
    // SAFETY: one pointer for each parameter; 32-bit parameters read the low half.
    unsafe {
        cuLaunchKernel(
            function,
            grid,
            1,
            1,
            block,
            1,
            1,
            0,
            stream,
            list,
            null_mut(),
        )
    }
}

/// Bytes that are free on the device.
fn free_bytes() -> Result<usize, Error> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: valid places.
    unsafe { ok(cuMemGetInfo_v2(&raw mut free, &raw mut total)) }?;
    Ok(free)
}

/// Words from device memory.
fn words(from: u64, count: usize) -> Result<Vec<u32>, Error> {
    let mut out = vec![0_u32; count];
    // SAFETY: a buffer of that size.
    unsafe { ok(cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, count * 4)) }?;
    Ok(out)
}

fn now_ns() -> Result<u64, Error> {
    Ok(device().map_err(|code| format!("{code:?}"))?.now_ns())
}
