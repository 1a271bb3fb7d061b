//! What the observation of a cell costs the victim, measured in pairs with and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_record::calibration::ObservationCost;

use super::one::with_retries;
use crate::device::BlockingCall;
use crate::run::RunError;
use crate::run::snapshot::Snapshot;
use crate::run::tenant_set::TenantSet;

/// Pairs of measurements; the order within a pair alternates.
const PAIRS: usize = 4;
/// Longest wait for the last observation.
const LIMIT: Duration = Duration::from_secs(60);

/// Measures it on the only tenant with an open context, which calibrates this victim again and
/// again.
pub async fn measure(
    tenants: &mut TenantSet,
    victim: &str,
    share: f64,
) -> Result<ObservationCost, RunError> {
    let mut cost = ObservationCost {
        victim: victim.to_owned(),
        ratios: Vec::new(),
        observations: 0,
        mean_ns: 0,
    };
    let mut total_ns = 0;
    for pair in 0..PAIRS {
        let mut rates = [0.0; 2];
        for half in 0..2 {
            let is_observed = (pair + half) % 2 == 1;
            let observer = is_observed.then(|| Observer::start(tenants)).transpose()?;
            let entry = with_retries(tenants, 0, victim, share).await;
            if let Some(observer) = observer {
                let (count, elapsed_ns) = observer.stop().await?;
                cost.observations += count;
                total_ns += elapsed_ns;
            }
            let entry = entry?;
            rates[usize::from(is_observed)] = entry.native_rate_per_s * entry.work_per_request;
        }
        cost.ratios.push(rates[1] / rates[0]);
    }
    cost.mean_ns = total_ns / cost.observations.max(1);
    Ok(cost)
}

/// Takes snapshots back to back.
struct Observer {
    thread: BlockingCall<(u64, u64)>,
    stop: Arc<AtomicBool>,
}

impl Observer {
    fn start(tenants: &TenantSet) -> Result<Self, RunError> {
        let setup = &tenants.handles().setup;
        let (clock, nvml) = (setup.clock.clone(), Arc::clone(&setup.nvml));
        let scope = tenants.snapshot_scope();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = BlockingCall::start("observing the device", move || {
            let (began_ns, mut count) = (clock.now_ns(), 0);
            while !flag.load(Ordering::Relaxed) {
                let _ = Snapshot::take(&clock, &nvml, &scope);
                count += 1;
            }
            (count, clock.now_ns() - began_ns)
        })?;
        Ok(Self { thread, stop })
    }

    async fn stop(mut self) -> Result<(u64, u64), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.within(LIMIT).await?)
    }
}
