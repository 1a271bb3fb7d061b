//! `share`: the share of the device's arithmetic that a tenant gets. Requests fill every SM one
//! after the other; the device stamps the end of each, and they are counted in windows of device
//! time.
//!
//! A share is one of work done, not of SMs: SMs that `sm-placement` finds may be shared.

use gpubench_record::{Condition, ProbeFound};

use super::baseline::{FullDeviceBaseline, shortest_window_ns, span_of, watch_ns, windows_ns};
use super::steps::{step, step_both};
use super::windows::per_window;
use super::{Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
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
    let context = tenants.handles().setup.host.context();
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
