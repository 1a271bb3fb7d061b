//! A table of changes to a cell that was well: what each must do to which gate.

use gpubench_record::GateState::{self, Failed, NotEvaluated, Passed};
use gpubench_record::{Condition, GateResult, OutcomeKind, Phase, Proof, SampleStatus};

use super::changes::*;
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
        // The open loop is spoilt; the rate of the closed one stands.
        MEASURED,
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
    (
        Condition::C,
        |w| few_closed(w, 4),
        "closed-rate",
        Failed,
        INCONCLUSIVE,
    ),
    (
        Condition::C,
        |w| long_closed(w, 4),
        "closed-rate",
        NotEvaluated,
        MEASURED,
    ),
    (
        Condition::S,
        |w| long_closed(w, 4),
        "closed-rate",
        Failed,
        INCONCLUSIVE,
    ),
    (Condition::N, |_| {}, "baseline", NotEvaluated, MEASURED),
];

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
        let spoils = |gate: &GateResult| gate.state == Failed && gate.gate != "lateness";
        let failed = result.gates.iter().any(spoils);
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
