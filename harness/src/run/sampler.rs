//! Samples the device's counters beside the tenants, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_record::{CellSpan, TelemetryRow, Unobserved};

use super::RunError;
use super::clock::RunClock;
use super::snapshot::{Snapshot, SnapshotScope};
use super::steal::CpuTime;
use crate::device::{BlockingCall, Nvml, THROTTLE_REASONS};

/// The sampler's number as a participant of the clock.
pub const SAMPLER: u32 = 0;

/// What was sampled during one cell.
#[derive(Debug, Default)]
pub struct Sampled {
    /// The readings.
    pub rows: Vec<TelemetryRow>,
    /// The mechanism half-way through; `None` if the cell ended before.
    pub snapshot: Option<Snapshot>,
    /// All reasons for reduced clocks, as a bit mask; `None` if NVML reported none.
    pub throttle_reasons: Option<u64>,
    /// Share of CPU time that a hypervisor took; `None` in virtual time.
    pub cpu_steal_ratio: Option<f64>,
    /// Start and planned end of the cell; `None` if it did not start.
    pub span: Option<CellSpan>,
    /// Observations that failed in at least one sample.
    pub unobserved: BTreeMap<Unobserved, String>,
    /// Why sampling ended early, if it did.
    pub failure: Option<String>,
}

/// Longest wait for the sampler once every tenant has answered.
const FINISH: Duration = Duration::from_secs(60);

/// A running sampler.
pub struct Sampler {
    thread: BlockingCall<Sampled>,
    stop: Arc<AtomicBool>,
}

/// The instants of a sampler.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Start of the cell.
    pub t0_ns: u64,
    /// Length of the cell.
    pub length_ns: u64,
    /// Time between two samples.
    pub period_ns: u64,
}

impl Times {
    /// Every period from the start on, and once half-way, however short the cell.
    fn instants(self) -> Vec<u64> {
        let period_ns = self.period_ns.max(1_000_000);
        let regular = (0..self.length_ns.div_ceil(period_ns)).map(|number| number * period_ns);
        let mut all: Vec<u64> = regular.chain([self.length_ns / 2]).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|offset| self.t0_ns + offset).collect()
    }
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
            Err(error) => Sampled {
                failure: Some(error.to_string()),
                ..Sampled::default()
            },
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
    for at_ns in times.instants() {
        if let Err(failure) = sleep_until(clock, at_ns, stop) {
            out.failure = Some(failure);
            break;
        }
        if !clock.is_virtual() && stop.load(Ordering::Relaxed) {
            break;
        }
        read(nvml, cell, at_ns, &mut out);
        if at_ns == middle_ns {
            out.snapshot = Some(Snapshot::take(clock, nvml, scope));
        }
    }
    if let RunClock::Virtual(device) = clock
        && let Err(error) = device.leave()
    {
        out.failure = Some(error.to_string());
    }
    out.cpu_steal_ratio = cpu_before.and_then(|before| CpuTime::now()?.stolen_since(before));
    out
}

fn read(nvml: &Nvml, cell: &str, t_ns: u64, out: &mut Sampled) {
    let readings = nvml.readings();
    // Counters are for display, and a missing one is absent. Throttling is judged, so its error
    // is kept.
    if !readings.iter().any(|one| one.metric == THROTTLE_REASONS)
        && let Err(error) = nvml.throttle_reasons()
    {
        let text = format!("NVML: {error}");
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
    use super::Times;

    #[test]
    fn samples_every_cell_half_way() {
        let times = |length_ns, period_ns| {
            Times {
                t0_ns: 7,
                length_ns,
                period_ns,
            }
            .instants()
        };
        assert_eq!(times(4_000_000, 100_000_000), [7, 2_000_007]);
        assert_eq!(times(4_000_000, 2_000_000), [7, 2_000_007]);
        assert_eq!(
            times(5_000_000, 2_000_000),
            [7, 2_000_007, 2_500_007, 4_000_007]
        );
    }
}
