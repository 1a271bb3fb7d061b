//! Figures that a client measures under many seeds of the device's noise: time slices, durations of
//! calls, memory limits, reach of faults, recovery times.

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;

use crate::driver_support::ok;

use super::Error;
use super::blocks::reseed;
use super::client::{CHAIN, STORE, TRAP, Tracer, alloc, fault, fill, kernel, launch};
use crate::driver_support::call;

/// Figures of one kind per seed.
pub const EACH: usize = 8;

/// Measures that many seeds; returns the figures in order.
pub fn play(device: &Device, what: &str, count: u64, arguments: &[&str]) -> Result<String, Error> {
    let arguments: Vec<u64> =
        arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    ok!(cuInit(0))?;
    let mut find: Box<dyn FnMut() -> Result<Vec<f64>, Error>> = match (what, &arguments[..]) {
        ("slices", &[us]) => {
            let tracer = Tracer::new()?;
            Box::new(move || slices(&tracer, us))
        }
        ("calls", &[each, priority]) => {
            let (out, function) = (memory(64)?, kernel(CHAIN)?);
            let mut stream = null_mut();
            if priority != 0 {
                ok!(cuStreamCreateWithPriority(&raw mut stream, 1, -1))?;
            }
            let mut submit = move || launch(function, 1, 32, stream, &mut [out, 1, 0, 0]);
            Box::new(move || calls(device, each, &mut submit))
        }
        ("caps", &[]) => Box::new(caps),
        ("escapes", &[trials, victims]) => Box::new(move || escapes(trials, victims)),
        ("recoveries", &[mean_us]) => Box::new(move || recoveries(device, mean_us * 1_000)),
        other => return Err(format!("unknown figures {other:?}").into()),
    };
    let mut figures = Vec::new();
    for seed in 0..count {
        reseed(device, seed)?;
        figures.extend(find()?.iter().map(|figure| format!("{figure:.1}")));
    }
    Ok(figures.join(" "))
}

fn memory(mib: u64) -> Result<u64, Error> {
    Ok(alloc(mib).map_err(|code| format!("CUresult {code}"))?)
}

fn open() -> Result<Handle, i32> {
    let mut context: Handle = null_mut();
    match call!(cuCtxCreate_v2(&raw mut context, 0, 0)) {
        0 => Ok(context),
        code => Err(code),
    }
}

fn opened() -> Result<Handle, Error> {
    Ok(open().map_err(|code| format!("CUresult {code}"))?)
}

/// Time slices of a kernel and the gaps after them, alternating, while another process always has
/// work. In nanoseconds.
fn slices(tracer: &Tracer, us: u64) -> Result<Vec<f64>, Error> {
    let (rows, gaps) = tracer.run(1, us)?;
    let count = rows[3] as usize;
    if count <= EACH {
        return Err(format!("{count} gaps enclose fewer than {EACH} slices").into());
    }
    // The slices before the first gap and after the last one are incomplete.
    let stamps = gaps[1..].windows(2).take(2 * EACH);
    Ok(stamps.map(|two| (two[1] - two[0]) as f64).collect())
}

/// Host time of a launch in nanoseconds: means over `each` launches, less the cost of reading the
/// clock.
fn calls(device: &Device, each: u64, submit: &mut impl FnMut() -> i32) -> Result<Vec<f64>, Error> {
    let read_ns = {
        let before_ns = device.now_ns();
        device.now_ns() - before_ns
    };
    let mut found = Vec::new();
    for _ in 0..EACH {
        let begun_ns = device.now_ns();
        for _ in 0..each {
            ok(submit())?;
        }
        let took_ns = device.now_ns() - begun_ns - read_ns;
        found.push(took_ns as f64 / each as f64);
        ok!(cuCtxSynchronize())?;
    }
    Ok(found)
}

/// Memory that a context can allocate, in MiB.
fn caps() -> Result<Vec<f64>, Error> {
    let context = opened()?;
    let got = fill();
    ok!(cuCtxDestroy_v2(context))?;
    Ok(vec![got as f64])
}

/// Number of contexts that another context's fault reached, over that many faults and contexts.
fn escapes(trials: u64, victims: u64) -> Result<Vec<f64>, Error> {
    let mut reached = 0;
    for _ in 0..trials {
        let others: Vec<Handle> = (0..victims).map(|_| opened()).collect::<Result<_, _>>()?;
        let culprit = opened()?;
        let code = fault(TRAP, &mut [1, 0])?;
        if code != 719 {
            return Err(format!("the culprit gets {code}").into());
        }
        for context in others.into_iter().chain([culprit]) {
            ok!(cuCtxSetCurrent(context))?;
            reached += u64::from(call!(cuCtxSynchronize()) == code);
            ok!(cuCtxDestroy_v2(context))?;
        }
    }
    // The culprits themselves do not count.
    Ok(vec![(reached - trials) as f64])
}

/// Interval between two attempts to open a context.
const RETRY_NS: u64 = 800_000;

/// Time of refused service after the only client failed and left, in nanoseconds: halfway between
/// the last refusal and the first success.
fn recoveries(device: &Device, mean_ns: u64) -> Result<Vec<f64>, Error> {
    let mut found = Vec::new();
    for _ in 0..EACH {
        let broken = opened()?;
        // A memory fault, which no partition contains.
        fault(STORE, &mut [0x7000_0000_0000, 1])?;
        ok!(cuCtxDestroy_v2(broken))?;
        let left_ns = device.now_ns();
        let mut looked_ns = left_ns + mean_ns * 3 / 4;
        device.sleep_until(looked_ns)?;
        let next = loop {
            match open() {
                Ok(context) => break context,
                Err(807) => looked_ns += RETRY_NS,
                Err(code) => return Err(format!("CUresult {code}").into()),
            }
            device.sleep_until(looked_ns)?;
        };
        ok!(cuCtxDestroy_v2(next))?;
        found.push((looked_ns - left_ns) as f64 - RETRY_NS as f64 / 2.0);
    }
    Ok(found)
}
