//! Samples the device's counters beside the tenants, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_host::device::meters::{GpmWatch, Mark};
use gpubench_host::device::nvml::named;
use gpubench_host::device::{BlockingCall, Driver, NoAnswer, Nvml, THROTTLE_REASONS};
use gpubench_record::{
    Cell, CellSpan, Durations, EventObserved, MeterReading, Plan, TelemetryRow, Unobserved,
};

use super::RunError;
use super::cores::CpuTime;
use super::observe::{Before, Snapshot, SnapshotScope};
use super::waits::RunClock;

/// The sampler's number as a participant of the clock.
pub const SAMPLER: u32 = 0;

#[derive(Debug, Default)]
pub struct Sampled {
    pub rows: Vec<TelemetryRow>,
    /// The mechanism half-way through; `None` if the cell ended before.
    pub snapshot: Option<Snapshot>,
    /// All reasons for reduced clocks, as a bit mask; `None` if NVML reported none.
    pub throttle_reasons: Option<u64>,
    pub sm_clocks_mhz: Vec<f64>,
    /// The tenants before an event that kills one, and the event.
    pub before: Option<Before>,
    pub event: Option<EventObserved>,
    /// What counters said of the closed loop, and of the pause behind it.
    pub meters: Vec<MeterReading>,
    /// Share of CPU time that a hypervisor took; `None` in virtual time.
    pub cpu_steal_ratio: Option<f64>,
    /// Start and planned end of the cell; `None` if it did not start.
    pub span: Option<CellSpan>,
    /// Observations that failed in at least one sample.
    pub unobserved: BTreeMap<Unobserved, String>,
    /// Why sampling ended early, if it did.
    pub failure: Option<String>,
}

/// Readings of the SM clock in a closed loop.
const CLOCKS: u64 = 8;

impl Sampled {
    /// The mean of the readings; `None` without any.
    pub fn mean_sm_clock_khz(&self) -> Option<u64> {
        let read = &self.sm_clocks_mhz;
        let mean = read.iter().sum::<f64>() / read.len() as f64;
        // A clock is far below the limit of 64 bits.
        (!read.is_empty()).then_some((mean * 1e3).round() as u64)
    }
}

/// Longest wait for the sampler once every tenant has answered.
const FINISH: Duration = Duration::from_secs(60);

pub struct Sampler {
    thread: BlockingCall<Sampled>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub t0_ns: u64,
    pub length_ns: u64,
    /// Time between two samples.
    pub period_ns: u64,
    /// Start of the closed loop after the start of the cell, and its length.
    pub closed_ns: [u64; 2],
    /// Start and length of the pause before the open loop, where no tenant works in it.
    pub idle_ns: [u64; 2],
    /// Whether counters are read at the ends of both.
    pub meters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reading {
    Meters,
    Counters,
    Clock,
}

impl Times {
    /// The instants of a cell that starts at `t0_ns`.
    pub fn of_cell(plan: &Plan, cell: &Cell, t0_ns: u64) -> Self {
        let durations = plan.durations_of(cell);
        Self {
            t0_ns,
            length_ns: durations.cell_ns(),
            period_ns: plan.telemetry_period_ns,
            closed_ns: [durations.warmup_ns, durations.closed_ns],
            idle_ns: idle_ns(&durations, cell),
            meters: !plan.meters.is_empty(),
        }
    }

    /// Every period from the start on, and once half-way, however short the cell; the clock at
    /// equal distances in the closed loop.
    fn instants(self) -> Vec<(u64, Reading)> {
        let period_ns = self.period_ns.max(1_000_000);
        let regular = (0..self.length_ns.div_ceil(period_ns)).map(|number| number * period_ns);
        let counters = regular.chain([self.length_ns / 2]);
        let [from_ns, closed_ns] = self.closed_ns;
        let clocks = (0..CLOCKS).map(|at| from_ns + closed_ns * (2 * at + 1) / (2 * CLOCKS));
        let clocks = clocks.filter(|_| closed_ns > 0);
        let mut all: Vec<_> = counters
            .map(|offset| (offset, Reading::Counters))
            .chain(clocks.map(|offset| (offset, Reading::Clock)))
            .chain(self.marks().map(|offset| (offset, Reading::Meters)))
            .map(|(offset, reading)| (self.t0_ns + offset, reading))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Times {
    /// The ends of the windows of counters, two and two.
    fn marks(self) -> impl Iterator<Item = u64> {
        let windows = [self.closed_ns, self.idle_ns].into_iter();
        let windows = windows.filter(move |[_, length_ns]| self.meters && *length_ns > 0);
        windows.flat_map(|[start_ns, length_ns]| [start_ns, start_ns + length_ns])
    }
}

/// The pause without its first part, in which the last request may end; none beside neighbours at
/// work, which go on in it.
fn idle_ns(durations: &Durations, cell: &Cell) -> [u64; 2] {
    let Durations { warmup_ns, closed_ns, sparse_ns, gap_ns, .. } = *durations;
    if cell.condition.has_aggressor() {
        return [0, 0];
    }
    let first_ns = gap_ns / 4;
    [warmup_ns + closed_ns + sparse_ns + first_ns, gap_ns - first_ns]
}

impl Sampler {
    /// Starts sampling. In virtual time the sampler is the participant [`SAMPLER`] of the clock,
    /// which the caller has announced with those of the tenants.
    pub fn start(
        clock: &RunClock,
        nvml: &Arc<Nvml>,
        cell: &str,
        times: Times,
        scope: SnapshotScope,
    ) -> Result<Self, RunError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, nvml, flag) = (clock.clone(), Arc::clone(nvml), Arc::clone(&stop));
        let cell = cell.to_owned();
        let sample = move || sample(&clock, &nvml, &cell, times, &scope, &flag);
        let thread = BlockingCall::start("sampling counters", sample)?;
        Ok(Self { thread, stop })
    }

