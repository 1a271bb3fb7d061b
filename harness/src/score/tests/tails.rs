//! Worked cases of the jitter axis.

use gpubench_record::{
    CellResult, Condition, Gate, GateKind, GateScope, GateState, LostKind, Outcome, OutcomeKind,
};

use super::lab::{Figures, Lab, QUOTA, SLICING, gate, verdict};
use crate::gate::OPEN_REQUESTS;

/// The harness was late in the open loop of this cell.
fn spoil(cell: &mut CellResult) {
    let why = "p99 of an idle issuer is 30000 ns";
    cell.gates.push(gate(Gate::Lateness, GateKind::Disturbance, GateScope::OpenLoop, why));
}

#[test]
fn a_late_harness_spoils_the_tail_and_not_the_rate() {
    for condition in [Condition::N, Condition::C] {
        let mut lab = tails(1.2, 1.2, 4.0);
        lab.each(condition).take(1).for_each(spoil);
        let tail = lab.row(SLICING, "jitter");
        assert!(tail.outcome.is_measured(), "{:?}", tail.outcome);
        assert_eq!(tail.jitter.map(|jitter| jitter.n), Some(7));
        let lost = tail.blocks_lost.expect("a lost block");
        let why = format!("{} {}: p99", condition.as_str(), Gate::Lateness);
        assert!(lost.lost[0].reason.contains(&why), "{lost:?}");
        assert_eq!((lost.planned, lost.lost[0].kind), (8, LostKind::Disturbance));
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
        (1.75, 0.051, "L3", "Negligible"),
        (2.0, 0.301, "L2", "Low-Medium"),
        (4.0, 2.301, "L0", "High"),
        (1.5, -0.199, "L3", "Negligible"),
    ] {
        let row = tails(1.2, 1.21, contended).row(SLICING, "jitter");
        assert!(row.outcome.is_measured(), "{:?}", row.outcome);
        let jitter = row.jitter.as_ref().expect("a figure");
        assert!((jitter.value - value).abs() < 1e-9, "{jitter:?}, want {value}");
        assert_eq!((jitter.n, jitter.unit.as_str()), (8, "native medians"));
        assert_eq!(verdict(&row), (Some(level), Some(word)));
        assert!(row.retention.is_none() && row.u_kind.is_none() && row.sub_axis.is_none());
        assert_eq!(row.requests, 8 * 2 * 450);
        assert_eq!(row.claimed, ["S0: High"]);
        let split: Vec<&str> = row.warnings.iter().map(String::as_str).collect();
        assert_eq!(split[0], "J_mech (S - N) 0.010 [0.010, 0.010] native medians, n = 8");
        assert!(split[1].starts_with("J_interf (C - S) "), "{split:?}");
    }
}

#[test]
fn jitter_that_straddles_a_bound_has_both_levels() {
    let mut lab = tails(1.2, 1.2, 1.8);
    let rates = [1.72, 1.9, 1.75, 1.85, 1.74, 1.82, 1.78, 1.81];
    for (cell, p99) in lab.each(Condition::C).zip(rates) {
        cell.figures.open_latency_p99_ns = Some(p99 * 1e6);
    }
    let row = lab.row(SLICING, "jitter");
    assert_eq!((row.level.as_deref(), row.word), (Some("L2..L3"), None), "{:?}", row.jitter);
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("jitter straddles 0.1"), "{reason}");
}

#[test]
fn a_p99_of_too_few_requests_does_not_count() {
    let mut lab = tails(1.2, 1.2, 2.0);
    for (blocks, left) in [(5, 3), (6, 2)] {
        lab.each(Condition::C).take(blocks).for_each(|cell| {
            cell.requests.insert(OPEN_REQUESTS.to_owned(), 367);
        });
        let row = lab.row(SLICING, "jitter");
        assert_eq!(row.outcome.is_measured(), left == 3, "{:?}", row.outcome);
        assert_eq!(row.level.is_some(), left == 3);
        assert_eq!(row.jitter.map(|jitter| jitter.n), Some(left));
        let reason = row.outcome.reason.unwrap_or_default();
        let says = reason.contains("2 blocks have a p99 of 368 requests");
        assert_eq!(says, left == 2, "{reason}");
    }
    lab.each(Condition::N).for_each(|cell| {
        cell.figures.open_latency_p99_ns = None;
    });
    let row = lab.row(SLICING, "jitter");
    assert!(row.jitter.is_none() && row.outcome.reason.is_some());
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
fn an_overload_that_only_the_aggressor_causes_is_high() {
    for (blocks, level) in [(8, Some("L0")), (5, Some("L0")), (4, None), (1, None)] {
        let mut lab = tails(1.2, 1.2, 1.8);
        overload(&mut lab, blocks);
        let row = lab.row(SLICING, "jitter");
        assert_eq!(row.level.as_deref(), level, "{blocks}: {:?}", row.outcome);
        assert_eq!(row.word.as_deref(), level.map(|_| "High"));
        assert_eq!(row.outcome.is_measured(), level.is_some());
        assert!(row.jitter.is_none(), "no percentiles");
        let warning = format!(
            "overloaded beside the aggressor in {blocks} of 8 blocks: offered 250.0 per s, \
             goodput 200.0 per s, backlog slope 50.0 per s"
        );
        assert!(row.warnings[0].starts_with(&warning), "{:?}", row.warnings);
    }
    let mut lab = tails(1.2, 1.2, 1.8);
    overload(&mut lab, 8);
    lab.each(Condition::S).for_each(|cell| cell.outcome = Outcome::inconclusive("overload: too"));
    let row = lab.row(SLICING, "jitter");
    assert_eq!((row.level, row.outcome.outcome), (None, OutcomeKind::Inconclusive));
}

#[test]
fn timers_coarser_than_the_bound_leave_no_level() {
    for (floor_ns, level, word) in [
        (Ok(None), Some("L3"), Some("Negligible")),
        (Ok(Some(50_000.0)), Some("L3"), Some("Negligible")),
        (Ok(Some(150_000.0)), None, Some("below measurement floor")),
        (Err("not measured: no timer"), None, None),
    ] {
        let mut lab = tails(1.2, 1.2, 1.75);
        lab.timer_floor_ns = floor_ns;
        let row = lab.row(SLICING, "jitter");
        assert_eq!(verdict(&row), (level, word));
        assert_eq!(row.outcome.is_measured(), level.is_some());
    }
    let mut loud = tails(1.2, 1.2, 4.0);
    loud.timer_floor_ns = Ok(Some(150_000.0));
    assert_eq!(loud.row(SLICING, "jitter").level.as_deref(), Some("L0"), "far above the floor");
}

#[test]
fn an_axis_without_a_level_leaves_no_overall_level_above_l0() {
    for (contended, level, weakest) in [(900.0, None, None), (500.0, Some("L0"), Some("compute"))] {
        let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, contended, 500.0]);
        assert!(lab.overall(QUOTA).unmeasured_axes.is_empty());
        lab.each(Condition::C).for_each(|cell| {
            cell.requests.insert(OPEN_REQUESTS.to_owned(), 100);
        });
        let overall = lab.overall(QUOTA);
        assert_eq!(overall.level.as_deref(), level);
        assert_eq!(overall.weakest_axis.as_deref(), weakest);
        assert_eq!(overall.unmeasured_axes, ["jitter"]);
    }
}
