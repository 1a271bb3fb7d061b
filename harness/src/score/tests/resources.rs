//! Worked cases of the resource axes: figures, levels, words and the overall level.

use std::collections::BTreeMap;

use gpubench_record::{
    CellResult, CellTenant, Condition, OutcomeKind, Role, TenantIdentity, TenantResult, Thresholds,
    WorkloadSpec,
};

use super::lab::{Lab, MIG, QUOTA, SLICING, rate, verdict};
use crate::score::look;

fn close(estimate: Option<&gpubench_record::Estimate>, want: f64) {
    let found = estimate.expect("a figure");
    assert!((found.value - want).abs() < 1e-9, "{found:?}, want {want}");
    assert!(found.lo <= found.value && found.value <= found.hi);
}

/// Two tenants share the time: R = G = U = 0.5. A fair share is no isolation.
#[test]
fn time_slicing_has_no_protection() {
    let lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let row = lab.row(SLICING, "compute");
    assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{:?}", row.outcome);
    close(row.retention.as_ref(), 0.5);
    close(row.guarantee.as_ref(), 0.5);
    close(row.effectiveness.as_ref(), 0.5);
    close(row.efficiency.as_ref(), 1.0);
    close(row.isolation_index.as_ref(), 0.0);
    assert_eq!(verdict(&row), (Some("L0"), Some("None")));
    assert_eq!(row.u_kind.as_deref(), Some("time-slicing (identity)"));
    assert_eq!(row.aggressor.as_deref(), Some("fma-hog"));
    assert_eq!(row.sub_axis.as_deref(), Some("sm"));
    assert_eq!(row.claimed, ["S0: None", "S1: None"]);
    assert_eq!(row.requests, 8 * 2 * 850);
    assert_eq!(row.retention.map(|r| (r.n, r.unit)), Some((8, "ratio".to_owned())));
    assert_eq!(row.isolation_index.map(|i| (i.n, i.unit)), Some((8, "index".to_owned())));
    assert_eq!(row.warnings, Vec::<String>::new());
    let overall = lab.overall(SLICING);
    assert_eq!(overall.level.as_deref(), Some("L0"));
    assert_eq!(overall.weakest_axis.as_deref(), Some("compute"));
    assert_eq!(overall.unmeasured_axes, Vec::<String>::new());
}

/// MIG 3g: R = 0.98, O = 1.0, an aggressor that halves the unprotected rate: I = 0.97.
#[test]
fn a_partition_with_high_retention_is_hardware() {
    let mut lab = Lab::protected(MIG, [1000.0, 1000.0, 980.0, 500.0]);
    lab.prove(MIG, true, false);
    let row = lab.row(MIG, "compute");
    close(row.isolation_index.as_ref(), 1.0 - 0.98_f64.ln() / 0.5_f64.ln());
    assert_eq!(row.isolation_index.as_ref().map(|i| (i.value * 100.0).round()), Some(97.0));
    assert_eq!(verdict(&row), (Some("L3"), Some("Hardware")));
    assert_eq!(row.u_kind.as_deref(), Some("mps"));
    assert_eq!(row.warnings, ["bypass: not tried"]);
}

/// The mechanism halves the solo rate, and the neighbour does not change it.
#[test]
fn isolation_that_forfeits_capacity_is_partial() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 500.0, 500.0, 450.0]);
    lab.prove(QUOTA, false, true);
    let row = lab.row(QUOTA, "compute");
    close(row.retention.as_ref(), 1.0);
    close(row.guarantee.as_ref(), 0.5);
    assert_eq!(verdict(&row), (Some("L1"), Some("Partial")));
    assert_eq!(row.warnings, ["isolated, but capacity forfeited"]);
}

#[test]
fn levels_and_words_follow_rates_and_evidence() {
    /// Rates of N, S, C, U; hardware, limiter; level, word.
    type Case = ([f64; 4], (bool, bool), &'static str, &'static str);
    let table: &[Case] = &[
        ([1e3, 1e3, 990.0, 500.0], (true, true), "L3", "Hardware"),
        ([1e3, 1e3, 990.0, 500.0], (false, true), "L3", "Software"),
        ([1e3, 1e3, 990.0, 500.0], (false, false), "L3", "Partial"),
        ([1e3, 1e3, 900.0, 500.0], (true, false), "L2", "Software"),
        ([1e3, 1e3, 900.0, 500.0], (false, false), "L2", "Partial"),
        ([1e3, 1e3, 700.0, 500.0], (true, true), "L1", "Partial"),
        ([1e3, 1e3, 520.0, 500.0], (true, true), "L0", "None"),
        ([1e3, 1e3, 400.0, 500.0], (true, true), "L0", "None"),
    ];
    for (rates, (hardware, limiter), level, word) in table {
        let mut lab = Lab::protected(QUOTA, *rates);
        lab.prove(QUOTA, *hardware, *limiter);
        let row = lab.row(QUOTA, "compute");
        assert_eq!(verdict(&row), (Some(*level), Some(*word)), "{rates:?}: {row:?}");
        assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    }
}

