//! What an event of a neighbour did to the victim of its cell, from the victim's requests: the
//! longest time without a completion, requests lost, and the time until it had its old rate.
//!
//! The old rate is back with the last batch of completions that took more than a tenth longer than
//! the longest batch before the event. So what a mechanism does to a rate all the time, as turns
//! do, is no part of the event.

use gpubench_record::{EventObserved, Gate, Phase, SampleRow, SampleStatus, counted};

use super::catalogue::finite;
use super::closed::completed;
use super::spans::Span;
use super::{CellObservation, Findings, Tenant, samples};

/// Completions of a batch.
const BATCH: usize = 10;
/// Fewest completions before the event: several batches, of which the longest counts.
const BEFORE_MIN: usize = 5 * BATCH;
/// A batch this much longer than every batch before the event is slow.
const SLOW: f64 = 1.1;

pub(super) fn judge(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    window: Span,
    found: &mut Findings,
) {
    samples::judge_victim(observation, victim, found);
    let Some(at_ns) = happened(observation.host.event, found) else { return };
    let rows = samples::of_phase(victim.rows, Phase::Closed);
    let mut done: Vec<u64> = completed(&rows).map(|row| row.t_done_ns).collect();
    done.retain(|ns| (window.start_ns..=window.end_ns).contains(ns));
    done.sort_unstable();
    let before = done.partition_point(|ns| *ns < at_ns);
    let detail =
        format!("{} completed before the event, {BEFORE_MIN} needed", counted(before, "request"));
    found.holds(Gate::ClosedRate, before >= BEFORE_MIN, detail);
    if before < BEFORE_MIN {
        return;
    }
    let left_ns = window.end_ns.saturating_sub(at_ns);
    // A request that is under way at the end counts as a gap so far.
    let mut from_event = done[before - 1..].to_vec();
    from_event.push(window.end_ns);
    let gaps = from_event.windows(2).map(|pair| pair[1] - pair[0]);
    let failed = |row: &&SampleRow| row.status == SampleStatus::Error;
    let figures = &mut found.figures;
    figures.event_stall_ns = gaps.max().and_then(|ns| finite(ns as f64));
    figures.event_lost = finite(rows.iter().filter(failed).count() as f64);
    figures.event_window_ns = finite(left_ns as f64);
    figures.event_back_ns = back_ns(&done, before, at_ns, window.end_ns).and_then(finite);
    let half_ns = window.end_ns - left_ns / 2;
    let late = done.len() - done.partition_point(|ns| *ns < half_ns);
    let old = (before - 1) as f64 / (done[before - 1] - done[0]).max(1) as f64;
    figures.event_rate_ratio = finite(2.0 * late as f64 / left_ns.max(1) as f64 / old);
    let restarted = observation.host.event.and_then(|event| event.restarted_after_ns);
    figures.event_restarted_ns = restarted.and_then(|ns| finite(ns as f64));
}

/// The instant of the event; `None`, with a failed gate, where it did not happen as planned.
fn happened(event: Option<&EventObserved>, found: &mut Findings) -> Option<u64> {
    let failure = match event {
        None => Some("it was not observed"),
        Some(EventObserved { failure: Some(why), .. }) => Some(why.as_str()),
        Some(EventObserved { at_ns: None, .. }) => Some("the cell ended before it"),
        Some(_) => None,
    };
    if let Some(why) = failure {
        found.holds(Gate::Completed, false, format!("the event did not happen: {why}"));
        return None;
    }
    event?.at_ns
}

