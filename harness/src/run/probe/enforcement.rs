//! `enforcement`: how long a compute cap takes to act. A tenant that has just been started launches
//! arithmetic that fills every SM without a pause, and its work is counted from the first launch
//! on.
//!
//! A limiter that acts on measurements lets everything pass at first, and again in each new
//! process; one of the device or of its driver acts at once. So each trial is a new process.

use std::time::Duration;

use gpubench_record::{BypassRun, CompletedRequests, ProbeFound, SubmitRoute, WorkSeries};

use super::baseline::FullDeviceBaseline;
use super::limit_bypass::submit;
use super::share::configured_ppm;
use super::steps::restart_victim;
use super::windows::per_window;
use super::{Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
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
