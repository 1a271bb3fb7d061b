//! A client that repeatedly creates and destroys one object of each kind, so that it always holds
//! something when it is killed.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;

use crate::driver_support::ok;

use super::Error;
use super::client::{CHAIN, kernel};
use crate::driver_support::call;

/// Half a millisecond of arithmetic in which each thread writes a word; a sample of the blocks is
/// executed.
const BLOCKS: u32 = 8_000_000;
/// Launches per round, so that the device is rarely idle.
const KERNELS: usize = 8;

/// A resource of a green context; the driver's structure is opaque except for its size (cuda.h).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Resource([u8; 144]);

enum Streams {
    Plain,
    Priority,
    Green([Handle; 2]),
}

impl Streams {
    fn new(kind: &str) -> Result<Self, Error> {
        match kind {
            "plain" => Ok(Self::Plain),
            "priority" => Ok(Self::Priority),
            "green" => green(16).map(Self::Green),
            other => Err(format!("unknown streams {other:?}").into()),
        }
    }

    fn make(&self, round: usize) -> Result<Handle, Error> {
        let mut stream: Handle = null_mut();
        let place = &raw mut stream;
        // SAFETY: a valid pointer and live contexts.
        ok(unsafe {
            match self {
                Self::Plain => cuStreamCreate(place, (round % 2) as u32),
                Self::Priority => cuStreamCreateWithPriority(place, 1, -((round % 3) as i32)),
                Self::Green(greens) => stream_of(greens[round % 2], place),
            }
        })?;
        Ok(stream)
    }
}

/// Two green contexts with that many SMs each; the first becomes current.
pub fn green(sms: u32) -> Result<[Handle; 2], Error> {
    let mut whole = Resource([0; 144]);
    let (mut parts, mut rest, mut count) = ([whole; 2], whole, 2);
    let mut greens = [null_mut(); 2];
    ok!(cuInit(0))?;
    ok!(cuDeviceGetDevResource(0, (&raw mut whole).cast(), 1))?;
    let (all, rest) = ((&raw const whole).cast(), (&raw mut rest).cast());
    let parts_at = parts.as_mut_ptr().cast();
    ok!(cuDevSmResourceSplitByCount(parts_at, &raw mut count, all, rest, 0, sms))?;
    for (green, part) in greens.iter_mut().zip(&parts) {
        let mut descriptor = null_mut();
        let part = std::ptr::from_ref(part).cast();
        ok!(cuDevResourceGenerateDesc(&raw mut descriptor, part, 1))?;
        ok!(cuGreenCtxCreate(green, descriptor, 0, 1))?;
    }
    let mut context = null_mut();
    ok!(cuCtxFromGreenCtx(&raw mut context, greens[0]))?;
    ok!(cuCtxSetCurrent(context))?;
    Ok(greens)
}

/// Makes a stream of a green context, which becomes current.
unsafe fn stream_of(green: Handle, stream: *mut Handle) -> i32 {
    let mut context = null_mut();
    match call!(cuCtxFromGreenCtx(&raw mut context, green)) {
        0 => match call!(cuCtxSetCurrent(context)) {
            0 => call!(cuStreamCreate(stream, 1)),
            code => code,
        },
        code => code,
    }
}

/// A stream for each of two tenants in one process: in green contexts with that many SMs each, or
/// with different priorities.
pub fn two_streams(words: &[&str]) -> Result<[Handle; 2], Error> {
    let mut streams = [null_mut(); 2];
    match words {
        ["green", sms] => return streams_of(green(sms.parse()?)?),
        ["open"] => {}
        other => return Err(format!("unknown streams {other:?}").into()),
    }
    for (at, stream) in streams.iter_mut().enumerate() {
        ok!(cuStreamCreateWithPriority(&raw mut *stream, 1, at as i32 - 1))?;
    }
    Ok(streams)
}

/// A stream of each green context, of which the last becomes current.
pub fn streams_of(greens: [Handle; 2]) -> Result<[Handle; 2], Error> {
    let mut streams = [null_mut(); 2];
    for (green, stream) in greens.into_iter().zip(&mut streams) {
        // SAFETY: a live context and a valid pointer.
        ok(unsafe { stream_of(green, &raw mut *stream) })?;
    }
    Ok(streams)
}

/// Runs that many rounds; returns 0, since every failure is an error.
pub fn recreate(kind: &str, rounds: usize) -> Result<i32, Error> {
    let streams = Streams::new(kind)?;
    let chain = kernel(CHAIN)?;
    for round in 0..rounds {
        let stream = streams.make(round)?;
        // SAFETY: live handles and valid pointers.
        unsafe { one_of_each(stream, chain) }?;
    }
    Ok(0)
}

/// Creates and destroys one object of each kind.
unsafe fn one_of_each(stream: Handle, chain: Handle) -> Result<(), Error> {
    let (mut memory, mut pooled, mut event) = (0, 0, null_mut());
    ok!(cuMemAlloc_v2(&raw mut memory, 1 << 30))?;
    ok!(cuEventCreate(&raw mut event, 0))?;
    let mut args = [memory, 2, 0, 0];
    let mut list: Vec<*mut c_void> =
        args.iter_mut().map(|arg| std::ptr::from_mut(arg).cast()).collect();
    let (list, none) = (list.as_mut_ptr(), null_mut());
    for _ in 0..KERNELS {
        ok!(cuLaunchKernel(chain, BLOCKS, 1, 1, 32, 1, 1, 0, stream, list, none))?;
    }
    ok!(cuEventRecord(event, stream))?;
    ok!(cuMemAllocAsync(&raw mut pooled, 1 << 20, stream))?;
    ok!(cuMemsetD8Async(pooled, 0, 4096, stream))?;
    ok!(cuMemFreeAsync(pooled, stream))?;
    ok!(cuEventSynchronize(event))?;
    ok!(cuStreamSynchronize(stream))?;
    ok!(cuEventDestroy_v2(event))?;
    ok!(cuMemFree_v2(memory))?;
    ok!(cuStreamDestroy_v2(stream))
}
