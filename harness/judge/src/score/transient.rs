//! What events of neighbours did to victims, one row for each mechanism, victim and event. Blocks,
//! and for faults trials, are the units. No level follows from these rows.

use std::collections::BTreeMap;

use gpubench_record::{
    BLOCKS_MIN, CellResult, Ends, Estimate, Event, FaultResult, Harm, Outcome, TransientRow,
    counted,
};
use gpubench_stats::Confidence;
use gpubench_stats::effect::Effect;

use super::Context;
use crate::figures::printed;

/// Event of the rows of faults of an SM, and their class.
pub const SM_FAULT: &str = "sm-fault";
const SM_CLASS: &str = "sm";

/// The subject of one row. Rows are in the order of these fields.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    position: usize,
    variant: &'a str,
    mechanism: &'a str,
    victim: &'a str,
    aggressor: Option<&'a str>,
    event: Option<Event>,
}

/// The rows, in report order; none where the profile has no events.
pub(super) fn rows(context: &Context<'_>) -> Vec<TransientRow> {
    let (plan, mut cells) = (context.input.plan, BTreeMap::<_, Vec<&CellResult>>::new());
    let position = |variant: &str| plan.mechanisms.iter().position(|one| one.variant == variant);
    for result in context.input.cells {
        let cell = &result.cell;
        if cell.shape.event.is_some() {
            let subject = Subject {
                position: position(&cell.variant).unwrap_or(usize::MAX),
                variant: &cell.variant,
                mechanism: &cell.mechanism,
                victim: &cell.victim,
                aggressor: cell.aggressor.as_deref(),
                event: cell.shape.event,
            };
            cells.entry(subject).or_default().push(result);
        }
    }
    let mut rows: Vec<_> = cells.iter().map(|(subject, cells)| row(subject, cells)).collect();
    if !rows.is_empty() {
        rows.extend(recoveries(context));
        rows.sort_by_key(|row| position(&row.variant));
    }
    rows
}

fn row(subject: &Subject<'_>, cells: &[&CellResult]) -> TransientRow {
    let measured: Vec<_> =
        cells.iter().filter(|one| one.outcome.is_measured()).map(|one| &one.figures).collect();
    let doubt = cells.iter().find_map(|one| one.outcome.reason.clone());
    let back: Vec<Option<f64>> = measured.iter().map(|one| one.event_back_ns).collect();
    let limits: Vec<f64> = measured.iter().filter_map(|one| one.event_window_ns).collect();
    let ms = |of: fn(&gpubench_record::CellFigures) -> Option<f64>| {
        mean(&measured.iter().filter_map(|one| Some(of(one)? / 1e6)).collect::<Vec<_>>(), "ms")
    };
    TransientRow {
        mechanism: subject.mechanism.to_owned(),
        variant: subject.variant.to_owned(),
        victim: subject.victim.to_owned(),
        aggressor: subject.aggressor.map(str::to_owned),
        event: subject.event.map_or("", Event::as_str).to_owned(),
        outcome: outcome(measured.len(), "block", doubt),
        stall: ms(|one| one.event_stall_ns),
        lost: mean(
            &measured.iter().filter_map(|one| one.event_lost).collect::<Vec<_>>(),
            "requests",
        ),
        back: until(&back, &limits),
        not_back: not_back(&back),
        rate_ratio: mean(
            &measured.iter().filter_map(|one| one.event_rate_ratio).collect::<Vec<_>>(),
            "ratio",
        ),
        restarted: ms(|one| one.event_restarted_ns),
    }
}

/// How long services took after a fault of an SM, until a new client had run a kernel.
fn recoveries(context: &Context<'_>) -> Vec<TransientRow> {
    let of = |variant: &str| -> Vec<&FaultResult> {
        let trials = context
            .input
            .fault_trials
            .iter()
            .filter(|one| one.planned.variant == variant && one.planned.class == SM_CLASS);
        // Only a mechanism with a service has this observation.
        trials.filter(|one| one.observed.service_gone.is_some()).collect()
    };
    let mechanisms = context.under_test().into_iter();
    mechanisms
        .map(|one| (one, of(&one.variant)))
        .filter(|(_, all)| !all.is_empty())
        .map(|(mechanism, trials)| {
            let measured: Vec<_> =
                trials.iter().filter(|one| one.outcome.is_measured()).copied().collect();
            let worst = |one: &FaultResult| one.victims.iter().map(|victim| victim.gap_ns).max();
            let is_dead = |one: &&FaultResult| one.victims.iter().any(|one| one.harm == Harm::Dead);
            let dead = measured.iter().any(is_dead);
            let stall: Vec<f64> =
                measured.iter().filter_map(|one| Some(worst(one)? as f64 / 1e6)).collect();
            let accepted = |one: &&FaultResult| one.observed.new_client?.accepted_after_ns;
            let back: Vec<Option<f64>> =
                measured.iter().map(|one| accepted(one).map(|ns| ns as f64)).collect();
            TransientRow {
                mechanism: mechanism.name.clone(),
                variant: mechanism.variant.clone(),
                victim: trials[0].planned.victim.clone(),
                aggressor: None,
                event: SM_FAULT.to_owned(),
                outcome: outcome(
                    measured.len(),
                    "trial",
                    trials.iter().find_map(|one| one.outcome.reason.clone()),
                ),
                // A dead victim completes nothing to the end of the trial.
                stall: mean(&stall, "ms").map(|one| if dead { at_least(one) } else { one }),
                lost: None,
                back: until(&back, &[]),
                not_back: not_back(&back),
                rate_ratio: None,
                restarted: None,
            }
        })
        .collect()
}

fn outcome(have: usize, unit: &str, doubt: Option<String>) -> Outcome {
    if have >= BLOCKS_MIN as usize {
        return Outcome::measured();
    }
    let why = doubt.map_or_else(String::new, |why| format!(" ({why})"));
    Outcome::inconclusive(format!("rests on {}, {BLOCKS_MIN} are needed{why}", counted(have, unit)))
}

/// The mean with its t interval over blocks. No time and no count is negative.
fn mean(values: &[f64], unit: &str) -> Option<Estimate> {
    let found = Effect::of_mean(values).ok()?.interval(Confidence::P95).ok()?;
    let found = printed(found, unit);
    Some(Estimate { lo: found.lo.max(0.0), ..found })
}

fn not_back(back: &[Option<f64>]) -> u32 {
    u32::try_from(back.iter().filter(|one| one.is_none()).count()).unwrap_or(u32::MAX)
}

/// The mean time in ms. Where some blocks have none, their windows are what it took at least, so
/// the lower end is a bound.
fn until(back: &[Option<f64>], limits: &[f64]) -> Option<Estimate> {
    let is_bound = not_back(back) > 0;
    let times = back.iter().enumerate().filter_map(|(at, one)| one.or(limits.get(at).copied()));
    let found = mean(&times.map(|ns| ns / 1e6).collect::<Vec<_>>(), "ms")?;
    Some(if is_bound { at_least(found) } else { found })
}

fn at_least(found: Estimate) -> Estimate {
    Estimate { hi: f64::INFINITY, ends: Ends::AtLeast, ..found }
}
