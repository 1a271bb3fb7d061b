//! Kernels around time: launches, spins, clock traces and occupied slots.

use crate::driver::{DevicePtr, Grid};
use crate::kernel::Cost;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

// `empty`: a kernel that does nothing.

/// A launch that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Empty {
    pub grid: Grid,
}

launcher! { Empty(self), self.grid, [] }

/// It launches and completes without an error.
pub fn verify_empty(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("empty", kernels)?;
    for grid in [Grid::new(1, 1), Grid::new(7, 33)] {
        check.run(&Empty { grid })?;
    }
    check.same("stream done", check.stream.is_done()?, true)
}

// `spin`: keeps SMs busy for a given time.

/// Keeps every launched thread busy.
#[derive(Debug, Clone, Copy)]
pub struct Spin {
    pub duration_ns: u64,
    pub budget_ns: u64,
    /// Null, or room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    pub grid: Grid,
}

launcher! {
    Spin(self), self.grid, [u64 self.duration_ns, u64 self.budget_ns, ptr self.stamps]
        => Cost::busy(self.duration_ns, self.budget_ns, self.grid)
}

/// A launch lasts the requested duration and never longer than its budget.
pub fn verify_spin(kernels: &KernelSet) -> Result<(), VerifyError> {
    let grid = Grid::new(2, 32);
    verify_lengths("spin", kernels, grid, &|duration_ns, budget_ns, stamps| {
        Box::new(Spin { duration_ns, budget_ns, stamps, grid })
    })
}

/// Checks a launch with a duration and a budget. Without a stamp buffer it must not write.
fn verify_lengths(
    name: &'static str,
    kernels: &KernelSet,
    grid: Grid,
    launch: &dyn Fn(u64, u64, DevicePtr) -> Box<dyn Launcher>,
) -> Result<(), VerifyError> {
    let check = Check::new(name, kernels)?;
    let at_least_ns = 3_000;
    for (duration_ns, budget_ns, expected_ns) in [
        (at_least_ns, 1_000_000_000, at_least_ns),
        (u64::MAX, at_least_ns, at_least_ns),
        (0, u64::MAX, 0),
        (u64::MAX, 0, 0),
    ] {
        let stamps = check.zeros::<u64>(2 * grid.blocks as usize)?;
        check.run(&*launch(duration_ns, budget_ns, stamps.device_ptr()))?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            check.lasted("a block", pair[0], pair[1], expected_ns)?;
            if expected_ns == 0 {
                check.same("end of a block without time", pair[1], pair[0])?;
            }
        }
    }
    check.run(&*launch(100, 100, DevicePtr::NULL))
}

// `tick`: the smallest kernel with a visible effect.

#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// One u32.
    pub count: DevicePtr,
    /// The launch shape; every launch adds one, whatever its shape.
    pub grid: Grid,
}

launcher! {
    Tick(self), self.grid, [ptr self.count] => Cost { atomic_ops: 1, ..Cost::default() }
}

/// Every launch of a burst is counted once.
pub fn verify_tick(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tick", kernels)?;
    let count = check.zeros::<u32>(1)?;
    let tick = Tick { count: count.device_ptr(), grid: Grid::new(2, 64) };
    for _ in 0..20 {
        tick.launch(check.kernels, &check.stream)?;
    }
    check.stream.synchronize()?;
    check.same("launches counted", count.to_vec()?[0], 20)
}

// `block_trace`: where and when every block ran, and the gaps in which it did not.

/// 64-bit words of one row.
pub const ROW_WORDS: usize = 4;
/// 64-bit words of one gap.
pub const GAP_WORDS: usize = 2;

/// Records the blocks of one launch.
#[derive(Debug, Clone, Copy)]
pub struct BlockTrace {
    /// `ROW_WORDS` u64 per block.
    pub rows: DevicePtr,
    /// `GAP_WORDS` u64 for each gap that a block can store.
    pub gaps: DevicePtr,
    /// Gaps that each block can store; further ones are only counted.
    pub gap_capacity: u32,
    /// How long each block polls the clock.
    pub spin_ns: u64,
    pub budget_ns: u64,
    /// Reads of the clock further apart than this are a gap.
    pub gap_threshold_ns: u64,
    pub grid: Grid,
}

launcher! {
    BlockTrace(self), self.grid,
    [
        ptr self.rows, ptr self.gaps, u32 self.gap_capacity,
        u64 self.spin_ns, u64 self.budget_ns, u64 self.gap_threshold_ns,
    ] => Cost::busy(self.spin_ns, self.budget_ns, self.grid)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// The SM on which it started; a preempted block may continue on another one.
    pub sm: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Number of gaps, stored or not.
    pub gaps_seen: u64,
    /// Stored gaps: the last reading before and the first one after.
    pub gaps_ns: Vec<(u64, u64)>,
}

/// Decodes the rows and gaps of a launch, one row per block.
pub fn decode(rows: &[u64], gaps: &[u64], gap_capacity: usize) -> Vec<TraceRow> {
    rows.chunks_exact(ROW_WORDS)
        .enumerate()
        .map(|(block, row)| {
            let kept = usize::try_from(row[3]).unwrap_or(usize::MAX).min(gap_capacity);
            let from = block * gap_capacity * GAP_WORDS;
            let own = gaps.get(from..from + kept * GAP_WORDS).unwrap_or_default();
            let gaps_ns = own.chunks_exact(GAP_WORDS).map(|gap| (gap[0], gap[1])).collect();
            TraceRow { sm: row[0], start_ns: row[1], end_ns: row[2], gaps_seen: row[3], gaps_ns }
        })
        .collect()
}

