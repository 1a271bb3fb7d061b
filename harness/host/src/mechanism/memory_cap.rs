//! A limit on the memory of each tenant, for every mechanism that sets one: its size, the
//! allocation that exceeds it, and its two proofs.

use gpubench_record::Proof;

use super::interface::Requirement;
use super::{HostFacts, Observation};

/// Part of the limit by which a tenant's allocation exceeds it. The proof asks whether the limiter
/// acts; how far a tenant gets over its limit is a score, with a level up to 10 %.
const BEYOND: f64 = 0.25;

pub(super) const OVER_LIMIT: Requirement =
    Requirement::once("an allocation beyond the limit is refused");
/// Tenants see the limit as their memory.
pub(super) const SHOWN: Requirement =
    Requirement::at_open("the memory that each tenant sees is its limit");

/// A percentage of the device's memory.
pub(super) fn part_mib(facts: &HostFacts, pct: u32) -> u64 {
    facts.memory_mib * u64::from(pct) / 100
}

/// A limit of that percentage; `None` where tenants have no more without it: the driver keeps a
/// part of the device's memory for itself.
pub(super) fn limit_mib(facts: &HostFacts, pct: u32) -> Option<u64> {
    let mib = part_mib(facts, pct);
    (mib < facts.memory_mib.saturating_sub(facts.reserved_mib)).then_some(mib)
}

/// Size of an allocation that a limit must refuse: a quarter more than the limit, and at most half
/// way from the limit to the memory that tenants have, which itself must have room for it.
pub(super) fn beyond_bytes(facts: &HostFacts, limit_mib: u64) -> u64 {
    let usable_mib = facts.memory_mib.saturating_sub(facts.reserved_mib);
    let half_way_mib = usable_mib.saturating_sub(limit_mib) / 2;
    let quarter_mib = (limit_mib as f64 * BEYOND) as u64;
    (limit_mib + quarter_mib.min(half_way_mib).max(1)) << 20
}

/// Whether an allocation beyond its limit was refused to every tenant.
pub(super) fn over_limit(observed: &Observation) -> Option<Proof> {
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    const OUT_OF_MEMORY: i32 = 2;
    let tried: Vec<_> = observed
        .tenants
        .iter()
        .filter_map(|tenant| Some((tenant, tenant.over_limit.as_ref()?)))
        .collect();
    if tried.is_empty() {
        return None;
    }
    let holds = tried.len() == observed.tenants.len()
        && tried.iter().all(|(_, tried)| tried.refused_with == Some(OUT_OF_MEMORY));
    let reported: Vec<String> = tried
        .iter()
        .map(|(tenant, tried)| {
            let result = tried
                .refused_with
                .map_or_else(|| "granted".to_owned(), |code| format!("refused with {code}"));
            format!("{}: {} MiB {result}", tenant.name(), tried.bytes >> 20)
        })
        .collect();
    Some(Proof { limiter: holds, ..OVER_LIMIT.proof(holds, reported.join(", ")) })
}

/// Whether the memory that every tenant sees is its limit.
pub(super) fn shown(limit_mib: u64, observed: &Observation) -> Proof {
    let reported: Vec<Option<u64>> = observed
        .tenants
        .iter()
        .map(|tenant| Some(tenant.number("memory_total_bytes")? >> 20))
        .collect();
    let holds = reported.iter().all(|mib| *mib == Some(limit_mib));
    let evidence = format!("the limit is {limit_mib} MiB, tenants see {reported:?} MiB");
    SHOWN.proof(holds, evidence)
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{HostFacts, beyond_bytes, limit_mib, over_limit, shown};
    use crate::mechanism::{Observation, OverLimit, TenantObservation};

    fn observed(tenants: Vec<TenantObservation>) -> Observation {
        Observation { tenants, ..Observation::new(Condition::C, vec![7, 8]) }
    }

    #[test]
    fn the_tried_allocation_exceeds_every_scored_overshoot_and_fits_the_device() {
        let facts = HostFacts { memory_mib: 80_000, ..HostFacts::default() };
        for (limit_mib, tried_mib) in [(40_000, 50_000), (8_000, 10_000), (76_000, 78_000)] {
            assert_eq!(beyond_bytes(&facts, limit_mib) >> 20, tried_mib);
        }
    }

    #[test]
    fn a_limit_that_leaves_what_tenants_have_in_any_case_is_none() {
        let facts = HostFacts { memory_mib: 81_920, reserved_mib: 640, ..HostFacts::default() };
        let found = [1, 50, 99, 100].map(|pct| limit_mib(&facts, pct));
        assert_eq!(found, [Some(819), Some(40_960), Some(81_100), None]);
        assert!(beyond_bytes(&facts, 81_100) >> 20 < 81_280);
    }

    #[test]
    fn every_tenant_must_be_refused_an_allocation_beyond_the_limit() {
        let with = |results: &[Option<i32>]| {
            let mut tenants = vec![TenantObservation::default(), TenantObservation::default()];
            for (tenant, &refused_with) in tenants.iter_mut().zip(results) {
                let bytes = 1 << 30;
                tenant.over_limit = Some(OverLimit { bytes, refused_with });
            }
            over_limit(&observed(tenants)).map(|proof| proof.holds)
        };
        assert_eq!(with(&[Some(2), Some(2)]), Some(true));
        assert_eq!(with(&[Some(2), None]), Some(false));
        assert_eq!(with(&[Some(2), Some(1)]), Some(false));
        assert_eq!(with(&[Some(2)]), Some(false), "one of two did not try");
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn every_tenant_must_see_its_limit_as_its_memory() {
        for (mib, expected) in [(Some(8_192), true), (Some(16_384), false), (None, false)] {
            let reported =
                mib.map(|mib: u64| ("memory_total_bytes".to_owned(), (mib << 20).to_string()));
            let tenant = TenantObservation {
                facts: reported.into_iter().collect(),
                ..TenantObservation::default()
            };
            let proof = shown(8_192, &observed(vec![tenant]));
            assert_eq!(proof.holds, expected, "{proof:?}");
        }
    }
}