    /// Ends sampling and returns the samples. In virtual time the thread ends by itself at the end
    /// of the cell, before every tenant has answered.
    pub async fn finish(mut self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.within(FINISH).await {
            Ok(sampled) => sampled,
            Err(error) => Sampled { failure: Some(error.to_string()), ..Sampled::default() },
        }
    }
}

fn sample(
    clock: &RunClock,
    nvml: &Nvml,
    cell: &str,
    times: Times,
    scope: &SnapshotScope,
    stop: &AtomicBool,
) -> Sampled {
    let mut out = Sampled::default();
    if let RunClock::Virtual(device) = clock
        && let Err(error) = device.join(SAMPLER)
    {
        out.failure = Some(error.to_string());
        return out;
    }
    let cpu_before = CpuTime::now().filter(|_| !clock.is_virtual());
    let middle_ns = times.t0_ns + times.length_ns / 2;
    let (mut marks, mut gpm) = (Vec::new(), GpmWatch::default());
    for (at_ns, reading) in times.instants() {
        if let Err(failure) = sleep_until(clock, at_ns, stop) {
            out.failure = Some(failure);
            break;
        }
        if !clock.is_virtual() && stop.load(Ordering::Relaxed) {
            break;
        }
        let read = match reading {
            Reading::Meters => {
                let (meters, now_ns) = (scope.meters.clone(), clock.now_ns());
                let mark = move |driver: &Driver| driver.mark(&meters, now_ns);
                nvml.ask("reading counters of energy and use", mark).map(|mark| marks.push(mark))
            }
            Reading::Clock => {
                let clocks = nvml.ask("reading the SM clock by NVML", Driver::sm_clock_mhz);
                clocks.map(|clock| out.sm_clocks_mhz.extend(clock))
            }
            Reading::Counters => read(nvml, cell, at_ns, &mut out)
                .and_then(|()| watch(nvml, cell, at_ns, scope, &mut gpm, &mut out.rows)),
        };
        if let Err(hang) = read {
            out.failure = Some(hang.to_string());
            break;
        }
        if at_ns == middle_ns && reading == Reading::Counters {
            out.snapshot = Some(Snapshot::take(clock, nvml, scope));
        }
    }
    match metered(nvml, scope, times, marks, &out.rows) {
        Ok(meters) => out.meters = meters,
        Err(hang) => out.failure = Some(hang.to_string()),
    }
    if let RunClock::Virtual(device) = clock
        && let Err(error) = device.leave()
    {
        out.failure = Some(error.to_string());
    }
    out.cpu_steal_ratio = cpu_before.and_then(|before| CpuTime::now()?.stolen_since(before));
    out
}

/// What the counters said of both windows.
fn metered(
    nvml: &Nvml,
    scope: &SnapshotScope,
    times: Times,
    marks: Vec<Mark>,
    rows: &[TelemetryRow],
) -> Result<Vec<MeterReading>, NoAnswer> {
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let power = rows.iter().filter(|row| row.metric == "power");
    let power: Vec<(u64, f64)> = power.map(|row| (row.t_ns, row.value)).collect();
    let meters = scope.meters.clone();
    nvml.ask("reading counters of energy and use", move |driver| {
        let mut found = Vec::new();
        let windows = [(times.closed_ns, false), (times.idle_ns, true)].into_iter();
        let windows = windows.filter(|([_, length_ns], _)| *length_ns > 0);
        for (([start_ns, length_ns], idle), ends) in windows.zip(marks.chunks_exact(2)) {
            let start_ns = times.t0_ns + start_ns;
            let within = |t_ns: u64| (start_ns..start_ns + length_ns).contains(&t_ns);
            let power_mw = power.iter().filter(|(t_ns, _)| within(*t_ns)).map(|(_, mw)| *mw);
            let power_mw: Vec<f64> = power_mw.collect();
            if meters.energy {
                found.push(Driver::energy(&ends[0], &ends[1], idle, &power_mw));
            }
            if meters.utilisation && !idle {
                found.extend(driver.utilisation(&meters, &ends[0], &ends[1]));
            }
        }
        found
    })
}

fn read(nvml: &Nvml, cell: &str, t_ns: u64, out: &mut Sampled) -> Result<(), NoAnswer> {
    let counters = |driver: &Driver| (driver.readings(), driver.throttle_reasons());
    let (readings, reasons) = nvml.ask("reading counters of the device by NVML", counters)?;
    // Counters are for display, and a missing one is absent. Throttling is judged, so its error
    // is kept.
    if let Err(error) = reasons {
        let text = format!("NVML: {}", named(&error));
        out.unobserved.insert(Unobserved::Throttle, text);
    }
    for reading in readings {
        if reading.metric == THROTTLE_REASONS {
            let bits = reading.value as u64;
            out.throttle_reasons = Some(out.throttle_reasons.map_or(bits, |all| all | bits));
        }
        out.rows.push(TelemetryRow {
            t_ns,
            cell: cell.to_owned(),
            source: "nvml".to_owned(),
            metric: reading.metric.to_owned(),
            value: reading.value,
            unit: reading.unit.to_owned(),
        });
    }
    Ok(())
}

/// Reads the performance monitor of the chip, where it has one.
fn watch(
    nvml: &Nvml,
    cell: &str,
    t_ns: u64,
    scope: &SnapshotScope,
    gpm: &mut GpmWatch,
    rows: &mut Vec<TelemetryRow>,
) -> Result<(), NoAnswer> {
    let (mut taken, tenants) = (std::mem::take(gpm), scope.meters.tenants.clone());
    let (taken, found) = nvml.ask("reading the performance monitor by NVML", move |driver| {
        let found = driver.watch(&mut taken, &tenants, t_ns);
        (taken, found)
    })?;
    *gpm = taken;
    rows.extend(found.into_iter().map(|(tenant, reading)| TelemetryRow {
        t_ns,
        cell: cell.to_owned(),
        source: tenant.map_or("gpm".to_owned(), |tenant| format!("gpm {tenant}")),
        metric: reading.metric.to_owned(),
        value: reading.value,
        unit: reading.unit.to_owned(),
    }));
    Ok(())
}

fn sleep_until(clock: &RunClock, t_ns: u64, stop: &AtomicBool) -> Result<(), String> {
    match clock {
        RunClock::Virtual(device) => device.sleep_until(t_ns).map_err(|error| error.to_string()),
        RunClock::Wall => {
            // Short steps, so that a finished cell does not wait.
            while !stop.load(Ordering::Relaxed) {
                let left = t_ns.saturating_sub(clock.now_ns());
                if left == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_nanos(left).min(Duration::from_millis(20)));
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CLOCKS, Reading, Times};

    #[test]
    fn samples_every_cell_half_way() {
        let times = |length_ns, period_ns| {
            let times = Times {
                t0_ns: 7,
                length_ns,
                period_ns,
                closed_ns: [0, 0],
                idle_ns: [0, 0],
                meters: false,
            };
            let all = times.instants().into_iter();
            all.map(|(at_ns, _)| at_ns).collect::<Vec<_>>()
        };
        assert_eq!(times(4_000_000, 100_000_000), [7, 2_000_007]);
        assert_eq!(times(4_000_000, 2_000_000), [7, 2_000_007]);
        assert_eq!(times(5_000_000, 2_000_000), [7, 2_000_007, 2_500_007, 4_000_007]);
    }

    #[test]
    fn reads_the_clock_in_the_closed_loop_only() {
        let times = Times {
            t0_ns: 7,
            length_ns: 5_000_000,
            period_ns: 2_000_000,
            closed_ns: [1_000_000, 1_600_000],
            idle_ns: [0, 0],
            meters: false,
        };
        let all = times.instants().into_iter();
        let clocks = all.filter(|(_, reading)| *reading == Reading::Clock);
        let clocks: Vec<u64> = clocks.map(|(at_ns, _)| at_ns).collect();
        assert_eq!(clocks.len() as u64, CLOCKS);
        assert_eq!((clocks[0], clocks[1]), (1_100_007, 1_300_007));
        assert!(clocks.iter().all(|at_ns| *at_ns < 2_600_007));
    }
}
