//! The outcome of each victim of a fault trial, and whether the trial counts. Pure: a stored trial
//! is judged again with the same result.

use gpubench_record::sample::MISSING;
use gpubench_record::{
    ExpectedAnswer, FaultObservation, FaultResult, FaultTrial, Harm, Outcome, OutputCheck,
    SampleRow, SampleStatus, VictimOutcome,
};

/// `CUDA_SUCCESS` (cuda.h).
const SUCCESS: i32 = 0;

/// Judges a trial. `rows` has the requests of each victim, in the order of the observation.
pub fn judge_trial(
    trial: &FaultTrial,
    observed: &FaultObservation,
    rows: &[Vec<SampleRow>],
) -> FaultResult {
    let at_ns = instant(trial, observed);
    let mut doubts = Vec::new();
    doubts.extend(observed.failure.clone());
    let mut victims = Vec::new();
    for (victim, rows) in observed.victims.iter().zip(rows) {
        match victim_outcome(trial, at_ns, &victim.planned.tenant, rows) {
            Ok(mut outcome) => {
                // A process that was killed logs no failed request.
                if victim.death.is_some() {
                    (outcome.harm, outcome.next_good_ns) = (Harm::Dead, None);
                }
                let check = victim.output.as_ref();
                match check.and_then(OutputCheck::agrees) {
                    Some(false) => outcome.harm = Harm::Corrupted,
                    _ => doubts.extend(check.and_then(|check| check.unread.as_deref()).map(
                        |error| format!("the output of {} was not read: {error}", outcome.tenant),
                    )),
                }
                victims.push(outcome);
            }
            Err(doubt) => doubts.push(doubt),
        }
    }
    doubts.extend(unexpected_answer(trial, observed));
    let outcome = if doubts.is_empty() {
        Outcome::measured()
    } else {
        Outcome::inconclusive(doubts.join("; "))
    };
    let detected_after_ns = observed.injector.code.and(observed.injector.detected_ns);
    FaultResult {
        planned: trial.clone(),
        outcome,
        victims,
        detected_after_ns: detected_after_ns.map(|ns| ns.saturating_sub(at_ns)),
        observed: observed.clone(),
    }
}

/// When the fault happened: the act of the coordinator where that causes it, else the start of the
/// injection.
fn instant(trial: &FaultTrial, observed: &FaultObservation) -> u64 {
    let acted_ns = observed.acted_ns.filter(|_| trial.facts.by_coordinator);
    acted_ns.or(observed.injector.began_ns).unwrap_or(trial.at_ns)
}

/// Why the fault did not happen as planned; `None` where it did. Without the planned fault a trial
/// shows nothing about containment.
fn unexpected_answer(trial: &FaultTrial, observed: &FaultObservation) -> Option<String> {
    use ExpectedAnswer::{Either, Error, ProcessEnds, Success, Unknown};
    let (fault, injector) = (&trial.fault, &observed.injector);
    let code = injector.code.unwrap_or(SUCCESS);
    match (trial.facts.answer, &injector.ended) {
        (Unknown, _) => Some(format!("fault {fault} is unknown to this version")),
        (ProcessEnds, Some(_)) => None,
        (ProcessEnds, None) => Some(format!("{fault} did not end its process")),
        // An injector that waits for a service for ever was hit by the fault if the coordinator
        // ended the service.
        (_, Some(_)) if trial.facts.leaves_waiting && observed.acted_ns.is_some() => None,
        (_, Some(ended)) => Some(format!("the process of {fault} ended: {ended}")),
        (Either, None) => None,
        (Success, None) => {
            (code != SUCCESS).then(|| format!("{fault} failed with CUresult {code}"))
        }
        // Any error is accepted: which code it has depends on the driver.
        (Error, None) => (code == SUCCESS).then(|| format!("{fault} raised no error")),
    }
}

/// Whether a trial ran as planned, raised no error where one was planned, and harmed no victim: the
/// device does not have the fault.
pub fn raised_nothing(trial: &FaultResult) -> bool {
    let (FaultTrial { facts, .. }, injector) = (&trial.planned, &trial.observed.injector);
    facts.answer == ExpectedAnswer::Error
        && trial.observed.failure.is_none()
        && injector.ended.is_none()
        && injector.code.unwrap_or(SUCCESS) == SUCCESS
        && trial.victims.len() == trial.observed.victims.len()
        && trial.is_contained()
}

// What a fault did to one victim, computed from the victim's requests alone.

/// Fewest completions before the fault that make a rate.
const BEFORE_MIN: usize = 10;
/// Below this part of its rate before the fault, a victim is slowed: the bound of L2 for retention.
const SLOWED_BELOW: f64 = 0.80;
/// A victim is stalled where it completes nothing for this many times its longest gap before the
/// fault, and for at least one [`STALL_PART`]th of the time over which the rate before is taken.
const STALL_TIMES: u64 = 10;
const STALL_PART: u64 = 4;

