//! Whether the aggressor really ran beside the victim, as hard as planned, to the end.

use gpubench_record::{GateState, Phase, Role};

use super::closed::completed;
use super::quantiles::put;
use super::spans::{Span, Windows, common, outstanding, share};
use super::{CellObservation, Findings, OVERLOAD_GATE, Tenant, answers, samples};

/// How far the time with work outstanding may lie from the planned duty cycle, as a share of it.
const DOSE_TOLERANCE: f64 = 0.10;
/// Parts of the open loop in each of which the victim must have issued.
const PARTS: u64 = 10;

pub(super) fn judge(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    windows: &Windows,
    found: &mut Findings,
) {
    if !observation.cell.condition.has_aggressor() {
        return;
    }
    let aggressors: Vec<&Tenant<'_>> = observation
        .tenants
        .iter()
        .filter(|tenant| tenant.role() == Role::Aggressor)
        .collect();
    let busy: Vec<Vec<Span>> = aggressors
        .iter()
        .map(|tenant| outstanding(tenant.rows))
        .collect();
    rates(observation, &aggressors, windows.closed, found);
    if observation.cell.dose < 1.0 {
        duty(observation.cell.dose, &busy, windows, found);
    } else {
        co_residency(
            observation.thresholds.overlap_min,
            victim,
            &busy,
            windows,
            found,
        );
    }
    if windows.open.length_ns() > 0 {
        victim_in_every_part(victim, windows.open, found);
    }
    alive_at_the_end(&aggressors, windows.open.end_ns, found);
}

