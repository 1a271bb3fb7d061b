//! What a fault did to each victim of a trial, from its requests alone, and whether the trial
//! counts. Pure: an old trial is judged again with the same result.

use gpubench_record::sample::MISSING;
use gpubench_record::{
    Fate, FaultResult, FaultSeen, FaultTrial, Outcome, SampleRow, SampleStatus, VictimFate,
};
use gpubench_workloads::fault::{self, Answer, HostAct};

/// Fewest completions before the fault that a rate is made from.
const BEFORE_MIN: usize = 10;
/// Below this part of its rate before, a victim is slowed: the bound of L2 for retention.
const SLOWED_BELOW: f64 = 0.80;
/// Without a completion for so many times its longest gap before, a victim is stalled,
const STALL_TIMES: u64 = 10;
/// but for no less than this part of the time from the first count to the fault.
const STALL_PART: u64 = 4;
/// `CUresult` of a call that went well (cuda.h).
const SUCCESS: i32 = 0;

/// Judges a trial; `rows` has the requests of each victim that the trial has seen.
#[must_use]
pub fn judge_trial(trial: &FaultTrial, seen: &FaultSeen, rows: &[Vec<SampleRow>]) -> FaultResult {
    let at_ns = instant(trial, seen);
    let mut doubts = Vec::new();
    if let Some(failure) = &seen.failure {
        doubts.push(failure.clone());
    }
    let mut victims = Vec::new();
    for (victim, rows) in seen.victims.iter().zip(rows) {
        match fate(trial, at_ns, &victim.tenant, rows) {
            Ok(mut fate) => {
                // A process that was killed has no failed request to show.
                if victim.death.is_some() {
                    (fate.fate, fate.next_good_ns) = (Fate::Dead, None);
                }
                victims.push(fate);
            }
            Err(doubt) => doubts.push(doubt),
        }
    }
    doubts.extend(answer(trial, seen));
    let outcome = if doubts.is_empty() {
        Outcome::measured()
    } else {
        Outcome::inconclusive(doubts.join("; "))
    };
    let detected_after_ns = seen.struck.code.and(seen.struck.detected_ns);
    FaultResult {
        id: trial.cell.id.clone(),
        mechanism: trial.cell.mechanism.clone(),
        variant: trial.cell.variant.clone(),
        fault: trial.fault.clone(),
        class: trial.class.clone(),
        trial: trial.trial,
        outcome,
        victims,
        detected_after_ns: detected_after_ns.map(|ns| ns.saturating_sub(at_ns)),
        seen: seen.clone(),
    }
}

/// When the fault happened: when its process began it, or when the coordinator did it to MPS.
fn instant(trial: &FaultTrial, seen: &FaultSeen) -> u64 {
    let act = fault::find(&trial.fault).map(|fault| fault.act);
    let by_coordinator = matches!(
        act,
        Some(HostAct::TerminateClient | HostAct::KillServer | HostAct::KillDaemon)
    );
    let acted_ns = seen.acted_ns.filter(|_| by_coordinator);
    acted_ns.or(seen.struck.began_ns).unwrap_or(trial.at_ns)
}

/// Why the fault did not happen as it should have, if so: then nothing can be said of containment.
fn answer(trial: &FaultTrial, seen: &FaultSeen) -> Option<String> {
    let Some(fault) = fault::find(&trial.fault) else {
        return Some(format!("fault {} is unknown to this version", trial.fault));
    };
    let struck = &seen.struck;
    let got = struck.code.unwrap_or(SUCCESS);
    match (fault.answer, &struck.ended) {
        (Answer::Ends, Some(_)) => None,
        (Answer::Ends, None) => Some(format!("{} did not end its process", trial.fault)),
        // Whoever waits for a service that is gone was struck by its loss, if it was brought about.
        (_, Some(_)) if fault.act.leaves_waiting() && seen.acted_ns.is_some() => None,
        (_, Some(ended)) => Some(format!("the process of {} ended: {ended}", trial.fault)),
        (Answer::Open(_), None) => None,
        (Answer::Well, None) => {
            (got != SUCCESS).then(|| format!("{} failed with CUresult {got}", trial.fault))
        }
        // Which code comes is the driver's affair; that one comes is what makes it a fault.
        (Answer::Codes(_), None) => {
            (got == SUCCESS).then(|| format!("{} raised no error", trial.fault))
        }
    }
}

