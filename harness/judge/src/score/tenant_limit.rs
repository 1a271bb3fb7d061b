//! The largest number of tenants at which a victim keeps its promised latency: the last measured
//! number before the first at which the promise breaks.
//!
//! The promise holds where at least the profile's share of the offered requests keep the latency.
//! The default, 99 %, is the rule of the server scenario of MLPerf Inference (Reddi et al., ISCA
//! 2020). The interval of the share gives the interval of the number. Numbers between the measured
//! ones are not interpolated.

use std::collections::BTreeMap;

use gpubench_record::{Condition, Ends, Estimate, Outcome, Plan, ServiceRow, SubAxis, TenantLimit};

const UNIT: &str = "tenants";

/// A victim beside an aggressor under a variant.
type Key<'a> = (&'a str, SubAxis, &'a str, &'a str);

/// One limit for each pair of each variant, in the order of the rows; none where the profile has no
/// promise or no sweep.
pub(super) fn limits(plan: &Plan, rows: &[ServiceRow]) -> Vec<TenantLimit> {
    if plan.slo_ns.is_none() || plan.sweep.is_empty() {
        return Vec::new();
    }
    let mut order: Vec<Key<'_>> = Vec::new();
    let mut beside: BTreeMap<Key<'_>, Vec<&ServiceRow>> = BTreeMap::new();
    let usual = || rows.iter().filter(|row| row.shape.is_usual());
    for row in usual().filter(|row| row.condition == Condition::C) {
        let Some(aggressor) = row.aggressor.as_deref() else {
            continue;
        };
        let key = (row.variant.as_str(), row.sub_axis, row.victim.as_str(), aggressor);
        if !order.contains(&key) {
            order.push(key);
        }
        beside.entry(key).or_default().push(row);
    }
    order
        .into_iter()
        .filter_map(|key| {
            let (variant, sub_axis, victim, _) = key;
            let is_solo = |row: &&ServiceRow| {
                row.condition == Condition::S
                    && (row.variant.as_str(), row.sub_axis, row.victim.as_str())
                        == (variant, sub_axis, victim)
            };
            let solo = usual().find(is_solo);
            let mut measured: Vec<&ServiceRow> = solo.into_iter().collect();
            measured.extend(beside.remove(&key)?);
            measured.sort_by_key(|row| row.tenants);
            Some(limit(key, plan.slo_share, &measured))
        })
        .collect()
}

fn limit(
    (variant, sub_axis, victim, aggressor): Key<'_>,
    needed: f64,
    tried: &[&ServiceRow],
) -> TenantLimit {
    let mechanism = tried.first().map_or("", |row| &row.mechanism);
    // Rows beyond the first number that surely breaks the promise do not matter.
    let breaks = |row: &&ServiceRow| {
        let share = row.within_slo.as_ref().filter(|_| row.outcome.is_measured());
        share.is_some_and(|share| share.hi < needed)
    };
    let last = tried.iter().position(breaks);
    let counted = &tried[..last.map_or(tried.len(), |at| at + 1)];
    let waived = counted.iter().find(|row| !row.outcome.is_measured());
    let tenants = estimate(needed, counted);
    let outcome = match (waived, &tenants) {
        (Some(row), _) => row.outcome.clone(),
        (None, None) => Outcome::inconclusive("a number of tenants has no share of requests"),
        (None, Some(found)) if found.ends == Ends::AtLeast && found.lo < found.value => {
            Outcome::inconclusive(format!(
                "at least {} tenants: the interval of a share holds {needed}",
                found.lo
            ))
        }
        (None, Some(found)) if found.ends == Ends::Interval && found.lo < found.hi => {
            Outcome::inconclusive(format!(
                "{} to {} tenants: the interval of a share holds {needed}",
                found.lo, found.hi
            ))
        }
        (None, Some(_)) => Outcome::measured(),
    };
    TenantLimit {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        sub_axis,
        victim: victim.to_owned(),
        aggressor: aggressor.to_owned(),
        outcome,
        tenants,
        tried: tried.iter().map(|row| row.tenants).collect(),
        share: needed,
    }
}

