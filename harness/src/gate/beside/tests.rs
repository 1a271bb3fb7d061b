//! Aggressors that worked beside the victim, and aggressors that did not.

use gpubench_record::{Condition, Gate, GateState, OutcomeKind, Phase};

use crate::gate::ClockKind;
use crate::gate::fixture::{MS, World, back_to_back};

#[test]
fn aggressor_figures_come_from_whole_cycles() {
    let result = World::new(Condition::C, MS).judge();
    assert!((result.figures.aggressor_rate_per_s.unwrap() - 1e3 / 3.0).abs() < 1e-9);
    assert!((result.figures.achieved_dose_ratio.unwrap() - 1e3 / 3.0 / 400.0).abs() < 1e-12);
    assert_eq!(result.figures.overlap_closed_ratio.unwrap(), 1.0);
    assert_eq!(result.figures.aggressor_busy_open_ratio.unwrap(), 1.0);
}

/// The aggressor pauses for 2 % of the closed loop; its pauses of 4 us between two requests are
/// those of any loop.
#[test]
fn pauses_of_the_aggressor_are_a_figure_and_its_own_loop_is_none() {
    let mut world = World::new(Condition::C, MS);
    let mut now_ns = 0;
    for row in &mut world.rows[1] {
        if now_ns == 300 * MS {
            now_ns += 17 * MS;
        }
        (row.t_sched_ns, row.t_issue_ns) = (now_ns + 4_000, now_ns + 4_000);
        now_ns += 3 * MS;
        row.t_done_ns = now_ns;
    }
    let figures = world.judge().figures;
    let paused = figures.aggressor_idle_closed_ratio.unwrap();
    assert!((paused - 17.0 / 850.0).abs() < 1e-4, "{paused}");
    assert!((figures.overlap_closed_ratio.unwrap() - 0.98).abs() < 0.002);
    world.clock = ClockKind::Virtual;
    assert!(world.judge().figures.aggressor_idle_closed_ratio.is_none());
}

#[test]
fn an_aggressor_must_work_in_the_measured_loops() {
    // The loops end at 950 ms and at 2 800 ms. Which requests of the aggressor stay, and the gate
    // that fails.
    type Kept = fn(u64) -> bool;
    let cases: [(Kept, Option<Gate>); 4] = [
        (|_| true, None),
        (|t_ns| t_ns < 100 * MS, Some(Gate::CoResidencyClosed)),
        (|t_ns| t_ns >= 951 * MS, Some(Gate::CoResidencyClosed)),
        (|t_ns| t_ns < 951 * MS, Some(Gate::CoResidencyOpen)),
    ];
    for (number, (kept, failed)) in cases.iter().enumerate() {
        let mut world = World::new(Condition::C, MS);
        world.rows[1].retain(|row| kept(row.t_sched_ns));
        (0..).zip(&mut world.rows[1]).for_each(|(seq, row)| row.seq = seq);
        let issued = world.rows[1].len();
        let result = world.judge();
        let outcome = &result.outcome;
        let case = format!("case {number}: {outcome:?}");
        assert!(issued > 30, "the aggressor issued {issued} requests");
        assert_eq!(outcome.is_measured(), failed.is_none(), "{case}");
        if let Some(gate) = failed {
            assert_eq!(outcome.outcome, OutcomeKind::Inconclusive, "{case}");
            assert_eq!(result.gate_state(gate), Some(GateState::Failed), "{case}");
        }
    }
}

#[test]
fn every_aggressor_must_work_beside_the_victim() {
    let mut world = World::new(Condition::C, MS);
    let mut second = world.cell.tenants[1].clone();
    second.tenant = "neighbour-2".to_owned();
    world.cell.tenants.push(second);
    world.deaths.push(None);
    world.rows.push(back_to_back(0, Phase::Closed, 0, world.durations.cell_ns(), MS));
    let result = world.judge();
    assert!(result.outcome.is_measured(), "{:?}", result.outcome);
    assert!((result.figures.aggressor_rate_per_s.unwrap() - 4e3 / 3.0).abs() < 1e-9);
    world.rows[2].truncate(20);
    assert_eq!(world.judge().gate_state(&Gate::CoResidencyClosed), Some(GateState::Failed));
}
