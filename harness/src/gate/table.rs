//! A table of changes to a cell that was well: what each must do to which gate.

use gpubench_record::GateState::{self, Failed, NotEvaluated, Passed};
use gpubench_record::{Condition, OutcomeKind, Phase, Proof, SampleStatus};
use gpubench_stats::ScheduleRng;

use super::fixture::{MS, World, row};
use super::tests::gate;

/// One change to a cell that was well: the condition, the change, the gate that must notice, how,
/// and the outcome.
type Case = (
    Condition,
    fn(&mut World),
    &'static str,
    GateState,
    OutcomeKind,
);

fn proof(holds: bool) -> Proof {
    Proof {
        when: Proof::DURING.to_owned(),
        check: "processes".to_owned(),
        holds,
        evidence: "two".to_owned(),
        hardware: false,
        limiter: false,
    }
}

const INCONCLUSIVE: OutcomeKind = OutcomeKind::Inconclusive;
const MEASURED: OutcomeKind = OutcomeKind::Measured;

const CASES: &[Case] = &[
    (
        Condition::C,
        |w| w.deaths[0] = Some("SIGKILL"),
        "tenants-alive",
        Failed,
        OutcomeKind::Failed,
    ),
    (
        Condition::C,
        |w| w.deaths[1] = Some("SIGKILL"),
        "tenants-alive",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| w.deaths[1] = Some("SIGKILL"),
        "aggressor-alive",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::S,
        |w| w.deaths[1] = Some("exit 1"),
        "tenants-alive",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.failure = Some("no answer"),
        "completed",
        Failed,
        OutcomeKind::Failed,
    ),
    (
        Condition::N,
        |w| w.unlogged = 1,
        "log-complete",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| lose_row(w, 40),
        "log-complete",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.rows[0][5].seq = 4,
        "log-complete",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.rows[0][200].status = SampleStatus::WrongResult,
        "results",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| w.rows[1][3].status = SampleStatus::Error,
        "results",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::S,
        |w| w.rows[1].push(row(0, Phase::Closed, 1, 2)),
        "neighbours-idle",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| move_arrival(w, 900),
        "schedule",
        Passed,
        MEASURED,
    ),
    (
        Condition::N,
        |w| move_arrival(w, 1_100),
        "schedule",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.offered_per_s = None,
        "schedule",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::N,
        |w| w.cell.schedule_seed += 1,
        "schedule",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| lose_row(w, w.rows[0].len() - 1),
        "schedule",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.overloaded = true,
        "overload",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| w.overloaded = true,
        "overload",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::U,
        |w| w.overloaded = true,
        "victim-in-every-tenth",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::N,
        |w| late(w, 19_999),
        "lateness",
        Passed,
        MEASURED,
    ),
    (
        Condition::N,
        |w| late(w, 20_001),
        "lateness",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| late_but_busy(w),
        "lateness",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::C,
        |w| stop_aggressor(w, 900),
        "co-residency-closed",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| stop_aggressor(w, 2_700),
        "co-residency-open",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| stop_aggressor(w, 2_720),
        "co-residency-open",
        Passed,
        MEASURED,
    ),
    (
        Condition::C,
        |w| w.rows[1].clear(),
        "aggressor-alive",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| block_issuer(w),
        "victim-in-every-tenth",
        Failed,
        INCONCLUSIVE,
    ),
    (Condition::C, |w| duty(w, 5), "dose", Passed, MEASURED),
    (Condition::C, |w| duty(w, 6), "dose", Failed, INCONCLUSIVE),
    (Condition::C, |w| duty(w, 4), "dose", Failed, INCONCLUSIVE),
    (
        Condition::N,
        |w| w.proofs = vec![proof(true)],
        "mechanism-in-force",
        Passed,
        MEASURED,
    ),
    (
        Condition::N,
        |w| w.proofs = vec![proof(true), proof(false)],
        "mechanism-in-force",
        Failed,
        INCONCLUSIVE,
    ),
    // The host was too busy for anybody to look among the samples.
    (
        Condition::N,
        |w| {
            w.proofs = vec![Proof {
                when: "before".to_owned(),
                ..proof(true)
            }];
        },
        "mechanism-in-force",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.foreign_pids = Some(vec![7]),
        "foreign-process",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.foreign_pids = None,
        "foreign-process",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::N,
        |w| w.xids = Some(vec![13]),
        "xid",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.throttle_reasons = Some(0x08),
        "throttle",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.throttle_reasons = Some(0x40),
        "throttle",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.throttle_reasons = Some(0x80),
        "throttle",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.throttle_reasons = Some(0x125),
        "throttle",
        Passed,
        MEASURED,
    ),
    (
        Condition::N,
        |w| w.throttle_reasons = None,
        "throttle",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::N,
        |w| w.steal = Some(0.006),
        "cpu-steal",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| w.steal = None,
        "cpu-steal",
        NotEvaluated,
        MEASURED,
    ),
    (Condition::N, |w| ramp(w, 850), "warm-up", Passed, MEASURED),
    (
        Condition::N,
        |w| ramp(w, 500),
        "warm-up",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| ramp(w, 500),
        "drift",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::N,
        |w| few_closed(w, 12),
        "warm-up",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::N,
        |w| few_closed(w, 10),
        "closed-rate",
        Passed,
        MEASURED,
    ),
    (
        Condition::N,
        |w| few_closed(w, 9),
        "closed-rate",
        Failed,
        INCONCLUSIVE,
    ),
    (Condition::N, |_| {}, "baseline", NotEvaluated, MEASURED),
];

