//! Trials whose requests, answers and deaths the tests construct.

use gpubench_record::{
    CellTenant, FaultFacts, InjectorResult, Phase, Role, SampleStatus, TenantResult,
};

use super::*;

const MS: u64 = 1_000_000;

fn trial(fault: &str, answer: ExpectedAnswer) -> FaultTrial {
    FaultTrial {
        id: "f0000".to_owned(),
        group: "plain".to_owned(),
        mechanism: "time-slicing".to_owned(),
        variant: "time-slicing".to_owned(),
        fault: fault.to_owned(),
        class: "sm".to_owned(),
        facts: FaultFacts { control: None, answer, by_coordinator: false, leaves_waiting: false },
        trial: 1,
        victim: "compute".to_owned(),
        tenants: Vec::new(),
        schedule_seed: 1,
        at_ns: 50 * MS,
        until_ns: 90 * MS,
        from_ns: 10 * MS,
        window_ns: 100 * MS,
    }
}

fn row(seq: u64, done_ns: u64, error: i32) -> SampleRow {
    SampleRow {
        seq,
        t_sched_ns: done_ns - MS,
        t_issue_ns: done_ns - MS,
        t_ret_ns: done_ns - MS,
        t_done_ns: done_ns,
        gpu_ns: MS,
        error,
        phase: Phase::Closed,
        status: if error == 0 { SampleStatus::Ok } else { SampleStatus::Error },
        issuer_idle: true,
    }
}

/// One request a millisecond, in the milliseconds that `keep` accepts.
fn rows(keep: impl Fn(u64) -> bool) -> Vec<SampleRow> {
    let all = (1..100).filter(|ms| keep(*ms));
    all.map(|ms| row(ms, ms * MS, 0)).collect()
}

fn observation(death: Option<&str>, code: Option<i32>) -> FaultObservation {
    FaultObservation {
        victims: vec![TenantResult {
            death: death.map(str::to_owned),
            ..TenantResult::ready(
                &CellTenant { tenant: "victim".to_owned(), role: Role::Victim, workload: None },
                None,
            )
        }],
        injector: InjectorResult {
            began_ns: Some(50 * MS),
            detected_ns: Some(51 * MS),
            code,
            later_code: code,
            ..InjectorResult::default()
        },
        ..FaultObservation::default()
    }
}

#[test]
fn an_injector_that_waits_for_a_service_counts_if_the_coordinator_ended_the_service() {
    let counts = |leaves_waiting: bool, acted_ns: Option<u64>| {
        let mut observed = observation(None, None);
        observed.injector = InjectorResult {
            ended: Some("neighbour-1 did not answer within 17 s".to_owned()),
            ..InjectorResult::default()
        };
        observed.acted_ns = acted_ns;
        let mut trial = trial("some-fault", ExpectedAnswer::Either);
        (trial.facts.by_coordinator, trial.facts.leaves_waiting) = (true, leaves_waiting);
        let result = judge_trial(&trial, &observed, &[rows(|ms| ms <= 50)]);
        assert_eq!(result.victims[0].harm, Harm::Dead);
        result.outcome.is_measured()
    };
    for (leaves_waiting, acted_ns, want) in [
        (true, Some(50 * MS), true),
        (true, None, false),
        (false, Some(50 * MS), false),
        (false, None, false),
    ] {
        assert_eq!(counts(leaves_waiting, acted_ns), want, "{leaves_waiting} {acted_ns:?}");
    }
}

#[test]
fn the_instant_of_a_fault_is_that_of_its_cause() {
    for (by_coordinator, acted_ns, want) in
        [(true, Some(52 * MS), 52 * MS), (true, None, 50 * MS), (false, Some(52 * MS), 50 * MS)]
    {
        let mut trial = trial("some-fault", ExpectedAnswer::Either);
        trial.facts.by_coordinator = by_coordinator;
        let mut observed = observation(None, None);
        observed.acted_ns = acted_ns;
        assert_eq!(instant(&trial, &observed), want);
    }
}

#[test]
fn harm_follows_from_the_requests() {
    let mut broken = rows(|ms| ms <= 51);
    broken.push(row(200, 52 * MS, 719));
    let mut recovered = rows(|ms| ms != 52);
    recovered.push(row(200, 52 * MS, 2));
    for (rows, death, harm, code, next_good_ms) in [
        (rows(|_| true), None, Harm::Unharmed, None, Some(1)),
        (rows(|ms| ms <= 50 || ms % 2 == 0), None, Harm::Slowed, None, Some(2)),
        // One request completes between the fault and the stall.
        (rows(|ms| !(52..64).contains(&ms)), None, Harm::Stalled, None, Some(14)),
        // No request completes until the trial ends.
        (rows(|ms| ms <= 60), None, Harm::Stalled, None, None),
        (recovered, None, Harm::Stalled, Some(2), Some(3)),
        (broken, None, Harm::Dead, Some(719), None),
        (rows(|ms| ms <= 50), None, Harm::Dead, None, None),
        (rows(|_| true), Some("killed by signal 9"), Harm::Dead, None, None),
    ] {
        let result = judge_trial(
            &trial("trap", ExpectedAnswer::Error),
            &observation(death, Some(719)),
            &[rows],
        );
        assert!(result.outcome.is_measured(), "{:?}", result.outcome);
        let victim = &result.victims[0];
        assert_eq!((victim.harm, victim.code), (harm, code), "{victim:?}");
        let next_good = victim.next_good_ns.map(|ns| ns / MS);
        assert_eq!(next_good, next_good_ms, "{victim:?}");
        assert_eq!(result.is_contained(), harm == Harm::Unharmed);
        assert_eq!(result.detected_after_ns, Some(MS));
    }
}

#[test]
fn a_trial_without_its_fault_or_without_a_rate_before_does_not_count() {
    use ExpectedAnswer::{Either, Error, ProcessEnds, Success, Unknown};
    let killed = Some("killed by signal 9");
    type Case = (ExpectedAnswer, Option<&'static str>, Option<i32>, u64, Option<&'static str>);
    let cases: [Case; 8] = [
        (Error, None, Some(719), 0, None),
        (Error, None, None, 0, Some("some-fault raised no error")),
        (Error, None, Some(719), 45, Some("victim completed 5 requests before the fault")),
        (Success, None, Some(719), 0, Some("some-fault failed with CUresult 719")),
        (ProcessEnds, None, None, 0, Some("some-fault did not end its process")),
        // The death of a victim does not change what the injector answers.
        (Either, killed, Some(719), 0, None),
        (Either, None, None, 0, None),
        (Unknown, None, None, 0, Some("fault some-fault is unknown to this version")),
    ];
    for (answer, death, code, first_ms, doubt) in cases {
        let rows = rows(|ms| ms > first_ms);
        let trial = trial("some-fault", answer);
        let result = judge_trial(&trial, &observation(death, code), &[rows]);
        let reason = result.outcome.reason.clone().unwrap_or_default();
        assert_eq!(result.outcome.is_measured(), doubt.is_none(), "{reason}");
        assert!(doubt.is_none_or(|doubt| reason.contains(doubt)), "{reason}");
    }
}
