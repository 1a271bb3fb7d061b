//! A client that runs a script: steps separated by semicolons, each of which prints one line.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::io::{BufRead, Write};
use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::device;

use crate::driver_support::{self, ok};

use super::blocks::{self, Blocks};
use super::{Error, peaks, recreate, seeds};
use crate::driver_support::call;

pub const ID: &str = "MPS_TEST_ID";
pub const SCRIPT: &str = "MPS_TEST_SCRIPT";
/// Prefix of a client's output, since the test program writes to the same stream.
pub const MARK: &str = "@ ";
/// Output of a `hold` step.
pub const HOLDING: &str = "holding";

pub(super) const CHAIN: (&str, &str) = (Kernel::Fp32Chain.info().ptx, "fp32_chain");
const SPIN: (&str, &str) = (Kernel::Spin.info().ptx, "spin");
const TRACE: (&str, &str) = (Kernel::BlockTrace.info().ptx, "block_trace");
pub(super) const STORE: (&str, &str) =
    (Kernel::FaultIllegalStore.info().ptx, "fault_illegal_store");
pub(super) const TRAP: (&str, &str) = (Kernel::FaultTrap.info().ptx, "fault_trap");

/// Threads of a block of the arithmetic kernel, and its iterations.
const CHAIN_BLOCK: u32 = 256;
const CHAIN_ITERATIONS: u64 = 25;

/// Ends this process after a time limit, so that a stuck process fails the test instead of blocking
/// it.
pub fn live_at_most(limit: std::time::Duration) {
    // SAFETY: plain call; the signal's default action ends the process.
    unsafe { libc::alarm(limit.as_secs() as u32) };
}

/// Runs the script of this process.
pub fn follow() -> Result<(), Error> {
    let id: u32 = std::env::var(ID)?.parse()?;
    let script = std::env::var(SCRIPT)?;
    let device = device().map_err(|code| format!("{code:?}"))?;
    let virtual_time = device.is_virtual_time();
    if virtual_time {
        device.join(id)?;
    }
    let mut client = Client::default();
    for step in script.split(';') {
        let words: Vec<&str> = step.split_whitespace().collect();
        if words == ["hold"] {
            hold(&device, id)?;
        } else if let Some(output) = client.step(&device, &words)? {
            print(&output)?;
        }
    }
    if virtual_time {
        device.leave()?;
    }
    Ok(())
}

fn print(text: &str) -> Result<(), Error> {
    Ok(writeln!(std::io::stdout(), "\n{MARK}{text}")?)
}

/// Leaves the clock until the test lets it continue.
fn hold(device: &Device, id: u32) -> Result<(), Error> {
    if device.is_virtual_time() {
        device.leave()?;
    }
    print(HOLDING)?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    if device.is_virtual_time() {
        device.join(id)?;
    }
    Ok(())
}

#[derive(Default)]
struct Client {
    context: usize,
}

impl Client {
    fn step(&mut self, device: &Device, words: &[&str]) -> Result<Option<String>, Error> {
        let code = match words {
            ["at", ms] => {
                device.sleep_until(ms.parse::<u64>()? * 1_000_000)?;
                return Ok(None);
            }
            ["open"] => self.open(),
            ["close"] => call!(cuCtxDestroy_v2(self.context as Handle)),
            ["die"] => {
                // SAFETY: ends this process.
                unsafe { libc::raise(libc::SIGKILL) }
            }
            // SAFETY: ends this process, like a return from main.
            ["leave"] => unsafe { libc::exit(0) },
            ["sync"] => call!(cuCtxSynchronize()),
            ["sms"] => return attribute(16).map(Some),
            ["spin", ms] => spin(ms.parse()?, true)?,
            ["busy"] => busy()?,
            ["begin", ms] => spin(ms.parse()?, false)?,
            ["store"] => fault(STORE, &mut [0x7000_0000_0000, 1])?,
            ["trap"] => fault(TRAP, &mut [1, 0])?,
            ["alloc", mib] => alloc(mib.parse()?).err().unwrap_or(0),
            ["total"] => return total().map(Some),
            ["free"] => return free().map(Some),
            ["fill"] => return Ok(Some(fill().to_string())),
            ["work", grid, until_ms] => {
                return work(device, grid.parse()?, until_ms.parse()?).map(Some);
            }
            ["measure", work, blocks] => {
                return blocks::measure(device, work, Blocks::parse(blocks)?).map(Some);
            }
            ["within", streams @ .., own, other, blocks] => {
                let blocks = Blocks::parse(blocks)?;
                return blocks::within(device, streams, [own, other], blocks).map(Some);
            }
            ["load", work, blocks] => {
                return blocks::load(device, work, Blocks::parse(blocks)?).map(Some);
            }
            ["stamps", count] => return stamps(device, count.parse()?).map(Some),
            ["peaks", blocks, threads, mib] => {
                return peaks::peaks(blocks.parse()?, threads.parse()?, mib.parse()?).map(Some);
            }
            ["recreate", kind, count] => recreate::recreate(kind, count.parse()?)?,
            ["keep", work, until_ms] => blocks::keep(device, work, until_ms.parse()?)?,
            ["green", sms] => {
                recreate::green(sms.parse()?)?;
                0
            }
            ["seeds", what, count, arguments @ ..] => {
                return seeds::play(device, what, count.parse()?, arguments).map(Some);
            }
            ["placement", blocks] => return placement(blocks.parse()?).map(Some),
            ["gaps", ms] => return gaps(ms.parse()?).map(Some),
            other => return Err(format!("unknown step {other:?}").into()),
        };
        Ok(Some(code.to_string()))
    }

