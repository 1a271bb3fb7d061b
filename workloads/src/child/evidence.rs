//! Evidence from inside a tenant that a mechanism is in force: its memory, the SMs on which it
//! runs, and the library that implements its calls.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{Context, DeviceBuffer, Driver, DriverError, Grid};
use gpubench_kernels::kernel::block_trace::{BlockTrace, ROW_WORDS, decode};

use crate::load::Gpu;

/// How long each block occupies its SM, so that the next block runs on another one.
const STAY_NS: u64 = 5_000;
/// Blocks for each SM visible to the context.
const BLOCKS_PER_SM: u32 = 2;
/// Threads per block: one warp, of which one thread reads the SM's number.
const THREADS: u32 = 32;

/// Adds the facts that need a context.
pub(super) fn add_facts(
    driver: &Driver,
    context: &Context,
    facts: &mut BTreeMap<String, String>,
) -> Result<(), DriverError> {
    let memory = context.mem_info()?;
    facts.insert("memory_total_bytes".to_owned(), memory.total_bytes.to_string());
    facts.insert("memory_free_bytes".to_owned(), memory.free_bytes.to_string());
    // Without it the proof lacks this evidence and reports so.
    if let Some(file) = driver.allocator_file() {
        facts.insert("allocator_file".to_owned(), file);
    }
    Ok(())
}

/// The SMs on which the blocks of one launch ran, ascending and without duplicates.
pub(super) fn sms(gpu: &Gpu) -> Result<Vec<u32>, DriverError> {
    let grid = Grid::new(gpu.props.sm_count.max(1) * BLOCKS_PER_SM, THREADS);
    let blocks = grid.blocks as usize;
    let rows = DeviceBuffer::from_slice(&gpu.context, &vec![u64::MAX; blocks * ROW_WORDS])?;
    let gaps = DeviceBuffer::from_slice(&gpu.context, &[0_u64; 2])?;
    let launch = BlockTrace {
        rows: rows.device_ptr(),
        gaps: gaps.device_ptr(),
        gap_capacity: 0,
        spin_ns: STAY_NS,
        budget_ns: 1_000_000_000,
        gap_threshold_ns: u64::MAX,
        grid,
    };
    launch.launch(&gpu.kernels, &gpu.stream)?;
    gpu.stream.synchronize()?;
    let sms: BTreeSet<u32> = decode(&rows.to_vec()?, &[], 0)
        .into_iter()
        .filter_map(|row| u32::try_from(row.sm).ok())
        .collect();
    Ok(sms.into_iter().collect())
}

/// Allocates and frees at once; returns the driver's error code if it refuses.
pub(super) fn try_allocate(gpu: &Gpu, bytes: u64) -> Result<Option<i32>, DriverError> {
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    match DeviceBuffer::<u64>::alloc(&gpu.context, words) {
        Ok(_granted) => Ok(None),
        Err(error) => match error.code() {
            Some(code) => Ok(Some(code)),
            None => Err(error),
        },
    }
}