fn fate(
    trial: &FaultTrial,
    at_ns: u64,
    tenant: &str,
    rows: &[SampleRow],
) -> Result<VictimFate, String> {
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
    // The request that was on its way at the end is no gap of its own.
    let gap_ns = longest_gap(late, Some(last), Some(trial.window_ns));
    let failed = rows.iter().find(|row| row.status == SampleStatus::Error);
    let code = failed.map(|row| row.error);
    let failed_ns = failed.map(|row| row.t_issue_ns);
    let went_on = failed_ns.is_none_or(|failed_ns| late.iter().any(|&t| t > failed_ns));
    let stall_ns = (STALL_TIMES * gap_before_ns).max((at_ns - trial.from_ns) / STALL_PART);
    let stalled = gap_ns >= stall_ns || code.is_some();
    let fate = if late.is_empty() || !went_on {
        Fate::Dead
    } else if stalled {
        Fate::Stalled
    } else if rate_ratio < SLOWED_BELOW {
        Fate::Slowed
    } else {
        Fate::Unharmed
    };
    Ok(VictimFate {
        tenant: tenant.to_owned(),
        fate,
        code,
        rate_ratio,
        gap_ns,
        next_good_ns: next_good(fate, failed_ns, last, late, trial.window_ns).map(|t| t - at_ns),
    })
}

