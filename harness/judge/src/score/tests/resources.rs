//! Worked cases of the resource axes: figures, levels, words and the overall level.

use std::collections::BTreeMap;

use gpubench_record::{
    CellResult, CellTenant, Condition, Gate, GateKind, GateScope, GateState, OutcomeKind, Role,
    TenantIdentity, TenantResult, Thresholds, WorkloadSpec,
};

use super::lab::{Figures, Lab, MIG, QUOTA, SLICING, gate, lone_ns, rate, verdict};
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
        (Thresholds { retention_l2: 0.93, retention_l1: 0.92, ..default.clone() }, Some("L0")),
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
fn without_native_cells_l2_is_the_best_level() {
    let mut lab = Lab::protected(MIG, [1000.0, 1000.0, 990.0, 500.0]);
    lab.prove(MIG, true, false);
    lab.plan.mechanisms[0].unprotected = None;
    let row = lab.row(MIG, "compute");
    assert_eq!(row.level.as_deref(), Some("L3"));
    assert!(row.effectiveness.is_none() && row.isolation_index.is_none() && row.u_kind.is_none());
    assert!(row.warnings.iter().any(|w| w.contains("no index")), "{:?}", row.warnings);
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

// Worked cases of the jitter axis.

/// The harness was late in the open loop of this cell.
fn spoil(cell: &mut CellResult) {
    let why = "p99 of an idle issuer is 30000 ns";
    cell.gates.push(gate(Gate::Lateness, GateKind::Disturbance, GateScope::OpenLoop, why));
}

#[test]
fn a_late_harness_spoils_the_tail_and_neither_rate_nor_jitter() {
    for condition in [Condition::N, Condition::C] {
        let mut lab = tails(1.2, 1.2, 4.0);
        lab.each(condition).take(1).for_each(spoil);
        let row = lab.row(SLICING, "jitter");
        assert!(row.outcome.is_measured(), "{:?}", row.outcome);
        assert_eq!(row.tail_at_load.map(|tail| tail.n), Some(7));
        assert_eq!(row.jitter.map(|jitter| jitter.n), Some(8));
        let rate = lab.row(SLICING, "compute");
        assert_eq!(rate.outcome.outcome, OutcomeKind::Measured, "{rate:?}");
        assert_eq!(rate.retention.map(|retention| retention.n), Some(8));
    }
}

/// Tails of N, S and C in native medians; the median of C is 1.5.
fn tails(native: f64, solo: f64, contended: f64) -> Lab {
    Lab::new(&[(SLICING, Some(SLICING))], 8, |_, condition, block| {
        let wobble = 0.002 * f64::from(block % 2);
        let (p50, p99) = match condition {
            Condition::N | Condition::NAgain => (1.0, native),
            Condition::S | Condition::SAgain => (1.0, solo),
            Condition::C | Condition::U => (1.5, contended + wobble),
        };
        Figures { rate_per_s: if condition == Condition::C { 500.0 } else { 1000.0 }, p50, p99 }
    })
}

#[test]
fn levels_and_words_of_jitter() {
    for (contended, value, level, word) in [
        (1.85, 0.051, "L3", "Negligible"),
        (2.1, 0.301, "L2", "Low-Medium"),
        (4.0, 2.201, "L0", "High"),
        (1.7, -0.099, "L3", "Negligible"),
    ] {
        let row = tails(1.2, 1.21, contended).row(SLICING, "jitter");
        assert!(row.outcome.is_measured(), "{:?}", row.outcome);
        let jitter = row.jitter.as_ref().expect("a figure");
        assert!((jitter.value - value).abs() < 1e-5, "{jitter:?}, want {value}");
        assert_eq!((jitter.n, jitter.unit.as_str()), (8, "native medians"));
        assert_eq!(verdict(&row), (Some(level), Some(word)));
        assert!(row.retention.is_none() && row.u_kind.is_none());
        assert_eq!(
            (row.sub_axis.as_deref(), row.aggressor.as_deref()),
            (Some("sm"), Some("fma-hog"))
        );
        assert_eq!(row.requests, 8 * 2 * 450);
        assert_eq!(row.claimed, ["S0: High"]);
        // The tail holds the slower median as well.
        let tail = row.tail_at_load.expect("a figure").value;
        assert!((tail - value - 0.1).abs() < 1e-5, "{tail}");
        assert!(row.warnings.iter().any(|text| text.starts_with("tail at the offered load ")));
    }
}

#[test]
fn jitter_that_straddles_a_bound_has_both_levels() {
    let mut lab = tails(1.2, 1.2, 1.8);
    let rates = [1.82, 2.0, 1.85, 1.95, 1.84, 1.92, 1.88, 1.91];
    for (cell, p99) in lab.each(Condition::C).zip(rates) {
        cell.figures.open_latency_p99_ns = Some(p99 * 1e6);
        cell.lone_ns = lone_ns(&cell.figures);
    }
    let row = lab.row(SLICING, "jitter");
    assert_eq!((row.level.as_deref(), row.word), (Some("L2..L3"), None), "{:?}", row.jitter);
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("jitter straddles 0.1"), "{reason}");
}