    fn open(&mut self) -> i32 {
        let mut context: Handle = null_mut();
        // SAFETY: a valid pointer.
        let code = unsafe {
            match cuInit(0) {
                0 => cuCtxCreate_v2(&raw mut context, 0, 0),
                code => code,
            }
        };
        self.context = context as usize;
        code
    }
}

fn attribute(number: c_int) -> Result<String, Error> {
    let mut value = 0;
    ok!(cuDeviceGetAttribute(&raw mut value, number, 0))?;
    Ok(value.to_string())
}

/// Total memory of the device, in MiB.
fn total() -> Result<String, Error> {
    let mut bytes = 0;
    ok!(cuDeviceTotalMem_v2(&raw mut bytes, 0))?;
    Ok((bytes >> 20).to_string())
}

/// Free memory, in MiB; checks the total.
fn free() -> Result<String, Error> {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
    assert_eq!((total >> 20).to_string(), self::total()?, "both calls agree");
    Ok((free >> 20).to_string())
}

pub(super) fn alloc(mib: u64) -> Result<u64, i32> {
    let mut pointer = 0;
    match call!(cuMemAlloc_v2(&raw mut pointer, (mib << 20) as usize)) {
        0 => Ok(pointer),
        code => Err(code),
    }
}

/// All memory that can be allocated, in MiB, to 2 MiB: halves the size until the device refuses the
/// smallest.
pub(super) fn fill() -> u64 {
    let mut total = 0;
    for shift in (1..=12).rev() {
        while alloc(1 << shift).is_ok() {
            total += 1 << shift;
        }
    }
    total
}

pub(super) fn kernel((text, name): (&str, &str)) -> Result<Handle, Error> {
    driver_support::function(text, name)
}

pub(super) fn launch(
    function: Handle,
    grid: u32,
    block: u32,
    stream: Handle,
    args: &mut [u64],
) -> i32 {
    driver_support::launch_on(function, (grid, block, 0), stream, args)
}

/// Launches and waits; the first code that is not success.
fn run(function: Handle, grid: u32, block: u32, args: &mut [u64]) -> i32 {
    match launch(function, grid, block, null_mut(), args) {
        0 => call!(cuCtxSynchronize()),
        code => code,
    }
}

/// Runs a kernel; in a failed context, where it cannot be loaded, the context's error is the
/// result.
pub(super) fn fault(which: (&str, &str), args: &mut [u64]) -> Result<i32, Error> {
    match call!(cuCtxSynchronize()) {
        0 => Ok(run(kernel(which)?, 1, 32, args)),
        code => Ok(code),
    }
}

fn spin(ms: u64, wait: bool) -> Result<i32, Error> {
    let ns = ms * 1_000_000;
    let broken = call!(cuCtxSynchronize());
    if broken != 0 {
        return Ok(broken);
    }
    let (function, mut args) = (kernel(SPIN)?, [ns, 2 * ns, 0]);
    Ok(if wait {
        run(function, 1, 32, &mut args)
    } else {
        launch(function, 1, 32, null_mut(), &mut args)
    })
}

