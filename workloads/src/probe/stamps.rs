//! Stamps of the device's clock: the smallest launch that records when it ran.

use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, DriverError, Grid};
use gpubench_kernels::kernel::block_trace::{BlockTrace, ROW_WORDS, decode};
use gpubench_kernels::{Kernel, Launcher};

use crate::load::Gpu;

/// One warp, of which one thread reads the clock once.
const GRID: Grid = Grid::new(1, 32);
/// Longest run of the kernel, whatever the clock does.
const BUDGET_NS: u64 = 1_000_000;

/// An array of stamps on the device.
pub(super) struct Stamps {
    rows: DeviceBuffer<u64>,
}

impl Stamps {
    /// Allocates empty stamps and loads the kernel, so that the first stamp does not load it.
    pub(super) fn new(gpu: &Gpu, count: usize) -> Result<Self, DriverError> {
        gpu.kernels.prepare(&[Kernel::BlockTrace])?;
        let rows = DeviceBuffer::from_slice(&gpu.context, &vec![u64::MAX; count * ROW_WORDS])?;
        Ok(Self { rows })
    }

    /// Number of stamps that fit.
    fn capacity(&self) -> usize {
        self.rows.len() / ROW_WORDS
    }

    /// Queues a stamp into one slot.
    pub(super) fn put(&self, gpu: &Gpu, at: usize) -> Result<(), DriverError> {
        let row_bytes = (ROW_WORDS * size_of::<u64>()) as u64;
        let launch = BlockTrace {
            rows: self.rows.device_ptr().offset_bytes(at as u64 * row_bytes),
            gaps: DevicePtr::NULL,
            gap_capacity: 0,
            spin_ns: 0,
            budget_ns: BUDGET_NS,
            gap_threshold_ns: u64::MAX,
            grid: GRID,
        };
        launch.launch(&gpu.kernels, &gpu.stream)
    }

    /// Reads the first `count` stamps.
    pub(super) fn read(&self, count: usize) -> Result<Vec<u64>, DriverError> {
        let mut words = vec![0; count.min(self.capacity()) * ROW_WORDS];
        self.rows.read(0, &mut words)?;
        let rows = decode(&words, &[], 0);
        Ok(rows.into_iter().map(|row| row.start_ns).collect())
    }
}