/// When a victim's first good request was done after the harm; for one that took none, after the
/// fault. What was under way and still ended well before the harm was noticed is no recovery.
fn next_good(fate: Fate, failed_ns: Option<u64>, last: u64, late: &[u64], end: u64) -> Option<u64> {
    match (fate, failed_ns) {
        (Fate::Dead, _) => None,
        (Fate::Stalled, Some(failed_ns)) => late.iter().copied().find(|&t| t > failed_ns),
        (Fate::Stalled, None) => {
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

/// The longest time between two of them, and from a start and to an end where there are such.
fn longest_gap(done: &[u64], start: Option<u64>, end: Option<u64>) -> u64 {
    let all: Vec<u64> = start
        .into_iter()
        .chain(done.iter().copied())
        .chain(end)
        .collect();
    let gaps = all.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    gaps.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Cell, Condition, Phase, Role, Struck, SubAxis, TenantResult};

    use super::*;

    const MS: u64 = 1_000_000;

    fn trial(fault: &str) -> FaultTrial {
        FaultTrial {
            cell: Cell {
                id: "f0000".to_owned(),
                block: 1,
                group: "plain".to_owned(),
                mechanism: "time-slicing".to_owned(),
                variant: "time-slicing".to_owned(),
                sub_axis: SubAxis::Sm,
                condition: Condition::C,
                victim: "compute".to_owned(),
                aggressor: None,
                dose: 0.0,
                tenants: Vec::new(),
                schedule_seed: 1,
                closed_only: false,
            },
            fault: fault.to_owned(),
            class: "sm".to_owned(),
            trial: 1,
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
            status: if error == 0 {
                SampleStatus::Ok
            } else {
                SampleStatus::Error
            },
            issuer_idle: true,
        }
    }

    /// One request a millisecond where `keep` says so.
    fn rows(keep: impl Fn(u64) -> bool) -> Vec<SampleRow> {
        let all = (1..100).filter(|ms| keep(*ms));
        all.map(|ms| row(ms, ms * MS, 0)).collect()
    }

    fn seen(death: Option<&str>, code: Option<i32>) -> FaultSeen {
        FaultSeen {
            victims: vec![TenantResult {
                tenant: "victim".to_owned(),
                role: Role::Victim,
                workload: None,
                rows: 0,
                schedule_hash: None,
                death: death.map(str::to_owned),
                unlogged: 0,
                overloaded: false,
                sched: None,
            }],
            struck: Struck {
                began_ns: Some(50 * MS),
                detected_ns: Some(51 * MS),
                code,
                later_code: code,
                ..Struck::default()
            },
            ..FaultSeen::default()
        }
    }

    #[test]
    fn who_waits_for_a_lost_service_was_struck_if_the_coordinator_did_it() {
        let counts = |fault: &str, acted_ns: Option<u64>| {
            let mut seen = seen(None, None);
            seen.struck = Struck {
                ended: Some("neighbour-1 did not answer within 17 s".to_owned()),
                ..Struck::default()
            };
            seen.acted_ns = acted_ns;
            let result = judge_trial(&trial(fault), &seen, &[rows(|ms| ms <= 50)]);
            assert_eq!(result.victims[0].fate, Fate::Dead, "{fault}");
            result.outcome.is_measured()
        };
        for (fault, acted_ns, want) in [
            ("mps-server-kill", Some(50 * MS), true),
            ("mps-daemon-kill", Some(50 * MS), true),
            ("mps-server-kill", None, false),
            ("mps-daemon-kill", None, false),
            ("mps-terminate-client", Some(50 * MS), false),
            ("trap", None, false),
        ] {
            assert_eq!(counts(fault, acted_ns), want, "{fault} at {acted_ns:?}");
        }
    }

    #[test]
    fn each_fate_is_told_from_the_requests() {
        let mut broken = rows(|ms| ms <= 51);
        broken.push(row(200, 52 * MS, 719));
        let mut recovered = rows(|ms| ms != 52);
        recovered.push(row(200, 52 * MS, 2));
        for (rows, death, fate, code, next_good_ms) in [
            (rows(|_| true), None, Fate::Unharmed, None, Some(1)),
            (
                rows(|ms| ms <= 50 || ms % 2 == 0),
                None,
                Fate::Slowed,
                None,
                Some(2),
            ),
            // One ended well before the stall.
            (
                rows(|ms| !(52..64).contains(&ms)),
                None,
                Fate::Stalled,
                None,
                Some(14),
            ),
            // It does nothing more before the trial ends.
            (rows(|ms| ms <= 60), None, Fate::Stalled, None, None),
            (recovered, None, Fate::Stalled, Some(2), Some(3)),
            (broken, None, Fate::Dead, Some(719), None),
            (rows(|ms| ms <= 50), None, Fate::Dead, None, None),
            (
                rows(|_| true),
                Some("killed by signal 9"),
                Fate::Dead,
                None,
                None,
            ),
        ] {
            let result = judge_trial(&trial("trap"), &seen(death, Some(719)), &[rows]);
            assert!(result.outcome.is_measured(), "{:?}", result.outcome);
            let victim = &result.victims[0];
            assert_eq!((victim.fate, victim.code), (fate, code), "{victim:?}");
            let next_good = victim.next_good_ns.map(|ns| ns / MS);
            assert_eq!(next_good, next_good_ms, "{victim:?}");
            assert_eq!(result.is_contained(), fate == Fate::Unharmed);
            assert_eq!(result.detected_after_ns, Some(MS));
        }
    }

    #[test]
    fn a_trial_without_its_fault_or_without_a_baseline_does_not_count() {
        let quiet = judge_trial(&trial("trap"), &seen(None, None), &[rows(|_| true)]);
        let early = rows(|ms| ms > 45);
        let early = judge_trial(&trial("trap"), &seen(None, Some(719)), &[early]);
        let other = judge_trial(&trial("placebo"), &seen(None, Some(719)), &[rows(|_| true)]);
        // What the death of the canary does to its process is no part of its answer.
        let canary = judge_trial(
            &trial("canary"),
            &seen(Some("killed by signal 9"), Some(719)),
            &[rows(|_| true)],
        );
        assert!(canary.outcome.is_measured(), "{:?}", canary.outcome);
        let ends = judge_trial(&trial("sigkill"), &seen(None, None), &[rows(|_| true)]);
        for (result, why) in [
            (quiet, "trap raised no error"),
            (early, "victim completed 5 requests before the fault"),
            (other, "placebo failed with CUresult 719"),
            (ends, "sigkill did not end its process"),
        ] {
            let reason = result.outcome.reason.unwrap_or_default();
            assert!(reason.contains(why), "{reason}");
        }
    }
}