/// What the aggressors achieved. Throttling them is good isolation, not a weak test, so this is
/// told and not judged.
fn rates(
    observation: &CellObservation<'_>,
    aggressors: &[&Tenant<'_>],
    window: Span,
    found: &mut Findings,
) {
    // Of the aggressor that the cell is about: others beside it do work of another kind.
    let rates: Option<Vec<f64>> = aggressors
        .iter()
        .filter(|tenant| tenant.result.planned.workload == observation.cell.aggressor)
        .map(|tenant| completions_per_s(tenant, window))
        .collect();
    let Some(total) = rates.map(|rates| rates.iter().sum::<f64>()) else {
        return;
    };
    found.rate("aggressor_rate_per_s", total);
    put(
        found,
        "achieved_dose_ratio",
        observation.aggressor_peak_per_s.map(|peak| total / peak),
    );
}

/// Completions per second from the first completion in the window to the last: whole cycles only.
fn completions_per_s(tenant: &Tenant<'_>, window: Span) -> Option<f64> {
    let done = completed(tenant.rows);
    let inside = done
        .iter()
        .map(|row| row.t_done_ns)
        .filter(|t| (window.start_ns..window.end_ns).contains(t));
    let count = inside.clone().count();
    let (first_ns, last_ns) = (inside.clone().min()?, inside.max()?);
    (first_ns < last_ns).then(|| (count - 1) as f64 * 1e9 / (last_ns - first_ns) as f64)
}

/// The least of the shares, and 0 where there is no aggressor at all.
fn least(shares: impl Iterator<Item = Option<f64>>) -> f64 {
    shares
        .map(|share| share.unwrap_or(0.0))
        .reduce(f64::min)
        .unwrap_or(0.0)
}

fn co_residency(
    overlap_min: f64,
    victim: &Tenant<'_>,
    busy: &[Vec<Span>],
    windows: &Windows,
    found: &mut Findings,
) {
    let own = demand(victim, windows.closed);
    let both = least(
        busy.iter()
            .map(|spans| share(&common(&own, spans), windows.closed)),
    );
    found.rate("overlap_closed_ratio", both);
    let detail = format!(
        "both had work outstanding in {:.1} % of the closed loop, accepted is above {:.1} %",
        100.0 * both,
        100.0 * overlap_min
    );
    found.holds("co-residency-closed", both > overlap_min, detail);
    if windows.open.length_ns() == 0 {
        return;
    }
    let open = least(busy.iter().map(|spans| share(spans, windows.open)));
    found.rate("aggressor_busy_open_ratio", open);
    let detail = format!(
        "the aggressor had work outstanding in {:.1} % of the open loop, accepted is above {:.1} %",
        100.0 * open,
        100.0 * overlap_min
    );
    found.holds("co-residency-open", open > overlap_min, detail);
}

/// When the victim demanded something. One whose refusal is an answer is in want until it asks
/// again, which it does soon: of a longer pause only a tenth of the closed loop counts.
fn demand(victim: &Tenant<'_>, closed: Span) -> Vec<Span> {
    let answers = victim.answering_codes;
    let mut rows = victim.rows.to_vec();
    rows.sort_unstable_by_key(|row| row.seq);
    let nexts: Vec<u64> = rows.iter().skip(1).map(|row| row.t_issue_ns).collect();
    for (row, next_ns) in rows.iter_mut().zip(nexts) {
        if answers::is_refusal(answers, row) {
            row.t_done_ns = next_ns.min(row.t_ret_ns + closed.length_ns() / PARTS);
        }
    }
    outstanding(&rows)
}

/// At a dose below 1 the aggressor pauses as planned, in both loops.
fn duty(dose: f64, busy: &[Vec<Span>], windows: &Windows, found: &mut Findings) {
    let mut holds = !busy.is_empty();
    let mut parts = Vec::new();
    for (name, loop_name, window) in [
        ("aggressor_busy_closed_ratio", "closed", windows.closed),
        ("aggressor_busy_open_ratio", "open", windows.open),
    ] {
        // A cell need not have an open loop.
        if window.length_ns() == 0 {
            continue;
        }
        let shares: Vec<f64> = busy
            .iter()
            .map(|spans| share(spans, window).unwrap_or(0.0))
            .collect();
        let astray = |share: &f64| (share - dose).abs() > DOSE_TOLERANCE * dose;
        holds &= !shares.iter().any(astray);
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        found.rate(name, mean);
        parts.push(format!("{:.1} % of the {loop_name} loop", 100.0 * mean));
    }
    let detail = format!(
        "the aggressor had work outstanding in {}, planned {:.1} %, accepted within 10 % of that",
        parts.join(" and "),
        100.0 * dose
    );
    found.holds("dose", holds, detail);
}

/// In every tenth of the open loop in which a request came due, one was issued.
fn victim_in_every_part(victim: &Tenant<'_>, open: Span, found: &mut Findings) {
    const GATE: &str = "victim-in-every-tenth";
    let overload = found.gates.iter().find(|gate| gate.gate == OVERLOAD_GATE);
    if overload.is_some_and(|gate| gate.state != GateState::Passed) {
        return found.not_evaluated(GATE, "the victim was overloaded");
    }
    let rows = samples::of_phase(victim.rows, Phase::Open);
    if rows.is_empty() || open.length_ns() < PARTS {
        return found.holds(GATE, false, "the victim issued nothing in the open loop");
    }
    let part = |t_ns: u64| {
        let offset_ns = u128::from(t_ns.checked_sub(open.start_ns)?);
        u64::try_from(offset_ns * u128::from(PARTS) / u128::from(open.length_ns())).ok()
    };
    let without = (0..PARTS).find(|number| {
        let due = rows.iter().any(|row| part(row.t_sched_ns) == Some(*number));
        due && !rows.iter().any(|row| part(row.t_issue_ns) == Some(*number))
    });
    let detail = match without {
        None => "the victim issued wherever its schedule had an arrival".to_owned(),
        Some(number) => format!(
            "the victim issued nothing in tenth {} of the open loop",
            number + 1
        ),
    };
    found.holds(GATE, without.is_none(), detail);
}

fn alive_at_the_end(aggressors: &[&Tenant<'_>], end_ns: u64, found: &mut Findings) {
    let dead = aggressors
        .iter()
        .find(|tenant| tenant.death().is_some() || tenant.rows.is_empty());
    let detail = match dead {
        Some(tenant) => format!("{} did not live to the end", tenant.name()),
        None if aggressors.is_empty() => "there was no aggressor".to_owned(),
        None => format!("alive at {end_ns} ns, the end of the last loop"),
    };
    found.holds(
        "aggressor-alive",
        dead.is_none() && !aggressors.is_empty(),
        detail,
    );
}
