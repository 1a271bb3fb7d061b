//! L2: its bandwidth, its capacity and its atomic units.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError, Grid};
use gpubench_kernels::kernel::VECTOR_BYTES;
use gpubench_kernels::kernel::memory::AtomicAdd;
use gpubench_kernels::kernel::on_chip::L2Stream;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::calibrate::DEMAND_OF_SHARE;
use super::error::{spec, whole_sms};
use super::launch::OneLaunch;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared, expected};

// Repeated reads of a buffer that stays in L2.

const THREADS: u32 = 256;

/// A sum that a zeroed buffer does not give, so that no thread ever writes.
pub(super) const NO_SUCH_SUM: u64 = 0x9e37_79b9_7f4a_7c15;

/// Parameters before calibration.
fn reads_spec(name: &str, blocks: u64, buffer_bytes: u64) -> WorkloadSpec {
    let threads = THREADS.into();
    spec(
        name,
        [("blocks", blocks), ("threads", threads), ("passes", 1), ("buffer_bytes", buffer_bytes)],
    )
}

/// Bytes of a buffer that occupies a fraction of L2; an error where the device has no L2.
fn buffer_bytes(
    workload: &'static str,
    props: &DeviceProps,
    share: f64,
    part_of_l2: f64,
) -> Result<u64, LoadError> {
    if props.l2_bytes == 0 {
        return Err(LoadError::TooSmall {
            workload,
            needs: "an L2 cache".to_owned(),
            share,
            has: "none".to_owned(),
        });
    }
    Ok(props.l2_buffer_bytes(part_of_l2))
}

/// One launch per request.
#[derive(Debug)]
struct L2Reads {
    buffer: DeviceBuffer<u64>,
    hits: DeviceBuffer<u32>,
    launch: L2Stream,
}

impl L2Reads {
    fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        Self::with_trigger(gpu, spec, NO_SUCH_SUM)
    }

    fn with_trigger(gpu: &Gpu, spec: &WorkloadSpec, trigger: u64) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let grid = params.grid(&gpu.props)?;
        let passes = params.word("passes")?;
        let bytes = whole_rows(params.size("buffer_bytes")?, grid);
        gpu.kernels.prepare(&[Kernel::L2Stream])?;
        // The driver refuses a buffer that does not fit in memory.
        let buffer = DeviceBuffer::<u64>::alloc(&gpu.context, bytes.div_ceil(8) as usize)?;
        buffer.fill_bytes(0)?;
        let hits = DeviceBuffer::from_slice(&gpu.context, &[0])?;
        let (src, hits_at) = (buffer.device_ptr(), hits.device_ptr());
        let launch = L2Stream { src, bytes, passes, trigger, hits: hits_at, grid };
        Ok(Self { buffer, hits, launch })
    }
}

/// The largest part of the buffer of which every thread reads equally much. With a remainder, the
/// threads with one more access would decide the length of a request.
fn whole_rows(buffer_bytes: u64, grid: Grid) -> u64 {
    let row_bytes = grid.total_threads() * VECTOR_BYTES;
    match buffer_bytes / row_bytes {
        0 => buffer_bytes,
        rows => rows * row_bytes,
    }
}

impl Prepared for L2Reads {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![Part::kept(&self.buffer), Part::kept(&self.hits)])
    }

    fn work_per_request(&self) -> f64 {
        self.launch.cost().l2_bytes as f64
    }
}

/// The kernel has its own check. Here, every thread of a request must compute the sum of its part
/// of a zeroed buffer, and no other sum.
fn verify_reads(workload: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    (Kernel::L2Stream.info().verify)(&gpu.kernels)?;
    let mut small = reads_spec(workload, 2, 32 << 10);
    small.params.insert("threads".to_owned(), 64);
    for (trigger, expected) in [(0, 128), (NO_SUCH_SUM, 0)] {
        let mut reads = L2Reads::with_trigger(gpu, &small, trigger)?;
        reads.step(gpu)?;
        gpu.stream.synchronize()?;
        let found = reads.hits.to_vec()?;
        if found != [expected] {
            let what = format!("{found:?} threads reached their sum, expected {expected}");
            return Err(LoadError::Wrong { workload, what });
        }
    }
    Ok(())
}

// `l2`: reads a buffer that fits in its share of L2, at most at its share of the bandwidth.

