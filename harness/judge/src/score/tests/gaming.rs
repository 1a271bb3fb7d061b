//! Attempts to get a better level than the mechanism deserves: none does, and the row names each.

use gpubench_record::{
    CellFigures, Condition, Gate, GateKind, GateScope, LostKind, MatrixRow, Outcome,
};

use super::lab::{Lab, QUOTA, gate};

/// A mechanism under which a neighbour takes 15 % of the rate: L2.
fn honest() -> Lab {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 850.0, 500.0]);
    lab.prove(QUOTA, false, true);
    lab
}

fn row(lab: &Lab) -> MatrixRow {
    lab.row(QUOTA, "compute")
}

fn text(row: &MatrixRow) -> String {
    format!("{:?} {:?} {:?}", row.outcome.reason, row.warnings, row.blocks_lost)
}

fn exclude(lab: &mut Lab, blocks: std::ops::Range<u32>, of: Gate, kind: GateKind) {
    let cells = lab.each(Condition::C);
    for cell in cells.filter(|cell| blocks.contains(&cell.cell.block)) {
        cell.outcome = Outcome::inconclusive(format!("{of}: planted"));
        cell.gates.push(gate(of.clone(), kind, GateScope::Cell, "planted"));
    }
}

fn set(
    lab: &mut Lab,
    condition: Condition,
    figure: fn(&mut CellFigures) -> &mut Option<f64>,
    value: f64,
) {
    for cell in lab.each(condition) {
        *figure(&mut cell.figures) = Some(value);
    }
}

#[test]
fn the_honest_run_is_at_l2() {
    let row = row(&honest());
    assert_eq!((row.level.as_deref(), row.word.as_deref()), (Some("L2"), Some("Software")));
}

/// A solo run that lost CPU time: the bound lowers the lower end, and the level with it.
#[test]
fn a_solo_run_slowed_by_the_host_is_no_better() {
    let mut lab = honest();
    for condition in [Condition::S, Condition::SAgain] {
        set(&mut lab, condition, |of| &mut of.closed_rate_per_s, 910.0);
        set(&mut lab, condition, |of| &mut of.closed_rate_loss_max_ln, 0.098);
    }
    set(&mut lab, Condition::C, |of| &mut of.closed_rate_per_s, 870.0);
    let row = row(&lab);
    // 870 of 910 is 0.956 and of 1000 is 0.87.
    let retention = row.retention.as_ref().expect("a figure");
    assert!(retention.value > 0.95 && retention.lo < 0.87, "{retention:?}");
    assert_eq!(row.level.as_deref(), Some("L2..L3"));
    assert!(text(&row).contains("disturbances of the host"), "{}", text(&row));
}

/// The aggressor pauses in 4 % of the loop, which the gate on co-residency accepts.
#[test]
fn an_aggressor_that_pauses_lowers_the_lower_end() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 806.0, 500.0]);
    assert_eq!(row(&lab).level.as_deref(), Some("L2"));
    set(&mut lab, Condition::C, |of| &mut of.aggressor_idle_closed_ratio, 0.04);
    let row = row(&lab);
    let retention = row.retention.as_ref().expect("a figure");
    let least = (0.806 - 0.04) / 0.96;
    assert!((retention.lo - least).abs() < 1e-9 && retention.hi < 0.807, "{retention:?}");
    assert_eq!(row.level.as_deref(), Some("L1..L2"));
    assert!(text(&row).contains("pauses of the aggressor"), "{}", text(&row));
}

#[test]
fn an_idle_aggressor_or_a_dead_victim_yields_no_level() {
    for (of, says) in [
        (Gate::CoResidencyClosed, "co-residency-closed: planted"),
        (Gate::TenantsAlive, "tenants-alive: planted"),
        (Gate::LogComplete, "log-complete: planted"),
    ] {
        let mut lab = honest();
        // The bad blocks are the only ones that would have shown the harm.
        for cell in lab.each(Condition::C).filter(|cell| cell.cell.block < 5) {
            cell.figures.closed_rate_per_s = Some(300.0);
        }
        exclude(&mut lab, 0..5, of, GateKind::Validity);
        let row = row(&lab);
        assert_eq!((&row.level, &row.word), (&None, &None));
        assert!(text(&row).contains(says), "{}", text(&row));
    }
}

/// A neighbour that pulls the clock down is interference: the victim is slower, the level lower.
#[test]
fn a_clock_that_drops_under_contention_only_is_no_better() {
    let mut lab = honest();
    for condition in [Condition::N, Condition::S, Condition::SAgain] {
        set(&mut lab, condition, |of| &mut of.sm_clock_mhz, 1980.0);
    }
    set(&mut lab, Condition::C, |of| &mut of.sm_clock_mhz, 1980.0);
    assert!(!text(&row(&lab)).contains("clock: "));
    set(&mut lab, Condition::C, |of| &mut of.sm_clock_mhz, 1980.0 * 0.9);
    set(&mut lab, Condition::C, |of| &mut of.closed_rate_per_s, 850.0 * 0.9);
    let row = row(&lab);
    assert_eq!(row.level.as_deref(), Some("L1"));
    // The figure stays in time: cycles would give the level of the honest run.
    let retention = row.retention.as_ref().expect("a figure");
    assert!((retention.value - 0.765).abs() < 1e-9, "{retention:?}");
    let says = "clock: beside the neighbour the SMs have 0.900";
    assert!(text(&row).contains(says), "{}", text(&row));
    assert!(
        text(&row).contains("retention is 0.765 in time and 0.850 in cycles"),
        "{}",
        text(&row)
    );
}

/// Blocks 0 and 1 show a retention of 0.5 and are excluded for lost CPU time.
#[test]
fn an_excluded_block_that_would_change_the_level_is_named() {
    let mut lab = honest();
    for cell in lab.each(Condition::C).filter(|cell| cell.cell.block < 2) {
        cell.figures.closed_rate_per_s = Some(500.0);
    }
    exclude(&mut lab, 0..2, Gate::CpuGap, GateKind::Disturbance);
    let found = row(&lab);
    assert!(!found.outcome.is_measured(), "{found:?}");
    assert_eq!(found.word, None);
    let says = "the level L2 rests on leaving out what a disturbance moved: with block 0: C \
                cpu-gap: planted; block 1: C cpu-gap: planted the row is at ";
    assert!(text(&found).contains(says), "{}", text(&found));
    assert_eq!(found.retention.map(|retention| retention.n), Some(6), "the figure stays");
    // The same exclusion of blocks that are like the others decides nothing.
    let mut lab = honest();
    exclude(&mut lab, 0..2, Gate::CpuGap, GateKind::Disturbance);
    let found = row(&lab);
    assert_eq!((found.level.as_deref(), found.outcome.is_measured()), (Some("L2"), true));
    let lost = found.blocks_lost.expect("two lost blocks").lost;
    assert!(lost.iter().all(|one| one.kind == LostKind::Disturbance) && lost.len() == 2);
}

/// A cell that is not valid never returns, whatever a disturbance did to it as well.
#[test]
fn a_cell_that_is_not_valid_has_no_second_reading() {
    let mut lab = honest();
    for cell in lab.each(Condition::C).filter(|cell| cell.cell.block < 2) {
        cell.figures.closed_rate_per_s = Some(500.0);
    }
    exclude(&mut lab, 0..2, Gate::CpuGap, GateKind::Disturbance);
    exclude(&mut lab, 0..2, Gate::Xid, GateKind::Validity);
    let found = row(&lab);
    assert_eq!((found.level.as_deref(), found.outcome.is_measured()), (Some("L2"), true));
}
