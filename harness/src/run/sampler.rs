//! The device's counters, sampled beside the tenants by a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpubench_record::TelemetryRow;

use super::RunError;
use super::clock::RunClock;
use super::device_processes::DeviceProcesses;
use super::steal::CpuTime;
use super::tenant_set::SAMPLER;
use crate::device::Nvml;

/// What was sampled during one cell.
#[derive(Debug, Default)]
pub struct Sampled {
    /// The readings.
    pub rows: Vec<TelemetryRow>,
    /// Who was on the device half-way through; absent if the cell ended before the sampler got
    /// there, which a busy host can bring about.
    pub on_device: Option<DeviceProcesses>,
    /// Every reason for reduced clocks seen, as a bit mask; absent if NVML did not tell.
    pub throttle_reasons: Option<u64>,
    /// Share of CPU time that a hypervisor took; absent in virtual time, which needs none.
    pub cpu_steal_ratio: Option<f64>,
    /// Why sampling ended early, if it did.
    pub failure: Option<String>,
}

/// A sampler at work.
pub struct Sampler {
    thread: JoinHandle<Sampled>,
    stop: Arc<AtomicBool>,
}

/// When a sampler looks.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Start of the cell.
    pub t0_ns: u64,
    /// Length of the cell.
    pub length_ns: u64,
    /// Time between two looks.
    pub period_ns: u64,
}

impl Times {
    /// When to look: every period from the start on, and once half-way, however short the cell.
    fn looks(self) -> Vec<u64> {
        let period_ns = self.period_ns.max(1_000_000);
        let regular = (0..self.length_ns.div_ceil(period_ns)).map(|look| look * period_ns);
        let mut all: Vec<u64> = regular.chain([self.length_ns / 2]).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|offset| self.t0_ns + offset).collect()
    }
}

impl Sampler {
    /// Starts to sample. In virtual time the sampler is a participant of the clock, announced
    /// here; the caller starts the others afterwards.
    pub fn start(
        clock: &RunClock,
        nvml: &Arc<Nvml>,
        cell: &str,
        times: Times,
    ) -> Result<Self, RunError> {
        clock.expect(SAMPLER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, nvml, flag) = (clock.clone(), Arc::clone(nvml), Arc::clone(&stop));
        let cell = cell.to_owned();
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || sample(&clock, &nvml, &cell, times, &flag))
            .map_err(|error| RunError::Clock(format!("sampler thread: {error}")))?;
        Ok(Self { thread, stop })
    }

    /// Ends sampling and returns what there is. In virtual time the thread ends by itself at the
    /// end of the cell, which has passed when every tenant has answered.
    pub fn finish(self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Sampled {
            failure: Some("the sampler panicked".to_owned()),
            ..Sampled::default()
        })
    }
}

fn sample(clock: &RunClock, nvml: &Nvml, cell: &str, times: Times, stop: &AtomicBool) -> Sampled {
    let mut out = Sampled::default();
    if let RunClock::Virtual(device) = clock
        && let Err(error) = device.join(SAMPLER)
    {
        out.failure = Some(error.to_string());
        return out;
    }
    let cpu_before = CpuTime::now().filter(|_| !clock.is_virtual());
    let middle_ns = times.t0_ns + times.length_ns / 2;
    for at_ns in times.looks() {
        if let Err(failure) = sleep_until(clock, at_ns, stop) {
            out.failure = Some(failure);
            break;
        }
        if !clock.is_virtual() && stop.load(Ordering::Relaxed) {
            break;
        }
        look(nvml, cell, at_ns, &mut out);
        if at_ns == middle_ns {
            out.on_device = Some(DeviceProcesses::now(nvml));
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

fn look(nvml: &Nvml, cell: &str, t_ns: u64, out: &mut Sampled) {
    for reading in nvml.readings() {
        if reading.metric == "throttle_reasons" {
            let bits = reading.value as u64;
            out.throttle_reasons = Some(out.throttle_reasons.unwrap_or(0) | bits);
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
            // In short steps, so that the end of a cell is not waited for.
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
    fn even_the_shortest_cell_is_looked_at_half_way() {
        let times = |length_ns, period_ns| {
            Times {
                t0_ns: 7,
                length_ns,
                period_ns,
            }
            .looks()
        };
        assert_eq!(times(4_000_000, 100_000_000), [7, 2_000_007]);
        assert_eq!(times(4_000_000, 2_000_000), [7, 2_000_007]);
        assert_eq!(
            times(5_000_000, 2_000_000),
            [7, 2_000_007, 2_500_007, 4_000_007]
        );
    }
}
