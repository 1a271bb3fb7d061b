//! The full-device baseline: arithmetic that fills every SM, on the device without other tenants.
//!
//! Shares of probes are shares of this rate of work. The grid fills the whole device evenly; a
//! partition with SMs that do not divide the blocks evenly does a little less than its SMs could.

use gpubench_record::probe::step::RunRequests;
use gpubench_record::{CompletedRequests, ProbeFound, WorkSeries, WorkloadSpec};

use super::limit_bypass::NativeRate;
use super::steps::step;
use super::windows::per_window;
use super::{VICTIM, escape, limit_bypass};
use crate::run::RunError;
use crate::run::calibrate::one::with_retries;
use crate::run::tenant_set::TenantSet;

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
    /// The requests.
    pub spec: WorkloadSpec,
    /// Duration of one.
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
    if planned.iter().any(|name| name == escape::PROBE.name) {
        baseline.route_rates = limit_bypass::native(tenants, &baseline.spec).await?;
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

/// Length of the shortest window.
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