/// One request was due at another instant than the seed of its block says.
fn move_arrival(world: &mut World, by_ns: u64) {
    world.victim(Phase::Open).skip(77).take(1).for_each(|row| {
        row.t_sched_ns += by_ns;
        row.t_issue_ns += by_ns;
    });
}

fn lose_row(world: &mut World, at: usize) {
    world.rows[0].remove(at);
}

/// Every issuer woke this late; completions keep their place.
pub(super) fn late(world: &mut World, by_ns: u64) {
    world
        .victim(Phase::Open)
        .for_each(|row| row.t_issue_ns += by_ns);
}

fn late_but_busy(world: &mut World) {
    late(world, 900_000);
    world
        .victim(Phase::Open)
        .for_each(|row| row.issuer_idle = false);
}

pub(super) fn stop_aggressor(world: &mut World, at_ms: u64) {
    world.rows[1].retain(|row| row.t_sched_ns < at_ms * MS);
}

/// For a fifth of the open loop the issuer sat inside a driver call; all else went on.
fn block_issuer(world: &mut World) {
    let (from_ns, to_ns) = (1_500 * MS, 1_900 * MS);
    world.victim(Phase::Open).for_each(|row| {
        if (from_ns..to_ns).contains(&row.t_sched_ns) {
            (row.t_issue_ns, row.issuer_idle) = (to_ns, false);
            row.t_done_ns = row.t_done_ns.max(to_ns);
        }
    });
}

/// Half a dose is planned, and the aggressor works `on_ms` of every 10 ms.
fn duty(world: &mut World, on_ms: u64) {
    world.cell.dose = 0.5;
    world.rows[1].clear();
    for period in 0..world.durations.cell_ns() / (10 * MS) {
        let start_ns = period * 10 * MS;
        world.rows[1].push(row(period, Phase::Closed, start_ns, start_ns + on_ms * MS));
    }
}

/// The first `slow` requests of the closed loop took 10 % longer than the rest: a step that a
/// settled loop does not have. 850 of 850 is no step at all.
pub(super) fn ramp(world: &mut World, slow: usize) {
    let mut now_ns = 100 * MS;
    let mut noise = ScheduleRng::new(3);
    for (number, row) in world.victim(Phase::Closed).enumerate() {
        let service_ns = if number < slow { 1_100_000 } else { 1_000_000 } + noise.below(10_000);
        row.t_sched_ns = now_ns;
        row.t_issue_ns = now_ns;
        row.t_done_ns = now_ns + u64::from(service_ns);
        now_ns = row.t_done_ns;
    }
}

pub(super) fn few_closed(world: &mut World, keep: usize) {
    let mut kept = 0;
    world.rows[0].retain(|row| {
        kept += usize::from(row.phase == Phase::Closed);
        row.phase != Phase::Closed || kept <= keep
    });
    (0..)
        .zip(&mut world.rows[0])
        .for_each(|(seq, row)| row.seq = seq);
}

#[test]
fn each_gate_notices_what_it_is_for() {
    for (number, (condition, change, name, state, outcome)) in CASES.iter().enumerate() {
        let mut world = World::new(*condition, MS);
        change(&mut world);
        let result = world.judge();
        assert_eq!(
            gate(&result, name),
            *state,
            "case {number}: {:#?}",
            result.gates
        );
        assert_eq!(
            result.outcome.outcome, *outcome,
            "case {number}: {:?}",
            result.outcome
        );
        let failed = result.gates.iter().any(|gate| gate.state == Failed);
        assert_eq!(
            failed,
            *outcome != MEASURED,
            "case {number}: {:#?}",
            result.gates
        );
        if *state == Failed && *outcome == INCONCLUSIVE {
            let reason = result.outcome.reason.unwrap_or_default();
            assert!(
                reason.contains(&format!("{name}: ")),
                "case {number}: {reason}"
            );
        }
    }
}
