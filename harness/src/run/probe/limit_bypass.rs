//! Work submitted in one way or another, as fast as it goes, counted only once a limiter has had
//! time to act.

use std::time::Duration;

use gpubench_record::{BypassRun, BypassWay, ProbeAsk, ProbeTold, Worked, WorkloadSpec};

use super::windows::per_window;
use super::{VICTIM, step, unexpected};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// How long work is submitted in each way, and from when on it counts: a limiter that lets a burst
/// through has acted by then (HAMi-core looks every 120 ms at a second's utilisation).
pub const WATCH: Duration = Duration::from_millis(2_400);
const SETTLED: Duration = Duration::from_millis(1_200);
/// Windows of that time: of six values the least and the greatest bound the median with 97 %.
const WINDOWS: u64 = 6;

/// What each way reaches on the device alone.
pub async fn native(
    tenants: &mut TenantSet,
    spec: &WorkloadSpec,
) -> Result<Vec<(BypassWay, f64)>, RunError> {
    let mut rates = Vec::new();
    for way in BypassWay::ALL {
        let windows = rates_per_ns(&submit(tenants, way, spec, WATCH).await?);
        let mean = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
        rates.push((way, mean));
    }
    Ok(rates)
}

/// Has the victim submit work in a way for so long.
pub async fn submit(
    tenants: &mut TenantSet,
    way: BypassWay,
    spec: &WorkloadSpec,
    watch: Duration,
) -> Result<BypassRun, RunError> {
    let ask = ProbeAsk::LimitBypass {
        way,
        spec: spec.clone(),
        watch_ns: watch.as_nanos() as u64,
    };
    match step(tenants, VICTIM, ask).await? {
        ProbeTold::Bypassed(launched) => Ok(launched),
        other => Err(unexpected(tenants, VICTIM, other)),
    }
}

/// Work in a nanosecond, window by window, once a limiter has had time to act.
pub fn rates_per_ns(launched: &BypassRun) -> Vec<f64> {
    let last = launched.ended_ns.last().copied().unwrap_or(0);
    let from = SETTLED.as_nanos() as u64;
    let window_ns = last.saturating_sub(from) / WINDOWS;
    if window_ns == 0 {
        return Vec::new();
    }
    let worked = Worked {
        host_ns: (0, last),
        began_ns: 0,
        ended_ns: launched.ended_ns.clone(),
    };
    let series = per_window(&worked, window_ns, (from, last));
    let per_ns = launched.work_per_request / 1e3 / window_ns as f64;
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
        let launched = BypassRun {
            work_per_request: 10.0,
            from_ns: 7,
            ended_ns: burst.chain(later).collect(),
        };
        let rates = rates_per_ns(&launched);
        assert_eq!(rates.len() as u64, WINDOWS);
        for rate in rates {
            assert!((rate - 10.0 / 50e6).abs() < 1e-9, "{rate}");
        }
        assert!(rates_per_ns(&BypassRun::default()).is_empty());
    }
}
