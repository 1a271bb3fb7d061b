//! Repeated reads of a buffer that stays in L2.

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError, Grid};
use gpubench_kernels::kernel::VECTOR_BYTES;
use gpubench_kernels::kernel::l2_stream::L2Stream;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::params::spec;
use super::{Gpu, Knob, LoadError, Params, Prepared};

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// A sum that a zeroed buffer does not give, so that no thread ever writes.
pub(super) const NO_SUCH_SUM: u64 = 0x9e37_79b9_7f4a_7c15;

/// Request length in passes over the buffer.
pub(super) const PASSES_KNOB: Knob = Knob { param: "passes", granule: 1, max: u32::MAX as u64 };

/// Parameters before calibration.
pub(super) fn reads_spec(name: &str, blocks: u64, buffer_bytes: u64) -> WorkloadSpec {
    let threads = THREADS.into();
    spec(
        name,
        [("blocks", blocks), ("threads", threads), ("passes", 1), ("buffer_bytes", buffer_bytes)],
    )
}

/// Bytes of a buffer that occupies a fraction of L2; an error where the device has no L2.
pub(super) fn buffer_bytes(
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
pub(super) struct L2Reads {
    /// The buffer of the launch; held so that it stays allocated.
    _buffer: DeviceBuffer<u64>,
    hits: DeviceBuffer<u32>,
    launch: L2Stream,
}

impl L2Reads {
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
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
        Ok(Self { _buffer: buffer, hits, launch })
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

    fn work_per_request(&self) -> f64 {
        self.launch.cost().l2_bytes as f64
    }
}

/// The kernel has its own check. Here, every thread of a request must compute the sum of its part
/// of a zeroed buffer, and no other sum.
pub(super) fn verify_reads(workload: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
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