/// Rows are plausible and name existing SMs. With a threshold of zero every clock tick is a gap, in
/// order and inside the row; with the maximum none is; the capacity is respected.
pub fn verify_block_trace(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("block_trace", kernels)?;
    let sms = u64::from(kernels.context().device().props()?.sm_count);
    let long_ns = 1_000_000_000;
    for (spin_ns, budget_ns) in [(5_000, long_ns), (u64::MAX, 5_000)] {
        let (rows, gaps) = traced(&check, spin_ns, budget_ns, 0)?;
        check.same_slice("words behind the gaps", &gaps[gaps.len() - GAP_WORDS..], &[0, 0])?;
        for row in rows {
            check.holds(row.sm < sms, "SM", &row.sm, &format!("below {sms}"))?;
            check.lasted("a block", row.start_ns, row.end_ns, 5_000)?;
            check.holds(
                row.gaps_seen > 0,
                "number of clock ticks",
                &row.gaps_seen,
                &"one or more",
            )?;
            let mut from = row.start_ns;
            for (before, after) in row.gaps_ns {
                let inside = from <= before && before < after && after <= row.end_ns;
                check.holds(inside, "gap", &(before, after), &(from, row.end_ns))?;
                from = after;
            }
        }
    }
    let (rows, gaps) = traced(&check, 5_000, long_ns, u64::MAX)?;
    check.same_slice("gaps below the threshold", &gaps, &vec![0; gaps.len()])?;
    rows.iter().try_for_each(|row| check.same("number of gaps", row.gaps_seen, 0))
}

/// Traces three blocks with room for two gaps each, and one more gap that must stay unused. Rows
/// start as all ones, which is neither an SM nor a time.
fn traced(
    check: &Check<'_>,
    spin_ns: u64,
    budget_ns: u64,
    gap_threshold_ns: u64,
) -> Result<(Vec<TraceRow>, Vec<u64>), VerifyError> {
    let (grid, gap_capacity) = (Grid::new(3, 32), 2_u32);
    let blocks = grid.blocks as usize;
    let rows = check.buffer(&vec![u64::MAX; blocks * ROW_WORDS])?;
    let gaps = check.zeros::<u64>((blocks * gap_capacity as usize + 1) * GAP_WORDS)?;
    check.run(&BlockTrace {
        rows: rows.device_ptr(),
        gaps: gaps.device_ptr(),
        gap_capacity,
        spin_ns,
        budget_ns,
        gap_threshold_ns,
        grid,
    })?;
    let gaps = gaps.to_vec()?;
    Ok((decode(&rows.to_vec()?, &gaps, gap_capacity as usize), gaps))
}

// `block_slots`: small blocks that sleep in block slots.

#[derive(Debug, Clone, Copy)]
pub struct BlockSlots {
    pub duration_ns: u64,
    pub budget_ns: u64,
    /// Length of one sleep; the device sleeps up to twice as long, and a millisecond at most.
    pub nap_ns: u32,
    /// Null, or room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    /// The launch shape: one warp per block occupies a slot and little else.
    pub grid: Grid,
}

launcher! {
    BlockSlots(self), self.grid,
    [u64 self.duration_ns, u64 self.budget_ns, u32 self.nap_ns, ptr self.stamps]
        => Cost::busy(self.duration_ns, self.budget_ns, self.grid)
}

/// A launch lasts the requested duration and never longer than its budget.
pub fn verify_block_slots(kernels: &KernelSet) -> Result<(), VerifyError> {
    let (grid, nap_ns) = (Grid::new(3, 32), 200);
    verify_lengths("block_slots", kernels, grid, &|duration_ns, budget_ns, stamps| {
        Box::new(BlockSlots { duration_ns, budget_ns, nap_ns, stamps, grid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_caps_the_cost() {
        let stamps = DevicePtr::NULL;
        let grid = Grid::new(3, 32);
        let spin = Spin { duration_ns: 500, budget_ns: 200, stamps, grid };
        assert_eq!(spin.cost().block_busy_ns, 600);
    }

    #[test]
    fn rows_are_decoded_with_their_stored_gaps() {
        let rows = [5, 100, 200, 1, 6, 110, 210, 9];
        let gaps = [120, 150, 0, 0, 111, 112, 113, 114];
        let decoded = decode(&rows, &gaps, 2);
        assert_eq!(decoded[0].gaps_ns, [(120, 150)]);
        assert_eq!(decoded[1].gaps_ns, [(111, 112), (113, 114)]);
        assert_eq!((decoded[1].sm, decoded[1].gaps_seen), (6, 9));
    }

    #[test]
    fn a_truncated_trace_gives_fewer_rows_and_no_panic() {
        assert!(decode(&[1, 2, 3], &[], 4).is_empty());
        assert_eq!(decode(&[1, 2, 3, u64::MAX], &[], 4)[0].gaps_ns, []);
    }
}
