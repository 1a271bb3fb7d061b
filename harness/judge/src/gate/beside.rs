//! Whether the aggressor ran beside the victim, at the planned dose, until the end of the cell.

use gpubench_record::{Gate, GateState, Phase, Role};

use super::catalogue::finite;
use super::closed::completed;
use super::spans::{Span, Windows, common, outstanding, share};
use super::{CellObservation, ClockKind, Findings, Tenant, samples};

/// Accepted deviation of the time with work outstanding from the planned duty cycle, as a share of
/// the latter.
const DOSE_TOLERANCE: f64 = 0.10;
/// The longest pause between two requests that a loop makes without losing CPU time: the length
/// from which the victim counts its gaps.
const PAUSE_NS_MAX: u64 = 5_000;
/// The victim must have issued in each of this many parts of the open loop.
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
    let aggressors: Vec<&Tenant<'_>> =
        observation.tenants.iter().filter(|tenant| tenant.role() == Role::Aggressor).collect();
    let busy: Vec<Vec<Span>> = aggressors.iter().map(|tenant| outstanding(tenant.rows)).collect();
    rates(observation, &aggressors, windows.closed, found);
    if observation.clock == ClockKind::Wall && observation.cell.dose >= 1.0 {
        let idle = busy.iter().filter_map(|spans| idle(spans, windows.closed));
        found.figures.aggressor_idle_closed_ratio = idle.reduce(f64::max).and_then(finite);
    }
    if observation.cell.dose < 1.0 {
        duty(observation.cell.dose, &busy, windows, found);
    } else {
        co_residency(observation.thresholds.overlap_min, victim, &busy, windows, found);
    }
    if windows.open.length_ns() > 0 {
        victim_in_every_part(victim, windows.open, found);
    }
    alive_at_the_end(&aggressors, windows.open.end_ns, found);
}

