//! What a fault did to one victim, computed from the victim's requests alone.

use gpubench_record::sample::MISSING;
use gpubench_record::{FaultTrial, Harm, SampleRow, SampleStatus, VictimOutcome};

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
