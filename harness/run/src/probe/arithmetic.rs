//! Probes of arithmetic: the share of the device that a tenant gets, and how long a cap takes to
//! act.

use std::time::Duration;

use gpubench_record::probe::step::RunRequests;
use gpubench_record::{
    BypassRun, CompletedRequests, Condition, ProbeFound, SubmitRoute, WorkSeries, WorkloadSpec,
};

use super::escape::{NativeRate, submit};
use super::{Probe, Run, VICTIM, escape, restart_victim, step, step_both};
use crate::RunError;
use crate::calibrate::with_retries;
use crate::tenant_set::TenantSet;

// The full-device baseline: arithmetic that fills every SM, on the device without other tenants.
//
// Shares of probes are shares of this rate of work. The grid fills the whole device evenly; a
// partition with SMs that do not divide the blocks evenly does a little less than its SMs could.

/// Arithmetic in every thread slot of every SM.
const WORKLOAD: &str = "fma-hog";
/// Observed windows of the greatest length: of six values the smallest and the largest bound the
/// median with 97 %.
const WINDOWS: u64 = 6;
/// Extra time, because two tenants never begin at the same instant.
const SLACK: f64 = 1.1;
const SLACK_NS: u64 = 50_000_000;
/// A request may be shorter than calibrated by this factor.
const SHORTER: f64 = 1.25;

/// The rate of the device without a mechanism.
#[derive(Debug, Clone)]
pub struct FullDeviceBaseline {
    pub spec: WorkloadSpec,
    pub service_ns: u64,
    /// Block iterations in a nanosecond by each route, where escapes are tried.
    pub route_rates: Vec<NativeRate>,
}

impl FullDeviceBaseline {
    /// Requests without a pause for that long.
    pub fn requests(&self, watch_ns: u64) -> RunRequests {
        let count = watch_ns as f64 / self.service_ns.max(1) as f64 * SHORTER;
        RunRequests { spec: self.spec.clone(), watch_ns, requests_max: count as u32 + 64 }
    }
}

/// Calibrates the requests and measures the rate of the device without other tenants.
pub async fn measure(
    tenants: &mut TenantSet,
) -> Result<(FullDeviceBaseline, ProbeFound), RunError> {
    tenants.close().await?;
    tenants.open_only(VICTIM).await?;
    let calibrated = with_retries(tenants, VICTIM, WORKLOAD, 1.0).await?;
    let mut baseline = FullDeviceBaseline {
        spec: calibrated.spec,
        service_ns: calibrated.service_ns,
        route_rates: Vec::new(),
    };
    let planned = &tenants.handles().setup.plan.probes;
    if planned.iter().any(|name| name == escape::ESCAPE.name) {
        baseline.route_rates = escape::native(tenants, &baseline.spec).await?;
    }
    let requests = baseline.requests(watch_ns(tenants));
    let completed = step(tenants, VICTIM, requests).await?;
    let window_ns = shortest_window_ns(tenants);
    let found = ProbeFound::Share {
        configured_ppm: None,
        windows_ns: windows_ns(tenants),
        alone: per_window(&completed, window_ns, span_of(&completed)),
        beside: WorkSeries { window_ns, milli_requests: Vec::new() },
    };
    Ok((baseline, found))
}

/// Lengths of the profile's windows, the shortest first.
pub fn windows_ns(tenants: &TenantSet) -> Vec<u64> {
    let windows = &tenants.handles().setup.host.context().profile.probe_windows;
    let mut windows: Vec<u64> = windows.iter().map(|window| window.ns).collect();
    windows.sort_unstable();
    windows
}

pub fn shortest_window_ns(tenants: &TenantSet) -> u64 {
    windows_ns(tenants).first().copied().unwrap_or(u64::MAX)
}

/// Time that covers enough of the longest windows.
pub fn watch_ns(tenants: &TenantSet) -> u64 {
    let longest_ns = windows_ns(tenants).last().copied().unwrap_or(0);
    ((longest_ns * WINDOWS) as f64 * SLACK) as u64 + SLACK_NS
}

/// From the first stamp to the last, by the device's clock.
pub fn span_of(completed: &CompletedRequests) -> (u64, u64) {
    let last = completed.ended_ns.last().copied().unwrap_or(0);
    (completed.began_ns, completed.began_ns + last)
}

// Work counted in windows of the device's time.

/// The work of each whole window between two instants of the device, in thousandths of a request.
pub fn per_window(
    completed: &CompletedRequests,
    window_ns: u64,
    (from, to): (u64, u64),
) -> WorkSeries {
    let count = to.saturating_sub(from) / window_ns.max(1);
    let mut done = vec![0.0_f64; count as usize];
    let mut begin = completed.began_ns;
    for end in completed.ended_ns.iter().map(|ns| completed.began_ns + ns) {
        let length = end.saturating_sub(begin).max(1) as f64;
        let first = begin.saturating_sub(from) / window_ns;
        let last = end.saturating_sub(from) / window_ns;
        for (at, sum) in done.iter_mut().enumerate().take(last as usize + 1).skip(first as usize) {
            let opens = from + at as u64 * window_ns;
            let inside = end.min(opens + window_ns).saturating_sub(begin.max(opens));
            *sum += inside as f64 / length;
        }
        begin = end;
    }
    WorkSeries {
        window_ns,
        milli_requests: done.iter().map(|sum| (sum * 1e3).round() as u32).collect(),
    }
}