/// From the event to the end of the last slow batch; 0 where none is slow, and `None` where the
/// window ends with one.
fn back_ns(done: &[u64], before: usize, at_ns: u64, end_ns: u64) -> Option<f64> {
    let (early, late) = (&done[..before], &done[before - 1..]);
    let lengths = |of: &[u64]| -> Vec<u64> {
        of.windows(BATCH + 1).map(|batch| batch[BATCH] - batch[0]).collect()
    };
    let limit = SLOW * lengths(early).into_iter().max()? as f64;
    let is_slow = |ns: &u64| *ns as f64 > limit;
    let after = lengths(late);
    let open_ns = end_ns - late[late.len().saturating_sub(BATCH)];
    if after.last().is_none_or(is_slow) || open_ns as f64 > limit {
        return None;
    }
    let last = after.iter().rposition(is_slow);
    // The batch that begins with the completion at `last` ends a batch later.
    Some(last.map_or(0.0, |last| late[last + BATCH].saturating_sub(at_ns) as f64))
}

#[cfg(test)]
mod tests {
    use gpubench_record::{CellResult, Condition, Event, EventObserved, OutcomeKind, Shape};

    use crate::gate::fixture::{MS, World};

    const AT_NS: u64 = 500 * MS;

    /// A cell with an event, after which requests complete as `done` moves them.
    fn judged(event: Option<EventObserved>, done: impl Fn(u64) -> Option<u64>) -> CellResult {
        let mut world = World::new(Condition::C, MS);
        world.cell.shape = Shape::of_event(Event::Kill);
        world.event = event;
        world.deaths[1] = Some("signal 9");
        for row in &mut world.rows[0] {
            match done(row.t_done_ns) {
                Some(ns) => row.t_done_ns = ns,
                None => {
                    row.status = gpubench_record::SampleStatus::Error;
                    row.t_done_ns = gpubench_record::sample::MISSING;
                }
            }
        }
        world.judge()
    }

    #[test]
    fn a_stall_has_its_length_and_its_end_and_a_lasting_loss_has_none() {
        let at = || Some(EventObserved { at_ns: Some(AT_NS), ..EventObserved::default() });
        let none = judged(at(), Some);
        assert!(none.outcome.is_measured(), "{:?}", none.outcome);
        let of = |cell: &CellResult| {
            let figures = &cell.figures;
            (figures.event_stall_ns, figures.event_back_ns, figures.event_lost)
        };
        assert_eq!(of(&none), (Some(1e6), Some(0.0), Some(0.0)));
        // Nothing completes for 80 ms, and later requests are late by as much.
        let stall = judged(at(), |ns| Some(if ns > AT_NS { ns + 80 * MS } else { ns }));
        assert_eq!(stall.figures.event_stall_ns, Some(81e6));
        let back = stall.figures.event_back_ns.expect("it is back");
        assert!((80e6..=92e6).contains(&back), "{back}");
        // Each request takes twice as long: the old rate is not back.
        let half = judged(at(), |ns| Some(if ns > AT_NS { AT_NS + 2 * (ns - AT_NS) } else { ns }));
        assert_eq!(of(&half).1, None);
        assert!((half.figures.event_rate_ratio.expect("a ratio") - 0.5).abs() < 0.02);
        // The requests of 30 ms fail.
        let lost = judged(at(), |ns| (!(AT_NS..AT_NS + 30 * MS).contains(&ns)).then_some(ns));
        assert_eq!(of(&lost).2, Some(30.0));
        assert!(lost.outcome.is_measured(), "{:?}", lost.outcome);
        let dead = judged(at(), |ns| (ns < AT_NS).then_some(ns));
        assert_eq!((of(&dead).1, dead.figures.event_stall_ns > Some(400e6)), (None, true));
    }

    #[test]
    fn a_cell_whose_event_did_not_happen_does_not_count() {
        let failed = EventObserved { failure: Some("refused".to_owned()), ..Default::default() };
        for event in [None, Some(EventObserved::default()), Some(failed)] {
            let cell = judged(event, Some);
            assert_eq!(cell.outcome.outcome, OutcomeKind::Inconclusive);
            assert_eq!(cell.figures.event_stall_ns, None);
        }
        let early = EventObserved { at_ns: Some(110 * MS), ..EventObserved::default() };
        assert!(!judged(Some(early), Some).outcome.is_measured());
    }
}