pub(super) const L2: &[Load] = &[Load {
    facts: &workload::L2,
    first_guess: first_guess_l2,
    more: More { saturating_sms: expected::sms_of_loads, ..READS.more },
    ..READS
}];

fn first_guess_l2(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let blocks = whole_sms(name, props, share)?;
    let bytes = buffer_bytes(name, props, share, DEMAND_OF_SHARE * share)?;
    Ok(reads_spec(name, blocks, bytes))
}

// `l2-stream`: reads that saturate L2 from every SM.

/// Fraction of L2 that it reads: it fits also where the cache has two halves that each keep a copy
/// of the other side's data (as on GA100 and GH100).
const STREAMED_PART: f64 = 0.4;

pub(super) const L2_STREAM: &[Load] = &[READS];

const READS: Load = Load {
    facts: &workload::L2_STREAM,
    kernel: Some(Kernel::L2Stream),
    first_guess: first_guess_l2_stream,
    setup: |gpu, spec| Ok(Box::new(L2Reads::new(gpu, spec)?)),
    verify: Some(verify_reads),
    more: More { expected: expected::L2, ..More::NONE },
};

fn first_guess_l2_stream(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let bytes = buffer_bytes(name, props, share, STREAMED_PART)?;
    let blocks = props.full_grid(THREADS).blocks.into();
    Ok(reads_spec(name, blocks, bytes))
}

// `l2-thrash`: reads of a buffer as large as L2, which evict a neighbour's data. Counter: that of
// `l2_stream`, and `lts__t_sectors_lookup_miss.sum` of the neighbour.

pub(super) const L2_THRASH: &[Load] =
    &[Load { facts: &workload::L2_THRASH, first_guess: first_guess_l2_thrash, ..READS }];

fn first_guess_l2_thrash(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let bytes = buffer_bytes(name, props, share, 1.0)?;
    Ok(reads_spec(name, props.full_grid(THREADS).blocks.into(), bytes))
}

// Atomic operations in L2: `atomic`, the victim, and `atomics`. Counter: that of `atomic_add`.
//
// They are spread over a small part of L2: enough words that no two warps wait for the same one,
// few enough that L2 holds them.

/// The words occupy this fraction of L2.
const ATOMIC_PART: u64 = 64;

pub(super) const ATOMICS: &[Load] = &Load::pair(
    [&workload::ATOMIC, &workload::ATOMICS],
    Kernel::AtomicAdd,
    [of_share, of_all],
    setup_atomics,
    [More { saturating_sms: expected::sms_of_atomics, ..ADDITIONS }, ADDITIONS],
);

const ADDITIONS: More = More { expected: expected::ATOMICS, ..More::NONE };

fn of_share(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    Ok(words_spec(name, props, whole_sms(name, props, share)?))
}

fn of_all(name: &'static str, props: &DeviceProps, _: f64) -> Guess {
    Ok(words_spec(name, props, props.full_grid(THREADS).blocks.into()))
}

fn words_spec(name: &str, props: &DeviceProps, blocks: u64) -> WorkloadSpec {
    // A power of two, as the kernel requires, and at least one for each thread of a block.
    let words = (props.l2_bytes / ATOMIC_PART / 4).max(u64::from(THREADS));
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("iterations", 100),
            ("words", 1 << words.ilog2()),
        ],
    )
}

fn setup_atomics(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let slots = params.word("words")?;
    if !slots.is_power_of_two() {
        return Err(LoadError::Param {
            workload: spec.name.clone(),
            param: "words",
            found: slots.to_string(),
            accepted: "powers of two".to_owned(),
        });
    }
    let words = DeviceBuffer::<u32>::alloc(&gpu.context, slots as usize)?;
    words.fill(0)?;
    let launch = AtomicAdd {
        words: words.device_ptr(),
        slots,
        iterations: params.word("iterations")?,
        grid,
    };
    let output = Output::None("its sums grow with every request");
    Ok(Box::new(OneLaunch::new(gpu, launch, |cost| cost.atomic_ops, output, words)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_reads_equally_much_where_the_buffer_allows_it() {
        let grid = Grid::new(160, 256);
        let row_bytes = 160 * 256 * 16;
        for (buffer_bytes, expected) in [
            (2 * row_bytes + 1_000, 2 * row_bytes),
            (row_bytes, row_bytes),
            (row_bytes - 16, row_bytes - 16),
        ] {
            assert_eq!(whole_rows(buffer_bytes, grid), expected);
        }
    }
}
