//! Work submitted without a pause by one route or another, counted once a limiter has had time to
//! act.

use std::time::Duration;

use gpubench_record::probe::step::LimitBypass;
use gpubench_record::{BypassRun, CompletedRequests, SubmitRoute, WorkloadSpec};

use super::VICTIM;
use super::steps::step;
use super::windows::per_window;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// How long work is submitted by each route, and from when on it counts. A limiter that lets a
/// burst pass has acted by then: HAMi-core samples the utilisation of the last second every 120 ms.
pub const WATCH: Duration = Duration::from_millis(2_400);
const SETTLED: Duration = Duration::from_millis(1_200);
/// Windows of that time: of six values the smallest and the largest bound the median with 97 %.
const WINDOWS: u64 = 6;

/// The rate of a route on the device without a mechanism.
#[derive(Debug, Clone)]
pub struct NativeRate {
    pub route: SubmitRoute,
    /// Mean over the windows.
    pub per_ns: f64,
    /// Each window over the mean, in millionths.
    pub windows_ppm: Vec<u32>,
}

/// The rate of each route on the device without a mechanism; none for a route without work.
pub async fn native(
    tenants: &mut TenantSet,
    spec: &WorkloadSpec,
) -> Result<Vec<NativeRate>, RunError> {
    let mut rates = Vec::new();
    for route in SubmitRoute::ALL {
        let windows = rates_per_ns(&submit(tenants, route, spec, WATCH).await?);
        let per_ns = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
        if per_ns > 0.0 {
            rates.push(NativeRate { route, per_ns, windows_ppm: ppm_of(&windows, per_ns) });
        }
    }
    Ok(rates)
}

/// Rates over another rate, in millionths.
pub fn ppm_of(rates: &[f64], whole: f64) -> Vec<u32> {
    let ppm = |rate: &f64| (rate / whole * 1e6).round() as u32;
    rates.iter().map(ppm).collect()
}

/// Has the victim submit work by a route.
pub async fn submit(
    tenants: &mut TenantSet,
    route: SubmitRoute,
    spec: &WorkloadSpec,
    watch: Duration,
) -> Result<BypassRun, RunError> {
    let request = LimitBypass { route, spec: spec.clone(), watch_ns: watch.as_nanos() as u64 };
    step(tenants, VICTIM, request).await
}

/// Work in a nanosecond, window by window, once a limiter has had time to act.
pub fn rates_per_ns(run: &BypassRun) -> Vec<f64> {
    let last = run.ended_ns.last().copied().unwrap_or(0);
    let from = SETTLED.as_nanos() as u64;
    let window_ns = last.saturating_sub(from) / WINDOWS;
    if window_ns == 0 {
        return Vec::new();
    }
    let completed =
        CompletedRequests { host_ns: (0, last), began_ns: 0, ended_ns: run.ended_ns.clone() };
    let series = per_window(&completed, window_ns, (from, last));
    let per_ns = run.work_per_request / 1e3 / window_ns as f64;
    let done = series.milli_requests.iter();
    done.map(|&milli| f64::from(milli) * per_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::{BypassRun, WINDOWS, rates_per_ns};

    #[test]
    fn a_burst_before_the_limiter_acts_does_not_count() {
        let ms = 1_000_000;
        // A hundred requests at once, then one every 50 ms.
        let burst = (1..=100).map(|k| k * ms);
        let later = (1..=60).map(|k| 100 * ms + k * 50 * ms);
        let run = BypassRun {
            work_per_request: 10.0,
            from_ns: 7,
            ended_ns: burst.chain(later).collect(),
        };
        let rates = rates_per_ns(&run);
        assert_eq!(rates.len() as u64, WINDOWS);
        for rate in rates {
            assert!((rate - 10.0 / 50e6).abs() < 1e-9, "{rate}");
        }
        assert!(rates_per_ns(&BypassRun::default()).is_empty());
    }
}
