//! Figures of a device in virtual time, as a client measures them: costs of launches, lengths of
//! time slices and of the gaps between them, the rate of copies with and without another process's
//! copies, launches that a limiter admits, and contexts that a fault reaches. They are printed in
//! one line.
#![expect(unsafe_code, reason = "the driver interface is a C interface")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use gpubench_kernels::Kernel;

use crate::{Error, Out, address, check};

const EACH: u64 = 8;
/// Gaps that `block_trace` records, and the shortest one.
const GAPS: usize = 64;
const THRESHOLD_NS: u64 = 20_000;
/// Start of the first block of copies, length of a block, and the part of it in which another
/// process copies too.
pub const BEGIN_NS: u64 = 500_000_000;
const BLOCK_NS: u64 = 80_000_000;
const BESIDE_NS: u64 = 20_000_000;
const CONTEND_NS: u64 = 36_000_000;
const COPY_BYTES: usize = 192 << 20;
/// CUDA_ERROR_LAUNCH_FAILED (cuda.h), which `fault_trap` ends in.
const LAUNCH_FAILED: c_int = 719;

type Handle = *mut c_void;

/// The device's clock.
pub fn now_ns() -> Result<u64, Error> {
    // SAFETY: a function of the virtual driver with this signature.
    let now: unsafe extern "C" fn() -> u64 =
        unsafe { std::mem::transmute(address("gpubench_vt_now")?) };
    // SAFETY: plain call.
    Ok(unsafe { now() })
}

pub fn sleep_until(t_ns: u64) -> Result<(), Error> {
    call!("gpubench_vt_sleep_until": u64; t_ns)
}

pub fn open() -> Result<Handle, Error> {
    let mut context = null_mut();
    call!("cuCtxCreate_v2": Out<Handle>, u32, c_int; &raw mut context, 0, 0)?;
    Ok(context)
}

pub fn memory(bytes: usize) -> Result<u64, Error> {
    let mut at = 0;
    call!("cuMemAlloc_v2": Out<u64>, usize; &raw mut at, bytes)?;
    Ok(at)
}

pub fn sync() -> Result<(), Error> {
    call!("cuCtxSynchronize": ;)
}

pub fn kernel(text: &str, name: &str) -> Result<Handle, Error> {
    let (text, name) = (CString::new(text)?, CString::new(name)?);
    let (mut module, mut function) = (null_mut(), null_mut());
    call!("cuModuleLoadData": Out<Handle>, *const c_void; &raw mut module, text.as_ptr().cast())?;
    call!("cuModuleGetFunction": Out<Handle>, Handle, *const c_char;
        &raw mut function, module, name.as_ptr())?;
    Ok(function)
}

pub fn launch(function: Handle, grid: u32, block: u32, arguments: &mut [u64]) -> Result<(), Error> {
    let places = arguments.iter_mut().map(|at| std::ptr::from_mut(at).cast());
    let mut list: Vec<Handle> = places.collect();
    call!("cuLaunchKernel":
        Handle, u32, u32, u32, u32, u32, u32, u32, Handle, Out<Handle>, Handle;
        function, grid, 1, 1, block, 1, 1, 0, null_mut(), list.as_mut_ptr(), null_mut())
}

pub fn chain() -> Result<Handle, Error> {
    kernel(Kernel::Fp32Chain.info().ptx, "fp32_chain")
}

/// Mean costs of twenty launches each, in nanoseconds, without the cost of reading the clock.
fn launches(groups: u64) -> Result<Vec<f64>, Error> {
    const LAUNCHES: u64 = 20;
    open()?;
    let (chain, out) = (chain()?, memory(1 << 20)?);
    let read_ns = {
        let before_ns = now_ns()?;
        now_ns()? - before_ns
    };
    let mut found = Vec::new();
    for _ in 0..groups * EACH {
        let begun_ns = now_ns()?;
        for _ in 0..LAUNCHES {
            launch(chain, 1, 32, &mut [out, 1, 0, 0])?;
        }
        found.push((now_ns()? - begun_ns - read_ns) as f64 / LAUNCHES as f64);
        sync()?;
    }
    Ok(found)
}

