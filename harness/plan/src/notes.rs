//! Limits of a plan that a user should know before the run.

use gpubench_record::Plan;

use super::budget;
use super::budget::open_ns_for_p99;
use crate::profile::Profile;
use crate::profile::units::Span;

/// One line for each limit; none for a plan that can decide every axis it measures.
#[must_use]
pub fn notes(plan: &Plan, profile: &Profile) -> Vec<String> {
    let profile = &profile.of_run();
    let mut notes = Vec::new();
    if plan.cells.iter().all(|cell| cell.closed_only) && plan.blocks == 1 {
        notes.push("the cells only prove that each mechanism is in force".to_owned());
        return notes;
    }
    if !plan.decides {
        notes
            .push(format!("profile {} decides nothing: its runs show that it works", plan.profile));
    }
    let open_ns_wanted = open_ns_for_p99(profile);
    if plan.durations.open_ns < open_ns_wanted {
        notes.push(short_open_loops(plan, profile, open_ns_wanted));
    }
    let period_ns = budget::longest_period_ns(plan);
    if plan.durations.closed_ns.checked_rem(period_ns).unwrap_or(0) > 0 {
        notes.push(format!(
            "closed loops of {} are no whole periods of a limiter, which has {}: each cell starts \
             at a random instant of a period, and blocks differ by that",
            Span::from_ns(plan.durations.closed_ns),
            Span::from_ns(period_ns)
        ));
    }
    notes
}

#[expect(clippy::cast_precision_loss, reason = "durations and counts are far below 2^53")]
fn short_open_loops(plan: &Plan, profile: &Profile, open_ns_wanted: u64) -> String {
    let requests = plan.durations.open_ns as f64 / 1e9 * profile.nominal_rate_per_s();
    let wanted = plan.thresholds.jitter_requests_min;
    let others_ns = plan.durations.cell_ns() - plan.durations.open_ns;
    let needed_ns = (others_ns + open_ns_wanted).saturating_mul(plan.cells.len() as u64);
    let needed = Span::from_ns(needed_ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000));
    format!(
        "open loops hold about {requests:.0} requests a block and a p99 needs {wanted}: jitter \
         will be inconclusive (cell.open = \"{}\" with device_time = \"{needed}\" is enough)",
        Span::from_ns(open_ns_wanted.div_ceil(10_000_000).saturating_mul(10_000_000)),
    )
}
