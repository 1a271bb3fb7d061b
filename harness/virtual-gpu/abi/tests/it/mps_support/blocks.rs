//! Measurements in blocks: the device time of a few pieces of work without a neighbour, then beside
//! a client that loads the device. The seed of the device's noise changes every few blocks, as if
//! the device had been created with that seed.

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;

use super::work::Work;
use super::{Error, recreate};
use crate::driver_support::{call, ok};

/// Interval between blocks, and from the start of a block to its second phase. Queued work
/// continues for a while and must be over when the next block begins.
pub const BLOCK_NS: u64 = 80_000_000;
const BESIDE_NS: u64 = 20_000_000;
/// The load starts this long before the second phase.
const AHEAD_NS: u64 = 1_000_000;

/// Pieces of work in a phase, and in the queue of the load, which must never be empty.
const PIECES: usize = 2;

/// The blocks that a client runs, and the number of blocks per seed.
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    pub count: u64,
    pub begin_ms: u64,
    pub load_ms: u64,
    /// 0 keeps the device's own seed.
    pub per_seed: u64,
}

impl Blocks {
    /// Format: `COUNTxPER_SEED@BEGIN_MS+LOAD_MS`
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (blocks, times) = text.split_once('@').ok_or("no @")?;
        let (count, per_seed) = blocks.split_once('x').ok_or("no x")?;
        let (begin_ms, load_ms) = times.split_once('+').ok_or("no +")?;
        Ok(Self {
            count: count.parse()?,
            per_seed: per_seed.parse()?,
            begin_ms: begin_ms.parse()?,
            load_ms: load_ms.parse()?,
        })
    }

    fn begins(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.count).map(move |block| (block, self.begin_ms * 1_000_000 + block * BLOCK_NS))
    }

    /// The span of the load in the block that begins at `begin_ns`.
    const fn load_span(self, begin_ns: u64) -> std::ops::Range<u64> {
        let from_ns = begin_ns + BESIDE_NS - AHEAD_NS;
        from_ns..from_ns + self.load_ms * 1_000_000
    }
}

pub fn reseed(device: &Device, seed: u64) -> Result<(), Error> {
    Ok(device.transact(|state, _| state.seed = 1_000 + seed)?)
}

fn event() -> Result<Handle, Error> {
    let mut event: Handle = null_mut();
    ok!(cuEventCreate(&raw mut event, 0))?;
    Ok(event)
}

/// Device time of the work that `submit` queues.
pub fn device_ns(stream: Handle, submit: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let (first, last, mut milliseconds) = (event()?, event()?, 0.0_f32);
    ok!(cuEventRecord(first, stream))?;
    submit()?;
    ok!(cuEventRecord(last, stream))?;
    ok!(cuEventSynchronize(last))?;
    ok!(cuEventElapsedTime(&raw mut milliseconds, first, last))?;
    ok!(cuEventDestroy_v2(first))?;
    ok!(cuEventDestroy_v2(last))?;
    Ok(f64::from(milliseconds) * 1e6)
}

/// Time of a phase: pieces queued together, or one by one. One by one, the first piece is not
/// counted, since it starts at a random point of the neighbour's copy.
fn phase_ns(work: &mut Work, one_by_one: bool) -> Result<f64, Error> {
    let stream = work.stream;
    if !one_by_one {
        return device_ns(stream, || (0..PIECES).try_for_each(|_| work.submit()));
    }
    device_ns(stream, || work.submit())?;
    (0..PIECES).map(|_| device_ns(stream, || work.submit())).sum()
}

/// Parses a name of work; a `1` at its end means one by one.
fn named(work: &str) -> Result<(String, bool), Error> {
    let (name, size) = work.split_once(':').ok_or("no size")?;
    let (name, one_by_one) = name.strip_suffix('1').map_or((name, false), |n| (n, true));
    Ok((format!("{name}:{size}"), one_by_one))
}