/// Retention alternates between 0.93 and 0.97: its interval contains 0.95.
#[test]
fn a_straddling_interval_prints_both_levels_and_the_blocks_needed() {
    let lab = Lab::new(&[(QUOTA, Some("mps"))], 8, |_, condition, block| {
        rate(match (condition, block % 2) {
            (Condition::U, _) => 500.0,
            (Condition::C, 0) => 935.0,
            (Condition::C, _) => 970.0,
            _ => 1000.0,
        })
    });
    let row = lab.row(QUOTA, "compute");
    assert_eq!((row.level.as_deref(), row.word), (Some("L2..L3"), None));
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.starts_with("L2..L3: retention straddles 0.95: about "), "{reason}");
    assert!(reason.ends_with(" blocks are needed, 8 are there"), "{reason}");
    // The list from which a top-up is planned.
    let straddling = look(&lab.input()).unwrap().straddling;
    let found: Vec<(u32, bool)> = straddling
        .iter()
        .map(|one| (one.blocks, reason.contains(&format!("about {} blocks", one.blocks_wanted))))
        .collect();
    assert_eq!(found, [(8, true)], "{straddling:?}");
    let place = straddling[0].row;
    assert_eq!(lab.score().matrix[place].axis, "compute");
    let overall = lab.overall(QUOTA);
    assert_eq!(overall.level.as_deref(), Some("L2..L3"), "jitter is L3");
    assert_eq!(overall.weakest_axis.as_deref(), Some("compute"));
}

#[test]
fn the_level_follows_the_thresholds() {
    let default = Thresholds::default();
    for (thresholds, want) in [
        (default.clone(), Some("L2")),
        (Thresholds { retention_l3: 0.85, ..default.clone() }, Some("L3")),
        (Thresholds { retention_l2: 0.92, ..default.clone() }, Some("L1")),
        (Thresholds { guarantee_l3: 0.95, ..default.clone() }, Some("L1")),
        (Thresholds { retention_l2: 0.92, index_l1: 0.95, ..default.clone() }, Some("L0")),
        (Thresholds { effectiveness_max: 0.4, ..default.clone() }, None),
    ] {
        let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0]);
        lab.plan.thresholds = thresholds.clone();
        let row = lab.row(QUOTA, "compute");
        assert_eq!(row.level.as_deref(), want, "{thresholds:?}: {:?}", row.outcome);
        assert_eq!(row.outcome.is_measured(), want.is_some());
    }
}

#[test]
fn without_native_or_unprotected_cells_l2_is_the_best_level() {
    let mut lab = Lab::protected(MIG, [1000.0, 1000.0, 990.0, 500.0]);
    lab.prove(MIG, true, false);
    lab.plan.mechanisms[0].unprotected = None;
    let row = lab.row(MIG, "compute");
    assert_eq!(verdict(&row), (Some("L2"), Some("Software")));
    assert!(row.effectiveness.is_none() && row.isolation_index.is_none() && row.u_kind.is_none());
    assert!(row.warnings.iter().any(|w| w.contains("L2 at most")), "{:?}", row.warnings);
    let native = |id: &str| id.ends_with("-N") || id.ends_with("-N'");
    lab.plan.cells.retain(|cell| !native(&cell.id));
    lab.cells.retain(|cell| !native(&cell.cell.id));
    let row = lab.row(MIG, "compute");
    assert_eq!(row.level.as_deref(), Some("L2"));
    assert!(row.guarantee.is_none() && row.efficiency.is_none());
    let jitter = lab.row(MIG, "jitter");
    assert_eq!((jitter.level, jitter.outcome.outcome), (None, OutcomeKind::Inconclusive));
}

/// The U cells of HAMi are the contended cells of time-slicing.
#[test]
fn contended_cells_of_the_unprotected_form_serve_as_u() {
    let variants = [(SLICING, Some(SLICING)), ("hami[cores=50]", Some(SLICING))];
    let lab = Lab::new(&variants, 8, |variant, condition, _| {
        rate(match (variant, condition) {
            (SLICING, Condition::C) => 500.0,
            (_, Condition::C) => 850.0,
            _ => 1000.0,
        })
    });
    let row = lab.row("hami[cores=50]", "compute");
    close(row.effectiveness.as_ref(), 0.5);
    assert_eq!(row.u_kind.as_deref(), Some(SLICING));
    assert_eq!(row.level.as_deref(), Some("L2"));
    assert_eq!(row.claimed, ["S0: Software", "S1: Soft"]);
}

/// The victim of a cell, whose context has these flags.
fn victim(context_flags: u32) -> TenantResult {
    let tenant = CellTenant {
        tenant: "victim".to_owned(),
        role: Role::Victim,
        workload: Some("compute".to_owned()),
    };
    let workload = WorkloadSpec { name: "compute".to_owned(), params: BTreeMap::new() };
    TenantResult {
        identity: Some(TenantIdentity { workload, context_flags: Some(context_flags) }),
        ..TenantResult::ready(&tenant, None)
    }
}

/// A ratio of two victims that wait in different ways says nothing about the conditions.
#[test]
fn victims_that_report_another_identity_are_not_compared() {
    let row = |contended: u32| {
        let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
        for (condition, flags) in [(Condition::S, 1), (Condition::C, contended)] {
            let set = |cell: &mut CellResult| cell.tenant_results = vec![victim(flags)];
            lab.each(condition).for_each(set);
        }
        lab.row(SLICING, "compute")
    };
    // 1 is to spin, 4 is to block; 8 is no wait policy.
    assert_eq!(row(1 | 8).outcome.outcome, OutcomeKind::Measured);
    let other = row(4);
    let reason = other.outcome.reason.unwrap_or_default();
    let says = "the victims of C and S differ: its context waits by flag 4, 1";
    assert!(reason.contains(says), "{reason}");
    assert_eq!(other.level, None);
}