#[test]
fn jitter_of_too_few_lone_requests_says_how_many_blocks_it_takes() {
    let mut lab = tails(1.2, 1.2, 2.0);
    lab.each(Condition::C).for_each(|cell| cell.lone_ns.truncate(100));
    let row = lab.row(SLICING, "jitter");
    assert!(row.jitter.is_none() && row.level.is_none());
    let reason = row.outcome.reason.unwrap_or_default();
    let says = "4 groups of 200 requests that found no other, 6 are needed: 12 blocks of these";
    assert!(reason.contains(says), "{reason}");
    assert!(row.tail_at_load.is_some(), "its requests are others");
}

#[test]
fn turns_need_a_sparse_phase_and_old_records_have_no_lone_requests() {
    let mut lab = tails(1.2, 1.2, 2.0);
    let all = [Condition::N, Condition::NAgain, Condition::C];
    for condition in all {
        lab.each(condition).for_each(|cell| cell.cell.sparse = None);
    }
    lab.plan.cells.iter_mut().for_each(|cell| cell.sparse = None);
    let reason = |lab: &Lab| lab.row(SLICING, "jitter").outcome.reason.unwrap_or_default();
    assert!(reason(&lab).contains("tenants take turns"), "{}", reason(&lab));
    for condition in all {
        lab.each(condition).for_each(|cell| cell.lone_ns.clear());
    }
    assert!(reason(&lab).contains("formats before 2.4"), "{}", reason(&lab));
    assert!(lab.row(SLICING, "jitter").tail_at_load.is_some());
}

fn overload(lab: &mut Lab, blocks: usize) {
    lab.each(Condition::C).take(blocks).for_each(|cell| {
        for gate in cell.gates.iter_mut().filter(|gate| gate.gate == Gate::Overload) {
            gate.state = GateState::NotEvaluated;
        }
        (cell.figures.open_latency_p50_ns, cell.figures.open_latency_p99_ns) = (None, None);
        cell.figures.goodput_per_s = Some(200.0);
        cell.figures.backlog_slope_per_s = Some(50.0);
    });
}

#[test]
fn an_overload_leaves_no_tail_and_changes_no_jitter() {
    for blocks in [8, 1] {
        let mut lab = tails(1.2, 1.2, 1.85);
        overload(&mut lab, blocks);
        let row = lab.row(SLICING, "jitter");
        assert_eq!(verdict(&row), (Some("L3"), Some("Negligible")), "{:?}", row.outcome);
        assert!(row.tail_at_load.is_none(), "no percentiles");
        let warning = format!(
            "overloaded beside the aggressor in {blocks} of 8 blocks: offered 250.0 per s, \
             goodput 200.0 per s, backlog slope 50.0 per s"
        );
        assert!(row.warnings.iter().any(|text| text.starts_with(&warning)), "{:?}", row.warnings);
    }
}

#[test]
fn jitter_of_the_native_repetition_is_the_floor() {
    for (again, contended, level, word) in [
        (1.2, 1.85, Some("L3"), Some("Negligible")),
        (1.35, 1.85, None, Some("below measurement floor")),
        (1.35, 4.0, Some("L0"), Some("High")),
    ] {
        let mut lab = tails(1.2, 1.2, contended);
        lab.each(Condition::NAgain).for_each(|cell| {
            cell.figures.open_latency_p99_ns = Some(again * 1e6);
            cell.lone_ns = lone_ns(&cell.figures);
        });
        let row = lab.row(SLICING, "jitter");
        assert_eq!(verdict(&row), (level, word), "{again}: {:?}", row.warnings);
        assert_eq!(row.outcome.is_measured(), level.is_some());
    }
}

#[test]
fn an_axis_without_a_level_leaves_no_overall_level_above_l0() {
    for (contended, level, weakest) in [(900.0, None, None), (500.0, Some("L0"), Some("compute"))] {
        let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, contended, 500.0]);
        assert!(lab.overall(QUOTA).unmeasured_axes.is_empty());
        lab.each(Condition::C).for_each(|cell| cell.lone_ns.clear());
        let overall = lab.overall(QUOTA);
        assert_eq!(overall.level.as_deref(), level);
        assert_eq!(overall.weakest_axis.as_deref(), weakest);
        assert_eq!(overall.unmeasured_axes, ["jitter"]);
    }
}