/// Measures both phases of every block; returns their device times in nanoseconds, in order.
pub fn measure(device: &Device, work: &str, blocks: Blocks) -> Result<String, Error> {
    let (work, one_by_one) = named(work)?;
    let mut work = Work::new(&work, null_mut())?;
    let mut times = Vec::new();
    for (block, begin_ns) in blocks.begins() {
        device.sleep_until(begin_ns)?;
        if blocks.per_seed > 0 && block % blocks.per_seed == 0 {
            reseed(device, block / blocks.per_seed)?;
        }
        for phase_ns_after in [0, BESIDE_NS] {
            device.sleep_until(begin_ns + phase_ns_after)?;
            times.push(format!("{:.0}", phase_ns(&mut work, one_by_one)?));
        }
        if device.now_ns() > blocks.load_span(begin_ns).end {
            return Err(format!("block {block} is longer than the load: {times:?}").into());
        }
    }
    Ok(times.join(" "))
}

/// Both phases of every block in one process with two tenants. In the second phase the other stream
/// always has more work queued than the measured one, or two copies before each of its own.
pub fn within(
    device: &Device,
    streams: &[&str],
    [measured, load_span]: [&str; 2],
    blocks: Blocks,
) -> Result<String, Error> {
    let [own, other] = recreate::two_streams(streams)?;
    let (work, one_by_one) = named(measured)?;
    let (mut work, mut other_work) = (Work::new(&work, own)?, Work::new(load_span, other)?);
    let mut times = Vec::new();
    for (block, begin_ns) in blocks.begins() {
        device.sleep_until(begin_ns)?;
        if blocks.per_seed > 0 && block % blocks.per_seed == 0 {
            reseed(device, block / blocks.per_seed)?;
        }
        times.push(phase_ns(&mut work, one_by_one)?);
        let mut beside_ns = 0.0;
        if one_by_one {
            for _ in 0..PIECES {
                (0..PIECES).try_for_each(|_| other_work.submit())?;
                beside_ns += device_ns(own, || work.submit())?;
            }
        } else {
            (0..4 * PIECES).try_for_each(|_| other_work.submit())?;
            beside_ns = phase_ns(&mut work, false)?;
            // It must still be at work (CUDA_ERROR_NOT_READY, cuda.h).
            let queried = call!(cuStreamQuery(other));
            if queried != 600 {
                return Err(format!(
                    "block {block}: cuStreamQuery of the other stream returned {queried}"
                )
                .into());
            }
        }
        times.push(beside_ns);
        ok!(cuCtxSynchronize())?;
        if device.now_ns() > begin_ns + BLOCK_NS {
            return Err(format!("block {block} lasts into the next one: {times:?}").into());
        }
    }
    let times: Vec<String> = times.iter().map(|ns| format!("{ns:.0}")).collect();
    Ok(times.join(" "))
}

pub fn load(device: &Device, work: &str, blocks: Blocks) -> Result<String, Error> {
    let mut load = Load::new(work)?;
    for (block, begin_ns) in blocks.begins() {
        let load_span = blocks.load_span(begin_ns);
        device.sleep_until(load_span.start)?;
        load.run(device, load_span.end)?;
        if device.now_ns() > begin_ns + BLOCK_NS {
            return Err(format!("block {block}: the load lasts into the next one").into());
        }
    }
    Ok("0".to_owned())
}

/// Loads the device until then.
pub fn keep(device: &Device, work: &str, until_ms: u64) -> Result<i32, Error> {
    Load::new(work)?.run(device, until_ms * 1_000_000)?;
    Ok(0)
}

/// Work of which a piece is always queued.
struct Load {
    work: Work,
    marks: Vec<Handle>,
}

impl Load {
    fn new(work: &str) -> Result<Self, Error> {
        Ok(Self {
            work: Work::new(work, null_mut())?,
            marks: (0..PIECES).map(|_| event()).collect::<Result<_, _>>()?,
        })
    }

    fn run(&mut self, device: &Device, until_ns: u64) -> Result<(), Error> {
        let mut pieces = 0;
        while pieces < PIECES || device.now_ns() < until_ns {
            let mark = self.marks[pieces % PIECES];
            ok!(cuEventSynchronize(mark))?;
            self.work.submit()?;
            ok!(cuEventRecord(mark, null_mut()))?;
            pieces += 1;
        }
        ok!(cuCtxSynchronize())
    }
}
