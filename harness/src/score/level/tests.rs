//! The tables of levels, with their boundaries.

use super::*;

fn estimate(ends: (f64, f64)) -> Estimate {
    let (lo, hi) = ends;
    Estimate {
        value: f64::midpoint(lo, hi),
        lo,
        hi,
        ends: gpubench_record::Ends::Interval,
        parts: None,
        n: 8,
        unit: "ratio".to_owned(),
    }
}

type Ends = (f64, f64);

fn range(r: Ends, g: Option<Ends>, i: Option<Ends>, capped: bool, t: &Thresholds) -> String {
    let (r, g, i) = (estimate(r), g.map(estimate), i.map(estimate));
    let resource = Resource { retention: &r, guarantee: g.as_ref(), index: i.as_ref(), capped };
    resource.range(t).to_string()
}

#[test]
fn the_table_of_resource_axes() {
    const FULL: Option<Ends> = Some((0.95, 1.0));
    const GOOD: Option<Ends> = Some((0.9, 1.0));
    let table: &[(Ends, Option<Ends>, Option<Ends>, &str)] = &[
        // A good mechanism, one that forfeits capacity, and no protection.
        ((0.97, 0.99), Some((0.97, 0.99)), Some((0.96, 0.98)), "L3"),
        ((0.99, 1.01), Some((0.49, 0.51)), Some((0.98, 1.02)), "L1"),
        ((0.49, 0.51), Some((0.49, 0.51)), Some((-0.01, 0.01)), "L0"),
        // Bounds belong to the better level.
        ((0.95, 1.0), Some((0.80, 0.9)), GOOD, "L3"),
        ((0.80, 0.949), FULL, GOOD, "L2"),
        ((0.60, 0.799), FULL, Some((0.2, 0.9)), "L1"),
        ((0.60, 0.799), FULL, Some((0.1, 0.2)), "L0"),
        ((0.60, 0.799), FULL, Some((0.2, 0.2)), "L1"),
        // Straddling.
        ((0.949, 1.0), FULL, GOOD, "L2..L3"),
        ((0.799, 0.94), FULL, GOOD, "L1..L2"),
        ((0.799, 1.0), FULL, GOOD, "L1..L3"),
        ((0.60, 0.799), FULL, Some((0.1, 0.3)), "L0..L1"),
        ((0.60, 0.81), FULL, Some((0.0, 0.1)), "L0..L2"),
        ((0.96, 1.0), Some((0.79, 0.81)), GOOD, "L1..L3"),
        ((0.85, 0.90), Some((0.79, 0.81)), GOOD, "L1..L2"),
        // Isolated, but capacity forfeited; an index below its bound does not matter then.
        ((0.85, 0.90), Some((0.5, 0.799)), GOOD, "L1"),
        ((0.79, 0.90), Some((0.5, 0.6)), GOOD, "L1"),
        ((0.79, 0.90), Some((0.5, 0.6)), Some((0.0, 0.1)), "L0..L1"),
        // No bound for the index.
        ((0.60, 0.70), FULL, None, "L0..L1"),
        ((0.96, 1.0), FULL, None, "L3"),
    ];
    let thresholds = Thresholds::default();
    for (r, g, i, want) in table {
        assert_eq!(range(*r, *g, *i, false, &thresholds), *want, "R {r:?} G {g:?} I {i:?}");
    }
}

#[test]
fn without_references_l2_is_the_best_level() {
    let thresholds = Thresholds::default();
    for (r, want) in [
        ((0.99, 1.0), "L2"),
        ((0.94, 0.96), "L2"),
        ((0.79, 0.96), "L0..L2"),
        ((0.40, 0.50), "L0..L1"),
    ] {
        assert_eq!(range(r, None, None, true, &thresholds), want, "{r:?}");
    }
    let short = Some((0.4, 0.5));
    assert_eq!(range((0.99, 1.0), short, None, true, &thresholds), "L1");
}

#[test]
fn levels_follow_the_thresholds_of_the_profile() {
    let (r, g, i) = ((0.90, 0.92), Some((0.90, 0.92)), Some((0.85, 0.9)));
    let default = Thresholds::default();
    assert_eq!(range(r, g, i, false, &default), "L2");
    for (thresholds, want) in [
        (Thresholds { retention_l3: 0.90, ..default.clone() }, "L3"),
        (Thresholds { retention_l3: 0.91, ..default.clone() }, "L2..L3"),
        (Thresholds { retention_l2: 0.93, ..default.clone() }, "L1"),
        (Thresholds { retention_l2: 0.91, ..default.clone() }, "L1..L2"),
        (Thresholds { guarantee_l3: 0.93, ..default.clone() }, "L1"),
        (Thresholds { retention_l2: 0.93, index_l1: 0.95, ..default.clone() }, "L0"),
    ] {
        assert_eq!(range(r, g, i, false, &thresholds), want, "{thresholds:?}");
    }
}

#[test]
fn the_table_of_jitter() {
    let default = Thresholds::default();
    for (ends, want) in [
        ((-0.2, 0.10), "L3"),
        ((0.101, 1.0), "L2"),
        ((1.001, 7.0), "L0"),
        ((0.05, 0.5), "L2..L3"),
        ((0.10, 0.5), "L2..L3"),
        ((0.5, 1.1), "L0..L2"),
        ((0.0, 9.0), "L0..L3"),
    ] {
        assert_eq!(of_jitter(&estimate(ends), &default).to_string(), want, "{ends:?}");
    }
    let strict = Thresholds { jitter_negligible: 0.01, jitter_low_medium: 0.04, ..default };
    assert_eq!(of_jitter(&estimate((0.05, 0.5)), &strict).to_string(), "L0");
}

#[test]
fn the_weaker_of_two_ranges_keeps_its_open_levels() {
    let doubt = LevelRange { worst: Level::L1, best: Level::L3 };
    assert_eq!(doubt.weaker(LevelRange::at(Level::L2)).to_string(), "L1..L2");
    assert_eq!(doubt.weaker(LevelRange::at(Level::L0)).to_string(), "L0");
}
