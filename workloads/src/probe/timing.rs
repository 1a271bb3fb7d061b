//! Steps of probes that count work or read clocks.

use gpubench_kernels::driver::{
    Context, DeviceBuffer, DevicePtr, DriverError, Grid, Module, WaitMode,
};
use gpubench_kernels::kernel::timing::{BlockTrace, GAP_WORDS, ROW_WORDS, TraceRow, decode};
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::probe::step::{
    RunRequests, TimeDriverCalls, TimeLaunches, TimeSliceSpans, TraceTimeSlices,
};
use gpubench_record::{CallTimes, CompletedRequests, LaunchStamp};
use gpubench_stats::poisson_schedule_ns;

use super::{ProbeError, RunStep, StepContext, end_events};
use crate::load;
use crate::load::Gpu;

// Requests without a pause, each with a device stamp of its end: how much work was done when, by
// the device's clock.

/// Outstanding requests: one runs, and the next is queued.
const DEPTH: usize = 2;
/// Requests before the first that counts: they load code.
const WARM_UP: usize = 2;

impl RunStep for RunRequests {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<CompletedRequests, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let requests_max = self.requests_max as usize;
        let mut prepared = load::find(&self.spec.name)?.setup(gpu, &self.spec)?;
        let stamps = Stamps::new(gpu, requests_max + 1)?;
        let ends = end_events(gpu, DEPTH)?;
        for _ in 0..WARM_UP.max(prepared.cycle()) {
            prepared.step(gpu)?;
        }
        gpu.stream.synchronize()?;
        let from_ns = time.now_ns();
        stamps.put(gpu, 0)?;
        let mut requests = 0;
        while requests < requests_max && time.now_ns() - from_ns < self.watch_ns {
            prepared.step(gpu)?;
            requests += 1;
            stamps.put(gpu, requests)?;
            ends[requests % DEPTH].record(&gpu.stream)?;
            if requests >= DEPTH {
                ends[(requests + 1) % DEPTH].synchronize()?;
            }
        }
        gpu.stream.synchronize()?;
        let to_ns = time.now_ns();
        let device_ns = stamps.read(requests + 1)?;
        // The first of at least one stamp.
        let began_ns = device_ns.first().copied().unwrap_or(0);
        let since = |end: &u64| end.saturating_sub(began_ns);
        Ok(CompletedRequests {
            host_ns: (from_ns, to_ns),
            began_ns,
            ended_ns: device_ns.iter().skip(1).map(since).collect(),
        })
    }
}

// Stamps of the device's clock: the smallest launch that records when it ran.

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

// Time-slice trace: one block reads the clock of the device; gaps show when it did not run.

/// Gaps that are kept; more are counted.
const GAPS: u32 = 2048;
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

// From the call to the first instruction: launches of the smallest kernel at random instants, so
// that they are not in phase with a scheduler.

impl RunStep for TimeLaunches {
    /// Each launch is waited for. One that is due before the last has ended follows it at once.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Vec<LaunchStamp>, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let schedule = poisson_schedule_ns(self.rate_per_s, self.watch_ns, self.seed)
            .map_err(ProbeError::parameter)?;
        let stamps = Stamps::new(gpu, schedule.len().max(1))?;
        // The first launch after a module was loaded may still upload it.
        stamps.put(gpu, 0)?;
        gpu.stream.synchronize()?;
        let from_ns = time.now_ns();
        let mut host_ns = Vec::with_capacity(schedule.len());
        for (at, due_ns) in schedule.iter().enumerate() {
            if time.now_ns() - from_ns > self.watch_ns {
                break;
            }
            time.sleep_until(from_ns + due_ns)?;
            let called_ns = time.now_ns();
            stamps.put(gpu, at)?;
            gpu.stream.synchronize()?;
            host_ns.push((called_ns, time.now_ns()));
        }
        let started_ns = stamps.read(host_ns.len())?;
        let stamp =
            |((called_ns, ended_ns), started_ns)| LaunchStamp { called_ns, started_ns, ended_ns };
        Ok(host_ns.into_iter().zip(started_ns).map(stamp).collect())
    }
}

// Driver calls of a starting program: how long creating a context and loading a module take.

/// A kernel of a usual size. The driver caches what it compiles at the first load, so the measured
/// loads are those of a second start.
const MODULE: Kernel = Kernel::Softmax;

impl RunStep for TimeDriverCalls {
    /// Contexts and modules are released outside the measured time.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<CallTimes, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let mut times = CallTimes::default();
        let info = MODULE.info();
        // Fills the driver's cache.
        drop(Module::load(&gpu.context, info.name, info.ptx)?);
        for _ in 0..self.contexts {
            let from_ns = time.now_ns();
            let created = Context::create(gpu.context.device(), WaitMode::BlockingSync);
            times.contexts_ns.push((from_ns, time.now_ns()));
            drop(created?);
            // The destroyed context was current on this thread.
            gpu.context.bind()?;
        }
        for _ in 0..self.modules {
            let from_ns = time.now_ns();
            let loaded = Module::load(&gpu.context, info.name, info.ptx);
            times.modules_ns.push((from_ns, time.now_ns()));
            drop(loaded?);
        }
        Ok(times)
    }
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
