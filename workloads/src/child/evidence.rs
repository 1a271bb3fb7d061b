//! What a tenant can tell that shows under which mechanism it is: how much memory it is given, on
//! which SMs it runs, and which library answers its calls.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{Context, DeviceBuffer, Driver, DriverError, Grid};
use gpubench_kernels::kernel::block_trace::{BlockTrace, ROW_WORDS, decode};

use crate::load::Gpu;

/// How long each block of the census stays, so that the next one goes to another SM.
const STAY_NS: u64 = 5_000;
/// Blocks for each SM that the context sees.
const BLOCKS_PER_SM: u32 = 2;
/// Threads of a block: one warp, of which one thread looks.
const THREADS: u32 = 32;

/// Adds what only a process with a context knows to its facts.
pub(super) fn add_facts(
    driver: &Driver,
    context: &Context,
    facts: &mut BTreeMap<String, String>,
) -> Result<(), DriverError> {
    let memory = context.mem_info()?;
    facts.insert(
        "memory_total_bytes".to_owned(),
        memory.total_bytes.to_string(),
    );
    facts.insert(
        "memory_free_bytes".to_owned(),
        memory.free_bytes.to_string(),
    );
    // A loader that cannot tell leaves the proof without this piece, and it says so.
    if let Some(file) = driver.allocator_file() {
        facts.insert("allocator_file".to_owned(), file);
    }
    Ok(())
}

/// The SMs on which blocks of one launch ran, each once, in order.
pub(super) fn census(gpu: &Gpu) -> Result<Vec<u32>, DriverError> {
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

/// Tries to allocate; the driver's number if it refuses. What is granted is given back at once.
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