/// Keeps kernels of half a millisecond queued until one fails; returns the code. Their results are
/// not read, so in wall time a sample of their blocks suffices.
fn busy() -> Result<i32, Error> {
    const BLOCKS: u32 = 8_000_000;
    let out = alloc(1024).map_err(|code| format!("CUresult {code}"))?;
    let chain = kernel(CHAIN)?;
    loop {
        let mut code = 0;
        for _ in 0..8 {
            code = code.max(launch(chain, BLOCKS, 32, null_mut(), &mut [out, 2, 0, 0]));
        }
        code = code.max(call!(cuCtxSynchronize()));
        if code != 0 {
            return Ok(code);
        }
    }
}

/// Closed loop of kernels of different lengths: completion times in nanoseconds.
fn stamps(device: &Device, count: u32) -> Result<String, Error> {
    let out = alloc(64).map_err(|code| format!("CUresult {code}"))?;
    let chain = kernel(CHAIN)?;
    let mut done_ns = Vec::new();
    for number in 0..count {
        let grid = 40 * (1 + number % 5);
        ok(run(chain, grid, CHAIN_BLOCK, &mut [out, CHAIN_ITERATIONS, 0, 0]))?;
        done_ns.push(device.now_ns().to_string());
    }
    Ok(done_ns.join(" "))
}

/// Closed loop of an arithmetic kernel: completed launches, and the code that ended the loop.
fn work(device: &Device, grid: u32, until_ms: u64) -> Result<String, Error> {
    let out = alloc(64).map_err(|code| format!("CUresult {code}"))?;
    let chain = kernel(CHAIN)?;
    let (mul, add) = (u64::from(0.5f32.to_bits()), u64::from(1.0f32.to_bits()));
    let mut count = 0;
    while device.now_ns() < until_ms * 1_000_000 {
        let mut args = [out, CHAIN_ITERATIONS, mul, add];
        let code = run(chain, grid, CHAIN_BLOCK, &mut args);
        if code != 0 {
            return Ok(format!("{count} {code}"));
        }
        count += 1;
    }
    Ok(format!("{count} 0"))
}

/// Gaps that `block_trace` records per block.
const GAPS: usize = 64;

/// `block_trace` and its buffers.
pub(super) struct Tracer {
    function: usize,
    rows: u64,
    gaps: u64,
}

impl Tracer {
    pub fn new() -> Result<Self, Error> {
        let place = || alloc(2).map_err(|code| format!("CUresult {code}"));
        Ok(Self { function: kernel(TRACE)? as usize, rows: place()?, gaps: place()? })
    }

    /// Its rows, and the gaps of its first block.
    pub fn run(&self, blocks: u32, us: u64) -> Result<(Vec<u64>, Vec<u64>), Error> {
        let ns = us * 1_000;
        let threshold_ns = 100_000;
        let (rows, gaps) = (self.rows, self.gaps);
        let mut args = [rows, gaps, GAPS as u64, ns, 4 * ns, threshold_ns];
        ok(run(self.function as Handle, blocks, 32, &mut args))?;
        let mut row_words = vec![0u64; 4 * blocks as usize];
        let mut found = vec![0u64; 2 * GAPS];
        let bytes = row_words.len() * 8;
        ok!(cuMemcpyDtoH_v2(row_words.as_mut_ptr().cast(), rows, bytes))?;
        ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), gaps, 2 * GAPS * 8))?;
        Ok((row_words, found))
    }
}

/// First and last SM with blocks, and the number of SMs.
fn placement(blocks: u32) -> Result<String, Error> {
    let (rows, _) = Tracer::new()?.run(blocks, 100)?;
    let sms: BTreeSet<u64> = rows.chunks(4).map(|row| row[0]).collect();
    let (first, last) = (sms.first().ok_or("none")?, sms.last().ok_or("none")?);
    Ok(format!("{first} {last} {}", sms.len()))
}

/// Number of interruptions of a kernel, median gap and median time between gaps, in microseconds.
fn gaps(ms: u64) -> Result<String, Error> {
    let (rows, gaps) = Tracer::new()?.run(1, ms * 1_000)?;
    let count = rows[3] as usize;
    let pairs: Vec<(u64, u64)> =
        gaps.chunks(2).take(count).map(|pair| (pair[0], pair[1])).collect();
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).map_or(0, |ns| ns / 1000)
    };
    let away = median(pairs.iter().map(|pair| pair.1 - pair.0).collect());
    let there = median(pairs.windows(2).map(|two| two[1].0 - two[0].1).collect());
    Ok(format!("{count} {away} {there}"))
}
