//! What share of the device's arithmetic a tenant gets: requests that fill every SM, one after the
//! other, each stamped by the device when it ends, and counted in windows of the device's time.
//!
//! The full-device baseline is the same loop on the device alone. A share is therefore one of work
//! done, and not of SMs that a tenant was seen on: the SMs that the placement probe finds may be
//! shared. The grid fills the whole device evenly; a part of it whose SMs do not divide the blocks
//! evenly does a little less than its SMs could.

use gpubench_record::{
    BypassWay, Condition, ProbeAsk, ProbeFound, ProbeTold, WorkSeries, Worked, WorkloadSpec,
};

use super::concurrent::probe_both;
use super::limit_bypass;
use super::windows::per_window;
use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::run::RunError;
use crate::run::calibrate::one::patiently;
use crate::run::tenant_set::TenantSet;

/// Arithmetic in every thread slot of every SM.
const WORKLOAD: &str = "fma-hog";
/// Windows of the greatest length that are watched: of six values the least and the greatest bound
/// the median with 97 %.
const WINDOWS: u64 = 6;
/// The two tenants never begin at the same instant; what is lost so must not cost a window.
const SLACK: f64 = 1.1;
const SLACK_NS: u64 = 50_000_000;
/// A request may be this much shorter than it was calibrated to.
const SHORTER: f64 = 1.25;

/// The device alone.
#[derive(Debug, Clone)]
pub struct FullDeviceBaseline {
    /// The requests with which it was found out.
    pub spec: WorkloadSpec,
    /// How long one takes.
    pub service_ns: u64,
    /// Block iterations in a nanosecond by each way to submit them, where escapes are tried.
    pub bypass_rates: Vec<(BypassWay, f64)>,
}

impl FullDeviceBaseline {
    /// Requests without a pause for that long.
    pub fn work(&self, watch_ns: u64) -> ProbeAsk {
        let most = watch_ns as f64 / self.service_ns.max(1) as f64 * SHORTER;
        ProbeAsk::Work {
            spec: self.spec.clone(),
            watch_ns,
            requests_max: most as u32 + 64,
        }
    }
}

/// Finds the requests, and the rate of the device without other tenants.
pub async fn baseline(
    tenants: &mut TenantSet,
) -> Result<(FullDeviceBaseline, ProbeFound), RunError> {
    tenants.close().await?;
    tenants.open_only(VICTIM).await?;
    let found = patiently(tenants, VICTIM, WORKLOAD, 1.0).await?;
    let mut baseline = FullDeviceBaseline {
        spec: found.spec,
        service_ns: found.service_ns,
        bypass_rates: Vec::new(),
    };
    if tenants.handles().setup.escape {
        baseline.bypass_rates = limit_bypass::native(tenants, &baseline.spec).await?;
    }
    let alone = work(tenants, &baseline.work(watch_ns(tenants))).await?;
    let window_ns = finest_ns(tenants);
    let series = per_window(&alone, window_ns, within(&alone));
    let found = ProbeFound::Share {
        configured_ppm: None,
        windows_ns: windows_ns(tenants),
        alone: series,
        beside: WorkSeries {
            window_ns,
            milli_requests: Vec::new(),
        },
    };
    Ok((baseline, found))
}

/// The victim alone under the mechanism, then beside a neighbour that does the same.
pub async fn share(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let configured_ppm = configured_ppm(tenants);
    let ask = baseline.work(watch_ns(tenants));
    let alone = work(tenants, &ask).await?;
    let (victim, neighbour) = match probe_both(tenants, &ask, &ask).await? {
        (ProbeTold::Worked(victim), ProbeTold::Worked(neighbour)) => (victim, neighbour),
        (ProbeTold::Worked(_), other) => return Err(unexpected(tenants, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(tenants, VICTIM, other)),
    };
    // Only while both were at work.
    let (mine, other) = (within(&victim), within(&neighbour));
    let both = (mine.0.max(other.0), mine.1.min(other.1));
    let window_ns = finest_ns(tenants);
    Ok(ProbeFound::Share {
        configured_ppm,
        windows_ns: windows_ns(tenants),
        alone: per_window(&alone, window_ns, within(&alone)),
        beside: per_window(&victim, window_ns, both),
    })
}

/// Has the victim complete requests.
pub async fn work(tenants: &mut TenantSet, ask: &ProbeAsk) -> Result<Worked, RunError> {
    match step(tenants, VICTIM, ask.clone()).await? {
        ProbeTold::Worked(worked) => Ok(worked),
        other => Err(unexpected(tenants, VICTIM, other)),
    }
}

/// What the mechanism lets a tenant have: what it was told to, or the part of the SMs that the
/// victim sees, or on which its blocks were found when its context was opened.
pub fn configured_ppm(tenants: &TenantSet) -> Option<u32> {
    let asked = tenants.handles().setup.host.asked();
    let set = tenants
        .config()
        .mechanism
        .and_then(|m| m.configuration(&asked).compute_limit)
        .map(|limit| limit.share);
    let all = tenants.handles().sm_count();
    let told = tenants.observations();
    let victim = told.first();
    let seen = victim.and_then(|told| told.number("sm_count"));
    let found = victim.and_then(|told| told.sm_placement.as_ref());
    let found = found.map(|sms| sms.len() as u64).filter(|&count| count > 0);
    let part = [seen, found].into_iter().flatten().min();
    let part = part.filter(|&part| part < u64::from(all));
    let part = part.map(|seen| seen as f64 / f64::from(all));
    set.or(part).map(|share| (share * 1e6).round() as u32)
}

fn windows_ns(tenants: &TenantSet) -> Vec<u64> {
    let windows = &tenants.handles().setup.host.asked().profile.probe_windows;
    let mut windows: Vec<u64> = windows.iter().map(|window| window.ns).collect();
    windows.sort_unstable();
    windows
}

fn finest_ns(tenants: &TenantSet) -> u64 {
    windows_ns(tenants).first().copied().unwrap_or(u64::MAX)
}

fn watch_ns(tenants: &TenantSet) -> u64 {
    let longest_ns = windows_ns(tenants).last().copied().unwrap_or(0);
    ((longest_ns * WINDOWS) as f64 * SLACK) as u64 + SLACK_NS
}

/// From the first stamp to the last.
fn within(worked: &Worked) -> (u64, u64) {
    let last = worked.ended_ns.last().copied().unwrap_or(0);
    (worked.began_ns, worked.began_ns + last)
}
