//! Time-slice trace: one block reads the clock of the device; gaps show when it did not run.

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{DeviceBuffer, Grid};
use gpubench_kernels::kernel::block_trace::{BlockTrace, GAP_WORDS, ROW_WORDS, TraceRow, decode};
use gpubench_record::probe::step::{TimeSliceSpans, TraceTimeSlices};

use super::{ProbeError, RunStep, StepContext};

/// Gaps that are kept; more are counted.
const GAPS: u32 = 2048;
/// One warp, of which one thread reads the clock.
const GRID: Grid = Grid::new(1, 32);

impl RunStep for TraceTimeSlices {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<TimeSliceSpans, ProbeError> {
        let gpu = cx.gpu;
        let rows = DeviceBuffer::from_slice(&gpu.context, &[u64::MAX; ROW_WORDS])?;
        let gaps = DeviceBuffer::from_slice(&gpu.context, &vec![0_u64; GAPS as usize * GAP_WORDS])?;
        let launch = BlockTrace {
            rows: rows.device_ptr(),
            gaps: gaps.device_ptr(),
            gap_capacity: GAPS,
            spin_ns: self.watch_ns,
            budget_ns: self.watch_ns.saturating_mul(4),
            gap_threshold_ns: self.threshold_ns,
            grid: GRID,
        };
        launch.launch(&gpu.kernels, &gpu.stream)?;
        gpu.stream.synchronize()?;
        let traced = decode(&rows.to_vec()?, &gaps.to_vec()?, GAPS as usize);
        let row = traced.first().ok_or_else(|| ProbeError::parameter("the trace has no row"))?;
        Ok(TimeSliceSpans { spans_ns: spans(row), gaps: row.gaps_seen })
    }
}

/// The spans between the gaps, the first and the last included.
fn spans(row: &TraceRow) -> Vec<(u64, u64)> {
    let begins = std::iter::once(row.start_ns).chain(row.gaps_ns.iter().map(|gap| gap.1));
    let ends = row.gaps_ns.iter().map(|gap| gap.0);
    begins.zip(ends.chain(std::iter::once(row.end_ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::{TraceRow, spans};

    #[test]
    fn spans_lie_between_the_gaps() {
        let row = |gaps_ns: Vec<(u64, u64)>| TraceRow {
            sm: 0,
            start_ns: 10,
            end_ns: 100,
            gaps_seen: gaps_ns.len() as u64,
            gaps_ns,
        };
        assert_eq!(spans(&row(vec![])), [(10, 100)]);
        assert_eq!(spans(&row(vec![(20, 30), (50, 70)])), [(10, 20), (30, 50), (70, 100)]);
    }
}