/// The rate that the aggressors reached. A mechanism that throttles them isolates well, so this is
/// a figure and no gate.
fn rates(
    observation: &CellObservation<'_>,
    aggressors: &[&Tenant<'_>],
    window: Span,
    found: &mut Findings,
) {
    // Neighbours with other workloads have rates in other units.
    let rates: Option<Vec<f64>> = aggressors
        .iter()
        .filter(|tenant| tenant.result.planned.workload == observation.cell.aggressor)
        .map(|tenant| completions_per_s(tenant, window))
        .collect();
    let Some(total) = rates.map(|rates| rates.iter().sum::<f64>()) else {
        return;
    };
    found.figures.aggressor_rate_per_s = finite(total);
    let dose = observation.aggressor_peak_per_s.map(|peak| total / peak);
    found.figures.achieved_dose_ratio = dose.and_then(finite);
}

/// Completions per second between the first and the last completion in the window, so that only
/// whole cycles count.
pub(super) fn completions_per_s(tenant: &Tenant<'_>, window: Span) -> Option<f64> {
    let inside = completed(tenant.rows)
        .map(|row| row.t_done_ns)
        .filter(|t| (window.start_ns..window.end_ns).contains(t));
    let count = inside.clone().count();
    let (first_ns, last_ns) = (inside.clone().min()?, inside.max()?);
    (first_ns < last_ns).then(|| (count - 1) as f64 * 1e9 / (last_ns - first_ns) as f64)
}

/// The share of the window without work outstanding. A pause of up to [`PAUSE_NS_MAX`] is that of
/// the aggressor's own loop between two requests, and part of its full dose.
fn idle(busy: &[Span], window: Span) -> Option<f64> {
    let mut joined: Vec<Span> = Vec::with_capacity(busy.len());
    for span in busy {
        match joined.last_mut() {
            Some(last) if span.start_ns.saturating_sub(last.end_ns) <= PAUSE_NS_MAX => {
                last.end_ns = span.end_ns;
            }
            _ => joined.push(*span),
        }
    }
    share(&joined, window).map(|share| 1.0 - share)
}

/// The smallest share; 0 where the cell has no aggressor or a share is unknown: the gate then
/// fails.
fn smallest(shares: impl Iterator<Item = Option<f64>>) -> f64 {
    shares.map(|share| share.unwrap_or(0.0)).reduce(f64::min).unwrap_or(0.0)
}

fn co_residency(
    overlap_min: f64,
    victim: &Tenant<'_>,
    busy: &[Vec<Span>],
    windows: &Windows,
    found: &mut Findings,
) {
    let own = demand(victim, windows.closed);
    let both = smallest(busy.iter().map(|spans| share(&common(&own, spans), windows.closed)));
    found.figures.overlap_closed_ratio = finite(both);
    let detail = format!(
        "both had work outstanding in {:.1} % of the closed loop, accepted is above {:.1} %",
        100.0 * both,
        100.0 * overlap_min
    );
    found.holds(Gate::CoResidencyClosed, both > overlap_min, detail);
    found.numbers(Some(both), Some(overlap_min), "share");
    if windows.open.length_ns() == 0 {
        return;
    }
    let open = smallest(busy.iter().map(|spans| share(spans, windows.open)));
    found.figures.aggressor_busy_open_ratio = finite(open);
    let detail = format!(
        "the aggressor had work outstanding in {:.1} % of the open loop, accepted is above {:.1} %",
        100.0 * open,
        100.0 * overlap_min
    );
    found.holds(Gate::CoResidencyOpen, open > overlap_min, detail);
    found.numbers(Some(open), Some(overlap_min), "share");
}

/// When the victim demanded the resource. After a refusal with an answering code the demand lasts
/// until the next request, but at most a tenth of the closed loop.
fn demand(victim: &Tenant<'_>, closed: Span) -> Vec<Span> {
    let answers = victim.answering_codes;
    if answers.is_empty() {
        return outstanding(victim.rows);
    }
    let mut rows = victim.rows.to_vec();
    rows.sort_unstable_by_key(|row| row.seq);
    let nexts: Vec<u64> = rows.iter().skip(1).map(|row| row.t_issue_ns).collect();
    for (row, next_ns) in rows.iter_mut().zip(nexts) {
        if samples::is_refusal(answers, row) {
            row.t_done_ns = next_ns.min(row.t_ret_ns + closed.length_ns() / PARTS);
        }
    }
    outstanding(&rows)
}

/// At a dose below 1 the aggressor pauses as planned, in both loops.
fn duty(dose: f64, busy: &[Vec<Span>], windows: &Windows, found: &mut Findings) {
    let mut holds = !busy.is_empty();
    let mut furthest = dose;
    let mut parts = Vec::new();
    let figures = &mut found.figures;
    for (figure, loop_name, window) in [
        (&mut figures.aggressor_busy_closed_ratio, "closed", windows.closed),
        (&mut figures.aggressor_busy_open_ratio, "open", windows.open),
    ] {
        // Some cells have no open loop.
        if window.length_ns() == 0 {
            continue;
        }
        let shares: Vec<f64> =
            busy.iter().map(|spans| share(spans, window).unwrap_or(0.0)).collect();
        let is_off = |share: &f64| (share - dose).abs() > DOSE_TOLERANCE * dose;
        holds &= !shares.iter().any(is_off);
        let further = |share: &f64| (share - dose).abs() > (furthest - dose).abs();
        furthest = shares.iter().copied().find(further).unwrap_or(furthest);
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        *figure = finite(mean);
        parts.push(format!("{:.1} % of the {loop_name} loop", 100.0 * mean));
    }
    let detail = format!(
        "the aggressor had work outstanding in {}, planned {:.1} %, accepted within 10 % of that",
        parts.join(" and "),
        100.0 * dose
    );
    found.holds(Gate::Dose, holds, detail);
    found.numbers(Some(furthest), Some(dose), "share");
}

/// The victim issued a request in every tenth of the open loop in which one was due.
fn victim_in_every_part(victim: &Tenant<'_>, open: Span, found: &mut Findings) {
    const GATE: Gate = Gate::VictimInEveryTenth;
    let overload = found.state_of(&Gate::Overload);
    if overload.is_some_and(|state| state != GateState::Passed) {
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
        Some(number) => {
            format!("the victim issued nothing in tenth {} of the open loop", number + 1)
        }
    };
    found.holds(GATE, without.is_none(), detail);
}

fn alive_at_the_end(aggressors: &[&Tenant<'_>], end_ns: u64, found: &mut Findings) {
    let dead = aggressors.iter().find(|tenant| tenant.death().is_some() || tenant.rows.is_empty());
    let detail = match dead {
        Some(tenant) => format!("{} did not live to the end", tenant.name()),
        None if aggressors.is_empty() => "there was no aggressor".to_owned(),
        None => format!("alive at {end_ns} ns, the end of the last loop"),
    };
    found.holds(Gate::AggressorAlive, dead.is_none() && !aggressors.is_empty(), detail);
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Condition, Gate, GateState, Phase};

    use crate::gate::ClockKind;
    use crate::gate::fixture::{MS, World, back_to_back};

    #[test]
    fn aggressor_figures_come_from_whole_cycles() {
        let result = World::new(Condition::C, MS).judge();
        assert!((result.figures.aggressor_rate_per_s.unwrap() - 1e3 / 3.0).abs() < 1e-9);
        assert!((result.figures.achieved_dose_ratio.unwrap() - 1e3 / 3.0 / 400.0).abs() < 1e-12);
        assert_eq!(result.figures.overlap_closed_ratio.unwrap(), 1.0);
        assert_eq!(result.figures.aggressor_busy_open_ratio.unwrap(), 1.0);
    }

    /// The aggressor pauses for 2 % of the closed loop; its pauses of 4 us between two requests are
    /// those of any loop.
    #[test]
    fn pauses_of_the_aggressor_are_a_figure_and_its_own_loop_is_none() {
        let mut world = World::new(Condition::C, MS);
        let mut now_ns = 0;
        for row in &mut world.rows[1] {
            if now_ns == 300 * MS {
                now_ns += 17 * MS;
            }
            (row.t_sched_ns, row.t_issue_ns) = (now_ns + 4_000, now_ns + 4_000);
            now_ns += 3 * MS;
            row.t_done_ns = now_ns;
        }
        let figures = world.judge().figures;
        let paused = figures.aggressor_idle_closed_ratio.unwrap();
        assert!((paused - 17.0 / 850.0).abs() < 1e-4, "{paused}");
        assert!((figures.overlap_closed_ratio.unwrap() - 0.98).abs() < 0.002);
        world.clock = ClockKind::Virtual;
        assert!(world.judge().figures.aggressor_idle_closed_ratio.is_none());
    }

    #[test]
    fn every_aggressor_must_work_beside_the_victim() {
        let mut world = World::new(Condition::C, MS);
        let mut second = world.cell.tenants[1].clone();
        second.tenant = "neighbour-2".to_owned();
        world.cell.tenants.push(second);
        world.deaths.push(None);
        world.rows.push(back_to_back(0, Phase::Closed, 0, world.durations.cell_ns(), MS));
        let result = world.judge();
        assert!(result.outcome.is_measured(), "{:?}", result.outcome);
        assert!((result.figures.aggressor_rate_per_s.unwrap() - 4e3 / 3.0).abs() < 1e-9);
        world.rows[2].truncate(20);
        assert_eq!(world.judge().gate_state(&Gate::CoResidencyClosed), Some(GateState::Failed));
    }
}