// `share`: the share of the device's arithmetic that a tenant gets. Requests fill every SM one
// after the other; the device stamps the end of each, and they are counted in windows of device
// time.
//
// A share is one of work done, not of SMs: SMs that `sm-placement` finds may be shared.

pub(super) const SHARE: Probe = Probe {
    name: "share",
    summary: "what share of the device's arithmetic does a tenant get, over short and long \
              windows, and what share is configured?",
    sub_axis: "compute/sm",
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(share(tenants, baseline)))],
    ..super::PROBE
};

/// The victim alone under the mechanism, then beside a neighbour that does the same.
async fn share(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let configured_ppm = configured_ppm(tenants);
    let requests = baseline.requests(watch_ns(tenants));
    let alone = step(tenants, VICTIM, requests.clone()).await?;
    let (victim, neighbour) = step_both(tenants, requests.clone(), requests).await?;
    // Only the time in which both worked counts.
    let (own, other) = (span_of(&victim), span_of(&neighbour));
    let both = (own.0.max(other.0), own.1.min(other.1));
    let window_ns = shortest_window_ns(tenants);
    Ok(ProbeFound::Share {
        configured_ppm,
        windows_ns: windows_ns(tenants),
        alone: per_window(&alone, window_ns, span_of(&alone)),
        beside: per_window(&victim, window_ns, both),
    })
}

/// The share that the mechanism configures for a tenant, in millionths. Without a configured one it
/// is the part of the SMs that the victim sees, or on which its blocks ran when its context opened.
pub fn configured_ppm(tenants: &TenantSet) -> Option<u32> {
    let context = tenants.context();
    let configured = tenants
        .config()
        .mechanism
        .and_then(|m| m.configuration(&context).compute_limit)
        .map(|limit| limit.share);
    let device_sms = tenants.handles().sm_count();
    let observations = tenants.observations();
    let victim = observations.first();
    let visible = victim.and_then(|victim| victim.number("sm_count"));
    let used = victim.and_then(|victim| victim.sm_placement.as_ref());
    let used = used.map(|sms| sms.len() as u64).filter(|&count| count > 0);
    let sms = [visible, used].into_iter().flatten().min();
    let sms = sms.filter(|&sms| sms < u64::from(device_sms));
    let observed = sms.map(|sms| sms as f64 / f64::from(device_sms));
    let share = configured.or(observed);
    share.map(|share| (share * 1e6).round() as u32)
}

// `enforcement`: how long a compute cap takes to act. A tenant that has just been started launches
// arithmetic that fills every SM without a pause, and its work is counted from the first launch
// on.
//
// A limiter that acts on measurements lets everything pass at first, and again in each new
// process; one of the device or of its driver acts at once. So each trial is a new process.

pub(super) const ENFORCEMENT: Probe = Probe {
    name: "enforcement",
    summary: "how long after its first launch does a tenant's compute cap act for good?",
    sub_axis: "compute/sm",
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(enforcement(tenants, baseline)))],
    ..super::PROBE
};

/// Of six values the smallest and the largest bound the median with 97 %.
const TRIALS: usize = 6;
/// How long the work is observed, and in which steps it is counted.
const WATCH: Duration = Duration::from_secs(4);
const STEP: Duration = Duration::from_millis(20);
/// Length of the windows whose share is compared with the cap. HAMi-core acts on the utilisation of
/// the last second (`multiprocess_utilization_watcher.c`) and claims no limit over shorter times.
const WINDOW: Duration = Duration::from_secs(1);

/// Trials of the victim without neighbours, where its compute has a cap.
async fn enforcement(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let limit_ppm = configured_ppm(tenants);
    let mut trials = Vec::new();
    while limit_ppm.is_some() && trials.len() < TRIALS {
        restart_victim(tenants).await?;
        let run = submit(tenants, SubmitRoute::Launches, &baseline.spec, WATCH).await?;
        trials.push(series(run));
    }
    Ok(ProbeFound::Enforcement { limit_ppm, window_ns: WINDOW.as_nanos() as u64, trials })
}

/// Work by steps, from the first launch on.
fn series(run: BypassRun) -> WorkSeries {
    let last_ns = run.ended_ns.last().copied().unwrap_or(0);
    let completed =
        CompletedRequests { host_ns: (0, last_ns), began_ns: 0, ended_ns: run.ended_ns };
    per_window(&completed, STEP.as_nanos() as u64, (0, last_ns))
}

#[cfg(test)]
mod tests {
    use super::{CompletedRequests, per_window};

    fn completed(ended_ns: &[u64]) -> CompletedRequests {
        CompletedRequests {
            began_ns: 1_000,
            ended_ns: ended_ns.to_vec(),
            ..CompletedRequests::default()
        }
    }

    #[test]
    fn requests_count_in_their_windows() {
        let series =
            |ended: &[u64], within| per_window(&completed(ended), 100, within).milli_requests;
        // Two in a window; then one that spans two windows; the last window is incomplete.
        assert_eq!(series(&[50, 100, 300, 350], (1_000, 1_350)), [2_000, 500, 500]);
        // Requests before the first window do not count in it.
        assert_eq!(series(&[50, 100, 300, 350], (1_100, 1_300)), [500, 500]);
        // Half of the first request lies after the first window opens.
        assert_eq!(series(&[200, 300], (1_100, 1_300)), [500, 1_000]);
        assert!(series(&[], (1_000, 1_000)).is_empty());
    }
}
