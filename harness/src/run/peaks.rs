//! The rate that each aggressor reaches alone, against the highest rate of its resource.
//!
//! The canary of a resource is the same kernel on the whole device with requests four times as
//! long, so that what a request costs besides its work weighs a quarter. Where several aggressors
//! of a plan stress one resource, the best of their canaries is the peak for all of them: one
//! that cannot get near it is too weak to show anything.

use std::collections::BTreeMap;

use gpubench_record::{CalibrationEntry, PeakEntry};
use gpubench_workloads::load;

use super::RunError;
use super::calibrate::one;
use super::tenant_set::TenantSet;
use crate::tenant::TenantError;

/// Length of a canary's requests in those of the cells.
const LONGER: u64 = 4;

/// One rate of work on one resource.
#[derive(Debug, Clone, PartialEq)]
struct Reached {
    /// Who reached it.
    who: String,
    /// On which resource; equal ones have equal units.
    resource: &'static str,
    unit: String,
    per_s: f64,
}

/// Measures the canary of every aggressor that was calibrated in `place`, whose context alone is
/// open. An aggressor without one stays out: nothing is held against it.
pub async fn measure(
    tenants: &mut TenantSet,
    slot: usize,
    aggressors: &BTreeMap<String, CalibrationEntry>,
) -> Result<BTreeMap<String, PeakEntry>, RunError> {
    let mut alone = Vec::new();
    let mut canaries = Vec::new();
    for (name, entry) in aggressors {
        let Ok(workload) = load::find(name) else {
            continue;
        };
        // A request that is one call of the driver cannot be made longer.
        if workload.knob.is_none() {
            continue;
        }
        let reached = |who: String, entry: &CalibrationEntry| Reached {
            who,
            resource: workload.resource,
            unit: entry.unit.clone(),
            per_s: entry.native_rate_per_s * entry.work_per_request,
        };
        alone.push(reached(name.clone(), entry));
        let service_ns = LONGER * tenants.handles().setup.plan.service_ns;
        match one::ask(tenants, slot, name, 1.0, service_ns).await {
            Ok(entry) => canaries.push(reached(format!("{name}, {LONGER}x"), &entry)),
            Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
                tenants
                    .handles()
                    .recorder
                    .warning(format!("no canary of {}: {what}", workload.resource))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(hold(&alone, &canaries))
}

/// Each aggressor against the best canary of its resource; without one there is no entry.
fn hold(alone: &[Reached], canaries: &[Reached]) -> BTreeMap<String, PeakEntry> {
    let of = |one: &Reached| {
        let best = canaries
            .iter()
            .filter(|canary| canary.resource == one.resource && canary.unit == one.unit)
            .max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
        let entry = PeakEntry {
            alone_per_s: one.per_s,
            peak_per_s: best.per_s,
            detector: best.who.clone(),
            unit: one.unit.clone(),
        };
        Some((one.who.clone(), entry))
    };
    alone.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{Reached, hold};

    #[test]
    fn the_best_canary_of_the_same_resource_counts() {
        let reached = |who: &str, resource, unit: &str, per_s| Reached {
            who: who.to_owned(),
            resource,
            unit: unit.to_owned(),
            per_s,
        };
        let alone = [
            reached("copy", "DRAM", "bytes", 280.0),
            reached("slow-copy", "DRAM", "bytes", 100.0),
            reached("hog", "SMs", "operations", 8_000.0),
            reached("odd", "DRAM", "pages", 1.0),
        ];
        let canaries = [
            reached("copy, 4x", "DRAM", "bytes", 300.0),
            reached("slow-copy, 4x", "DRAM", "bytes", 110.0),
            reached("hog, 4x", "SMs", "operations", 8_100.0),
        ];
        let held = hold(&alone, &canaries);
        let told = |name: &str| {
            held.get(name)
                .map(|peak| (peak.alone_per_s, peak.peak_per_s, peak.detector.as_str()))
        };
        assert_eq!(told("copy"), Some((280.0, 300.0, "copy, 4x")));
        assert_eq!(told("slow-copy"), Some((100.0, 300.0, "copy, 4x")));
        assert_eq!(told("hog"), Some((8_000.0, 8_100.0, "hog, 4x")));
        assert_eq!(told("odd"), None, "no canary in its unit");
    }
}