fn time_slices(groups: u64, span_us: u64) -> Result<Vec<f64>, Error> {
    open()?;
    let text = Kernel::BlockTrace.info().ptx;
    let trace = kernel(text, "block_trace")?;
    let (rows, gaps) = (memory(1 << 20)?, memory(1 << 20)?);
    sleep_until(BEGIN_NS)?;
    let mut found = Vec::new();
    for _ in 0..groups {
        let ns = span_us * 1_000;
        launch(trace, 1, 32, &mut [rows, gaps, GAPS as u64, ns, 4 * ns, THRESHOLD_NS])?;
        sync()?;
        let mut trace_ns = [0u64; 2 * GAPS];
        call!("cuMemcpyDtoH_v2": Out<c_void>, u64, usize;
            trace_ns.as_mut_ptr().cast(), gaps, size_of_val(&trace_ns))?;
        // Before the first gap and after the last one a time slice is not whole.
        let stamps = trace_ns[1..].windows(2).take(2 * EACH as usize);
        found.extend(stamps.map(|two| two[1] as f64 - two[0] as f64));
    }
    Ok(found)
}

fn events() -> Result<[Handle; 2], Error> {
    let mut marks = [null_mut(); 2];
    for mark in &mut marks {
        call!("cuEventCreate": Out<Handle>, u32; &raw mut *mark, 0)?;
    }
    Ok(marks)
}

fn record(mark: Handle) -> Result<(), Error> {
    call!("cuEventRecord": Handle, Handle; mark, null_mut())
}

/// Keeps two pieces of work in the queue until an instant.
fn queue(
    marks: [Handle; 2],
    until_ns: u64,
    mut submit: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    for mark in marks.into_iter().cycle() {
        call!("cuEventSynchronize": Handle; mark)?;
        if now_ns()? > until_ns {
            break;
        }
        submit()?;
        record(mark)?;
    }
    sync()
}

/// Keeps the device busy with arithmetic until an instant.
fn keep(until_ms: u64) -> Result<Vec<f64>, Error> {
    open()?;
    let (chain, out) = (chain()?, memory(64 << 20)?);
    queue(events()?, until_ms * 1_000_000, || launch(chain, 9_600, 256, &mut [out, 200, 0, 0]))?;
    Ok(Vec::new())
}

/// Copies of pinned memory to the device.
struct Copies {
    to: u64,
    from: *mut c_void,
    marks: [Handle; 2],
}

impl Copies {
    fn new() -> Result<Self, Error> {
        open()?;
        let (mut from, marks) = (null_mut(), events()?);
        call!("cuMemHostAlloc": Out<Handle>, usize, u32; &raw mut from, COPY_BYTES, 0)?;
        let to = memory(COPY_BYTES)?;
        Ok(Self { to, from, marks })
    }

    fn submit(&self) -> Result<(), Error> {
        call!("cuMemcpyHtoDAsync_v2": u64, *const c_void, usize, Handle;
            self.to, self.from.cast_const(), COPY_BYTES, null_mut())
    }

    fn timed_ms(&self) -> Result<f64, Error> {
        record(self.marks[0])?;
        self.submit()?;
        record(self.marks[1])?;
        sync()?;
        let mut ms = 0.0_f32;
        call!("cuEventElapsedTime": Out<f32>, Handle, Handle;
            &raw mut ms, self.marks[0], self.marks[1])?;
        Ok(f64::from(ms))
    }

    /// The fraction of its rate that a copy keeps beside another process's copies.
    fn kept(&self, blocks: u64) -> Result<Vec<f64>, Error> {
        let two_ms = |begin_ns| -> Result<f64, Error> {
            sleep_until(begin_ns)?;
            // The first copy can start in the middle of the other process's copy.
            self.timed_ms()?;
            Ok(self.timed_ms()? + self.timed_ms()?)
        };
        let mut found = Vec::new();
        for block in 0..blocks {
            let begin_ns = BEGIN_NS + block * BLOCK_NS;
            let alone_ms = two_ms(begin_ns)?;
            found.push(alone_ms / two_ms(begin_ns + BESIDE_NS)?);
        }
        Ok(found)
    }

    /// Keeps copies in the queue while another process measures its copies.
    fn contend(&self, blocks: u64) -> Result<Vec<f64>, Error> {
        for block in 0..blocks {
            let begin_ns = BEGIN_NS + block * BLOCK_NS + BESIDE_NS - 1_000_000;
            sleep_until(begin_ns)?;
            queue(self.marks, begin_ns + CONTEND_NS, || self.submit())?;
        }
        Ok(Vec::new())
    }
}