/// `None` where any of the numbers has no share.
fn estimate(needed: f64, tried: &[&ServiceRow]) -> Option<Estimate> {
    let shares: Option<Vec<(u32, &Estimate)>> =
        tried.iter().map(|row| Some((row.tenants, row.within_slo.as_ref()?))).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    let largest = |of: fn(&Estimate) -> f64| {
        let kept = shares.iter().take_while(|(_, share)| of(share) >= needed);
        kept.last().map_or(0.0, |(tenants, _)| f64::from(*tenants))
    };
    // Where the highest number may keep the promise too, higher ones may.
    let (hi, highest) = (largest(|share| share.hi), shares.last()?.0);
    let ends = if hi == f64::from(highest) { Ends::AtLeast } else { Ends::Interval };
    Some(Estimate {
        value: largest(|share| share.value),
        lo: largest(|share| share.lo),
        hi: if ends == Ends::AtLeast { f64::INFINITY } else { hi },
        ends,
        parts: None,
        n: shares.iter().map(|(_, share)| share.n).min().unwrap_or(0),
        unit: UNIT.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use gpubench_record::Shape;

    use super::*;

    fn row(tenants: u32, share: Option<[f64; 3]>) -> ServiceRow {
        ServiceRow {
            mechanism: "time-slicing".to_owned(),
            variant: "time-slicing".to_owned(),
            sub_axis: SubAxis::Sm,
            victim: "compute".to_owned(),
            condition: if tenants == 1 { Condition::S } else { Condition::C },
            aggressor: (tenants > 1).then(|| "fma-hog".to_owned()),
            tenants,
            shape: Shape::default(),
            at_load: None,
            outcome: Outcome::measured(),
            retention: None,
            within_slo: share.map(|[lo, value, hi]| Estimate {
                value,
                lo,
                hi,
                ends: Ends::Interval,
                parts: None,
                n: 8,
                unit: "ratio".to_owned(),
            }),
            requests: 1_000,
        }
    }

    fn found(rows: &[ServiceRow]) -> TenantLimit {
        found_with(0.99, rows)
    }

    fn found_with(needed: f64, rows: &[ServiceRow]) -> TenantLimit {
        let rows: Vec<&ServiceRow> = rows.iter().collect();
        let key = ("time-slicing", SubAxis::Sm, "compute", "fma-hog");
        limit(key, needed, &rows)
    }

    const ALL: [f64; 3] = [0.995, 1.0, 1.0];
    const NONE: [f64; 3] = [0.0, 0.1, 0.2];

    #[test]
    fn the_last_number_before_the_first_failure_counts() {
        let unbounded = f64::INFINITY;
        for (shares, expected, hi) in [
            ([ALL, ALL, NONE, NONE], 2.0, 2.0),
            // Never exceeded: 8 is the highest number tried and no limit.
            ([ALL, ALL, ALL, ALL], 8.0, unbounded),
            ([NONE, NONE, NONE, NONE], 0.0, 0.0),
            // Larger numbers do not count after the first failure.
            ([ALL, NONE, ALL, ALL], 1.0, 1.0),
        ] {
            let rows: Vec<ServiceRow> = [1, 2, 4, 8]
                .into_iter()
                .zip(shares)
                .map(|(tenants, share)| row(tenants, Some(share)))
                .collect();
            let limit = found(&rows);
            let tenants = limit.tenants.expect("a number");
            assert_eq!(
                [tenants.lo, tenants.value, tenants.hi],
                [expected, expected, hi],
                "{shares:?}"
            );
            assert_eq!(tenants.ends == Ends::AtLeast, hi == unbounded, "{shares:?}");
            assert!(limit.outcome.is_measured());
            assert_eq!((limit.tried, tenants.n), (vec![1, 2, 4, 8], 8));
        }
    }

    #[test]
    fn an_interval_around_the_needed_share_gives_an_interval_of_numbers() {
        let rows = [row(1, Some(ALL)), row(2, Some([0.97, 0.992, 0.999])), row(4, Some(NONE))];
        let limit = found(&rows);
        let tenants = limit.tenants.expect("a number");
        assert_eq!([tenants.lo, tenants.value, tenants.hi], [1.0, 2.0, 2.0]);
        let reason = limit.outcome.reason.unwrap_or_default();
        assert_eq!(reason, "1 to 2 tenants: the interval of a share holds 0.99");
    }

    #[test]
    fn a_promise_that_may_hold_at_the_highest_number_gives_a_bound() {
        let limit = found(&[row(1, Some(ALL)), row(2, Some([0.97, 0.992, 0.999]))]);
        let tenants = limit.tenants.expect("a number");
        assert_eq!((tenants.ends, tenants.lo, tenants.value), (Ends::AtLeast, 1.0, 2.0));
        let reason = limit.outcome.reason.unwrap_or_default();
        assert_eq!(reason, "at least 1 tenants: the interval of a share holds 0.99");
    }

    #[test]
    fn the_promised_share_decides() {
        let rows =
            [row(1, Some(ALL)), row(2, Some([0.93, 0.95, 0.97])), row(4, Some([0.60, 0.65, 0.70]))];
        for (needed, expected) in [(0.99, 1.0), (0.9, 2.0), (0.5, 4.0), (0.999, 1.0)] {
            let limit = found_with(needed, &rows);
            let tenants = limit.tenants.expect("a number");
            assert_eq!((tenants.value, limit.share), (expected, needed));
        }
        // 0.999 lies within the interval of the first share.
        assert!(!found_with(0.999, &rows).outcome.is_measured());
    }

    #[test]
    fn a_number_without_a_share_leaves_no_limit() {
        let limit = found(&[row(1, Some(ALL)), row(2, None)]);
        assert_eq!(limit.tenants, None);
        assert!(!limit.outcome.is_measured());
        let mut waived = row(2, None);
        waived.outcome = Outcome::waived("no eight instances");
        let limit = found(&[row(1, Some(ALL)), waived]);
        assert_eq!(limit.outcome.reason.as_deref(), Some("no eight instances"));
        // Not where a smaller number has broken the promise.
        let mut beyond = row(4, None);
        beyond.outcome = Outcome::inconclusive("too few requests");
        let limit = found(&[row(1, Some(ALL)), row(2, Some(NONE)), beyond]);
        assert!(limit.outcome.is_measured(), "{limit:?}");
        assert_eq!(limit.tenants.map(|tenants| tenants.value), Some(1.0));
    }
}
