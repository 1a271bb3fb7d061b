//! How long a cap of compute takes to act: a tenant that has just been started launches arithmetic
//! that fills every SM without a pause, and the work it gets done is counted from its first launch
//! on. Nothing is judged here.
//!
//! A limiter that acts by measuring lets everything through at first, and again whenever a process
//! is new; one of the device or of its driver acts at once. Each time is a process of its own.

use std::time::Duration;

use gpubench_record::{BypassRun, BypassWay, ProbeFound, WorkSeries, Worked};

use super::limit_bypass::submit;
use super::share::{FullDeviceBaseline, configured_ppm};
use super::windows::per_window;
use super::{VICTIM, fresh};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Of six values the least and the greatest bound the median with 97 %.
const TRIALS: usize = 6;
/// How long the work is watched, and in which steps it is counted.
const WATCH: Duration = Duration::from_secs(4);
const STEP: Duration = Duration::from_millis(20);
/// Over this length a share is held against the cap. HAMi-core looks at the utilisation of the last
/// second (`multiprocess_utilization_watcher.c`): what is shorter, it does not claim to limit.
const WINDOW: Duration = Duration::from_secs(1);

/// The victim alone, again and again, where its compute has a cap.
pub async fn enforce(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let limit_ppm = configured_ppm(tenants);
    let mut trials = Vec::new();
    while limit_ppm.is_some() && trials.len() < TRIALS {
        fresh(tenants).await?;
        let launched = submit(tenants, BypassWay::Launches, &baseline.spec, WATCH).await?;
        trials.push(series(launched));
    }
    Ok(ProbeFound::Enforce {
        limit_ppm,
        window_ns: WINDOW.as_nanos() as u64,
        trials,
    })
}

/// Work by steps, from the first launch on.
fn series(launched: BypassRun) -> WorkSeries {
    let last_ns = launched.ended_ns.last().copied().unwrap_or(0);
    let worked = Worked {
        host_ns: (0, last_ns),
        began_ns: 0,
        ended_ns: launched.ended_ns,
    };
    per_window(&worked, STEP.as_nanos() as u64, (0, last_ns))
}