/// The outcome of one victim of a trial; an error says why it cannot be judged.
pub(super) fn victim_outcome(
    trial: &FaultTrial,
    at_ns: u64,
    tenant: &str,
    rows: &[SampleRow],
) -> Result<VictimOutcome, String> {
    let mut done: Vec<u64> = rows
        .iter()
        .filter(|row| row.status == SampleStatus::Ok && row.t_done_ns != MISSING)
        .map(|row| row.t_done_ns)
        .filter(|t| (trial.from_ns..=trial.window_ns).contains(t))
        .collect();
    done.sort_unstable();
    let before = done.partition_point(|&t| t <= at_ns);
    if before < BEFORE_MIN {
        return Err(format!(
            "{tenant} completed {before} requests before the fault, {BEFORE_MIN} are needed"
        ));
    }
    let (early, late) = done.split_at(before);
    let rate = |count: usize, ns: u64| count as f64 / (ns.max(1) as f64 / 1e9);
    let rate_before = rate(early.len(), at_ns - trial.from_ns);
    let rate_after = rate(late.len(), trial.window_ns.saturating_sub(at_ns));
    let rate_ratio = rate_after / rate_before;
    let last = early.last().copied().unwrap_or(trial.from_ns);
    let gap_before_ns = longest_gap(early, None, None);
    // The time to the end of the trial counts as a gap: the request under way then may never end.
    let gap_ns = longest_gap(late, Some(last), Some(trial.window_ns));
    let failed = rows.iter().find(|row| row.status == SampleStatus::Error);
    let code = failed.map(|row| row.error);
    let failed_ns = failed.map(|row| row.t_issue_ns);
    let continued = failed_ns.is_none_or(|failed_ns| late.iter().any(|&t| t > failed_ns));
    let stall_ns = (STALL_TIMES * gap_before_ns).max((at_ns - trial.from_ns) / STALL_PART);
    let stalled = gap_ns >= stall_ns || code.is_some();
    let harm = if late.is_empty() || !continued {
        Harm::Dead
    } else if stalled {
        Harm::Stalled
    } else if rate_ratio < SLOWED_BELOW {
        Harm::Slowed
    } else {
        Harm::Unharmed
    };
    Ok(VictimOutcome {
        tenant: tenant.to_owned(),
        harm,
        code,
        rate_ratio,
        gap_ns,
        next_good_ns: next_good(harm, failed_ns, last, late, trial.window_ns).map(|t| t - at_ns),
    })
}

/// When the victim's first good request after the harm completed; after the fault, for a victim
/// without harm. A request that completed between the fault and the harm is no recovery.
fn next_good(harm: Harm, failed_ns: Option<u64>, last: u64, late: &[u64], end: u64) -> Option<u64> {
    match (harm, failed_ns) {
        (Harm::Dead, _) => None,
        (Harm::Stalled, Some(failed_ns)) => late.iter().copied().find(|&t| t > failed_ns),
        (Harm::Stalled, None) => {
            let starts = std::iter::once(&last).chain(late);
            let (stall_ns, resumed) = starts
                .zip(late)
                .map(|(from, to)| (to - from, *to))
                .max_by_key(|(gap_ns, _)| *gap_ns)?;
            let still_ns = end.saturating_sub(*late.last()?);
            (stall_ns >= still_ns).then_some(resumed)
        }
        _ => late.first().copied(),
    }
}

/// The longest time between two completions, also from `start` and to `end` where given.
fn longest_gap(done: &[u64], start: Option<u64>, end: Option<u64>) -> u64 {
    let all: Vec<u64> = start.into_iter().chain(done.iter().copied()).chain(end).collect();
    let gaps = all.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    gaps.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{CellTenant, InjectorResult, Phase, Role, SampleStatus, TenantResult};

    use super::*;
    use crate::gate::fixture::fault_trial;

    const MS: u64 = 1_000_000;

    fn trial(fault: &str, answer: ExpectedAnswer) -> FaultTrial {
        let (at_ns, until_ns, from_ns, window_ns) = (50 * MS, 90 * MS, 10 * MS, 100 * MS);
        let planned = fault_trial(fault, None, answer);
        FaultTrial { at_ns, until_ns, from_ns, window_ns, ..planned }
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
    fn a_survivor_with_a_wrong_output_is_corrupted_which_is_worse_than_dead() {
        let check = |digest: &str, unread: Option<&str>| {
            let mut observed = observation(None, Some(719));
            observed.victims[0].output = Some(OutputCheck {
                digest: unread.is_none().then(|| digest.to_owned()),
                alone: Some("1".to_owned()),
                unread: unread.map(str::to_owned),
                ..OutputCheck::default()
            });
            let trial = trial("some-fault", ExpectedAnswer::Error);
            let result = judge_trial(&trial, &observed, &[rows(|_| true)]);
            (result.victims[0].harm, result.outcome.is_measured(), result.is_contained())
        };
        assert_eq!(check("1", None), (Harm::Unharmed, true, true));
        assert_eq!(check("2", None), (Harm::Corrupted, true, false));
        assert_eq!(check("", Some("CUresult 719")), (Harm::Unharmed, false, true));
        assert!(Harm::Corrupted > Harm::Dead);
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
            let is_absent = doubt.is_some_and(|doubt| doubt.contains("raised no error"));
            assert_eq!(raised_nothing(&result), is_absent, "{reason}");
        }
    }
}