/// The number of other contexts that a fault reaches.
fn escapes(groups: u64, trials: u64, victims: u64) -> Result<Vec<f64>, Error> {
    let mut found = Vec::new();
    for _ in 0..groups {
        let mut reached = 0;
        for _ in 0..trials {
            let others: Vec<Handle> = (0..victims).map(|_| open()).collect::<Result<_, _>>()?;
            let culprit = open()?;
            let text = Kernel::FaultTrap.info().ptx;
            launch(kernel(text, "fault_trap")?, 1, 32, &mut [1, 0])?;
            if sync().is_ok() {
                return Err("the culprit gets no error".into());
            }
            for context in others.into_iter().chain([culprit]) {
                call!("cuCtxSetCurrent": Handle; context)?;
                reached += u64::from(is_broken()?);
                call!("cuCtxDestroy_v2": Handle; context)?;
            }
        }
        // The culprits themselves do not count.
        found.push((reached - trials) as f64);
    }
    Ok(found)
}

fn is_broken() -> Result<bool, Error> {
    // SAFETY: the driver's function of that name has this signature.
    let code = unsafe {
        let sync: unsafe extern "C" fn() -> c_int =
            std::mem::transmute(address("cuCtxSynchronize")?);
        sync()
    };
    match code {
        0 => Ok(false),
        LAUNCH_FAILED => Ok(true),
        other => Err(format!("cuCtxSynchronize answers {other}").into()),
    }
}

/// Measures figures as a participant of the clock. Returns them in one line.
pub fn find(id: &str, what: &[&str]) -> Result<String, Error> {
    let id: u32 = id.parse()?;
    call!("gpubench_vt_join": u32; id)?;
    call!("cuInit": u32; 0)?;
    let numbers: Vec<u64> = what[1..].iter().map(|n| n.parse()).collect::<Result<_, _>>()?;
    let found = match (what[0], &numbers[..]) {
        ("launches", &[groups]) => launches(groups),
        ("time-slice-trace", &[groups, span_us]) => time_slices(groups, span_us),
        ("keep", &[until_ms]) => keep(until_ms),
        ("copies", &[blocks]) => Copies::new()?.kept(blocks),
        ("lean", &[blocks]) => Copies::new()?.contend(blocks),
        ("limited", &[blocks]) => limited(blocks),
        ("free", &[blocks]) => free(blocks),
        ("escapes", &[groups, trials, victims]) => escapes(groups, trials, victims),
        other => Err(format!("unknown figures {other:?}").into()),
    }?;
    call!("gpubench_vt_leave": ;)?;
    let found: Vec<String> = found.iter().map(f64::to_string).collect();
    Ok(found.join(" "))
}

// The share of a device that a limiter leaves its client: the number of kernels that it admits in
// each period, and the time of such a kernel for a client without a limit.

/// The limiter's period, which begins with the first launch.
const PERIOD_NS: u64 = 120_000_000;
/// The client without a limit starts this long after a period of the limited client, and measures
/// for this long.
const AFTER_NS: u64 = 5_000_000;
const ALONE_NS: u64 = 40_000_000;

/// A kernel that is short beside a period.
struct Work {
    chain: *mut c_void,
    out: u64,
}

impl Work {
    fn new() -> Result<Self, Error> {
        open()?;
        let (chain, out) = (chain()?, memory(64 << 20)?);
        Ok(Self { chain, out })
    }

    fn submit(&self) -> Result<(), Error> {
        launch(self.chain, 2_112, 256, &mut [self.out, 25, 0, 0])
    }
}

/// Start of a block's period. The next period belongs to the client without a limit.
const fn begin_ns(block: u64) -> u64 {
    BEGIN_NS + 2 * block * PERIOD_NS
}

/// Number of admitted kernels in each period.
pub fn limited(blocks: u64) -> Result<Vec<f64>, Error> {
    let work = Work::new()?;
    let mut found = Vec::new();
    for block in 0..blocks {
        sleep_until(begin_ns(block))?;
        let mut count = 0_u32;
        loop {
            work.submit()?;
            // A launch that was delayed to the next period counts there.
            if now_ns()? >= begin_ns(block) + PERIOD_NS {
                break;
            }
            count += 1;
            sync()?;
        }
        sync()?;
        found.push(f64::from(count));
    }
    Ok(found)
}

/// Mean time of such a kernel without a limit, in nanoseconds.
pub fn free(blocks: u64) -> Result<Vec<f64>, Error> {
    let work = Work::new()?;
    let mut found = Vec::new();
    for block in 0..blocks {
        sleep_until(begin_ns(block) + PERIOD_NS + AFTER_NS)?;
        let (begun_ns, mut count) = (now_ns()?, 0_u32);
        let mut spent_ns = 0;
        while spent_ns < ALONE_NS {
            work.submit()?;
            sync()?;
            count += 1;
            spent_ns = now_ns()? - begun_ns;
        }
        found.push(spent_ns as f64 / f64::from(count));
    }
    Ok(found)
}
