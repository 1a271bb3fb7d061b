//! What records say of one need under one mechanism: the bounds of each row that it is about.

use std::collections::BTreeSet;

use gpubench_plan::{is_fatal, no_victim};
use gpubench_record::{
    Axis, Ends, Estimate, MatrixRow, OutcomeKind, PlannedPair, RunRecord, counted,
};
use gpubench_show::{list, outwards};

use super::measure::unmeasured;
use super::need::{Figure, Need, Rows, What};
use super::{admits_one_tenant, cost, instances, is_measured, page, properties, steps};

/// A figure of one row, as a need reads it.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// What rows of several records have in common.
    pub key: String,
    pub lo: f64,
    pub hi: f64,
    /// The worse bound as the record has it: a level of few trials shows less.
    pub shown: f64,
    pub figure: Option<String>,
    pub reason: Option<String>,
    /// Those of its record; the largest number where it does not depend on them.
    pub tenants: u32,
    /// What a table of levels has in place of its bounds.
    pub instead: Option<String>,
}

impl Evidence {
    pub(super) const fn is_known(&self) -> bool {
        self.lo.is_finite() || self.hi.is_finite()
    }
}

/// What the records have of a need, one for each row.
pub(super) fn evidence(records: &[&RunRecord], variant: &str, what: &What) -> Vec<Evidence> {
    if let Some(found) = ends_together(records, variant, what) {
        return vec![found];
    }
    let mut all: Vec<Evidence> =
        records.iter().flat_map(|run| of_record(run, variant, what)).collect();
    if matches!(what, What::Tenants(_) | What::Memory(_)) {
        all.sort_by(|a, b| b.lo.total_cmp(&a.lo));
    }
    if !matches!(what, What::Level(..) | What::Figure(..)) {
        all.truncate(1);
    }
    // What one record measured and another did not is measured.
    let known: Vec<String> =
        all.iter().filter(|one| one.is_known()).map(|one| one.key.clone()).collect();
    all.retain(|one| one.is_known() || !known.contains(&one.key));
    if let What::Level(rows, _) | What::Figure(rows, ..) = what {
        let missing = rows.required().iter().filter(|sub| {
            let ends = format!("/{sub}");
            !all.iter().any(|one| one.key.split(' ').next().is_some_and(|key| key.ends_with(&ends)))
        });
        let of = |sub: &&str| Rows { part: Some((*sub).to_owned()), ..rows.clone() };
        let missing = missing.map(|sub| none(sub, unmeasured(records, variant, Some(&of(sub)))));
        let missing: Vec<Evidence> = missing.collect();
        all.extend(missing);
        let is_tail = matches!(what, What::Figure(_, Figure::Tail, _));
        if rows.axis == Some(Axis::Jitter) && rows.part.is_none() && !is_tail {
            let missing = without_jitter(records, variant, &all);
            all.extend(missing);
        }
    }
    if all.is_empty() {
        let rows = match what {
            What::Level(rows, _) | What::Figure(rows, ..) => Some(rows),
            _ => None,
        };
        all.push(none("", unmeasured(records, variant, rows)));
    }
    all
}

/// Tenants that are threads of one process: a fault that ends it ends all of them, on every device.
fn ends_together(records: &[&RunRecord], variant: &str, what: &What) -> Option<Evidence> {
    let (What::Level(rows, _) | What::Figure(rows, ..)) = what else { return None };
    let properties = records.iter().find_map(|run| properties(run, variant))?;
    let is_hit = rows.axis == Some(Axis::Fault)
        && properties.has_threads()
        && is_fatal(rows.part.as_deref(), properties);
    let why = no_victim(properties).filter(|_| is_hit)?;
    let (figure, instead) = (Some(why.to_owned()), Some("-".to_owned()));
    let reason = format!("not run, because {why}");
    Some(Evidence { lo: 0.0, hi: 0.0, shown: 0.0, figure, instead, ..none("fault", reason) })
}

/// How many faults harmed a victim, of those that a need is about.
pub(super) fn harmed(records: &[&RunRecord], variant: &str, need: &Need) -> Option<String> {
    let (What::Level(rows, _) | What::Figure(rows, ..)) = &need.what else { return None };
    let all = records.iter().flat_map(|run| &run.matrix);
    let own = all.filter(|row| row.variant == variant && row.axis == Axis::Fault.as_str());
    let own = own
        .filter(|row| rows.has(row))
        .filter_map(|row| Some((row.aggressor.as_deref()?, row.survival.as_ref()?.value)));
    let (mut tried, mut harmful) = (BTreeSet::new(), BTreeSet::new());
    for (fault, survival) in own {
        tried.insert(fault);
        if survival < 1.0 {
            harmful.insert(fault);
        }
    }
    let (count, all) = (harmful.len(), counted(tried.len(), "fault"));
    (count > 0).then(|| format!("victims were harmed by {count} of {all}"))
}

pub(super) fn none(key: &str, reason: String) -> Evidence {
    let (lo, hi) = (f64::NEG_INFINITY, f64::INFINITY);
    let (key, tenants) = (key.to_owned(), u32::MAX);
    let (reason, instead) = (Some(reason), None);
    Evidence { key, lo, hi, shown: lo, figure: None, reason, tenants, instead }
}

/// The planned aggressors of rates beside which no jitter was measured: one more row, without
/// bounds, with the worst of the measured ones as its figure.
fn without_jitter(records: &[&RunRecord], variant: &str, all: &[Evidence]) -> Option<Evidence> {
    let has = |aggressor: &str| all.iter().any(|one| one.key.ends_with(&format!(" {aggressor}")));
    let mut missing: Vec<&str> = Vec::new();
    let own = |run: &&&RunRecord| {
        run.matrix.iter().any(|row| row.variant == variant && row.axis == Axis::Jitter.as_str())
    };
    for run in records.iter().filter(own) {
        // Calls that the driver answers are no work, and have no latency of this kind.
        let is_work = |pair: &&PlannedPair| {
            let facts = run.plan.workloads.get(&pair.victim);
            facts.is_none_or(|facts| facts.answering_codes.is_empty())
        };
        for pair in run.plan.pairs.iter().filter(is_work) {
            let is_of_rate = matches!(pair.sub_axis.axis(), Axis::Compute | Axis::Bandwidth);
            if is_of_rate && !has(&pair.aggressor) && !missing.contains(&pair.aggressor.as_str()) {
                missing.push(&pair.aggressor);
            }
        }
    }
    let worst = all.iter().filter(|one| one.is_known()).min_by(|a, b| a.lo.total_cmp(&b.lo))?;
    let (some, planned) = (all.len(), all.len() + missing.len());
    let reason = format!(
        "measured beside {some} of {}, not beside {}",
        counted(planned, "aggressor"),
        list(&missing, "and")
    );
    let (figure, found) = (worst.figure.clone(), page::levels([worst.lo, worst.hi]));
    let instead = Some(format!("{found} of {some}/{planned}"));
    (!missing.is_empty()).then(|| Evidence { figure, instead, ..none("jitter", reason) })
}

fn of_record(run: &RunRecord, variant: &str, what: &What) -> Vec<Evidence> {
    let exact = |value: bool, text: String| Evidence {
        lo: f64::from(value),
        hi: f64::from(value),
        shown: f64::from(value),
        figure: Some(text),
        ..none("", String::new())
    };
    match what {
        What::Level(rows, _) => rows_of(run, variant, rows, true, level),
        What::Figure(rows, figure, _) if *figure == Figure::Throughput => {
            throughput(run, variant, rows)
        }
        What::Figure(rows, Figure::Tail, _) => tails(run, variant, rows),
        What::Figure(rows, figure, _) => {
            rows_of(run, variant, rows, false, |row| of_figure(row, *figure))
        }
        What::Without(step) => steps(run, variant)
            .map_or_else(Vec::new, |steps| vec![exact(!steps.contains(step), page::takes(&steps))]),
        What::Processes => properties(run, variant).map_or_else(Vec::new, |properties| {
            let text =
                if properties.has_threads() { "threads of one process" } else { "processes" };
            vec![exact(!properties.has_threads(), format!("tenants are {text}"))]
        }),
        What::Tenants(_) => tenants(run, variant).into_iter().collect(),
        What::Memory(_) => cost::memory(run, variant, what).into_iter().collect(),
    }
}

/// The tenants that the record measured: no more are known.
fn tenants(run: &RunRecord, variant: &str) -> Option<Evidence> {
    run.mechanisms.iter().find(|row| row.variant == variant)?;
    if admits_one_tenant(run, variant) {
        let figure = Some("a second tenant is refused".to_owned());
        return Some(Evidence { lo: 1.0, hi: 1.0, shown: 1.0, figure, ..none("", String::new()) });
    }
    let is_measured = is_measured(run, variant);
    let (lo, hi) = (f64::NEG_INFINITY, f64::INFINITY);
    let lo = if is_measured { run.plan.tenants.into() } else { lo };
    if let Some(instances) = instances(variant) {
        let figure = Some(format!("its layout has {}", counted(instances.len(), "instance")));
        let hi = instances.len() as f64;
        return Some(Evidence { lo, hi, shown: lo, figure, ..none("", "not measured".to_owned()) });
    }
    is_measured.then(|| Evidence {
        lo,
        hi,
        shown: lo,
        figure: Some(format!("measured with {} tenants", run.plan.tenants)),
        ..none("", "no record has more".to_owned())
    })
}

fn rows_of(
    run: &RunRecord,
    variant: &str,
    rows: &Rows,
    is_level: bool,
    read: impl Fn(&MatrixRow) -> Option<([f64; 2], String)>,
) -> Vec<Evidence> {
    // What a device cannot have is no part of the axis.
    let own = run.matrix.iter().filter(|row| {
        row.variant == variant && rows.has(row) && row.outcome.outcome != OutcomeKind::Waived
    });
    own.map(|row| {
        let beside = row.aggressor.as_deref().unwrap_or_default();
        let key = format!("{} {beside}", row.axis_path());
        let place = match row.aggressor.as_deref() {
            Some(beside) if row.axis != Axis::Fault.as_str() => format!(" beside {beside}"),
            Some(fault) => format!(" of {fault}"),
            None => String::new(),
        };
        let found = read(row).filter(|_| run.plan.decides && row.level.is_some());
        let Some(([lo, hi], figure)) = found else {
            let by_profile = || format!("profile {} decides nothing", run.plan.profile);
            let reason = match &row.outcome.reason {
                _ if !run.plan.decides => by_profile(),
                Some(reason) => format!("{}{place}: {reason}", row.axis_path()),
                None => "the record has no such figure".to_owned(),
            };
            return Evidence { reason: Some(reason), ..none(&key, String::new()) };
        };
        let reason =
            row.outcome.reason.clone().or_else(|| Some("its interval straddles it".to_owned()));
        let figure = Some(format!("{} {figure}{place}", row.axis_path()));
        let shown = recorded(row).filter(|_| is_level).unwrap_or(lo);
        let tenants = run.plan.tenants;
        Evidence { key, lo, hi, shown, figure, reason, tenants, instead: None }
    })
    .collect()
}

/// The tails at the offered load, of the rows that have one: open loops run beside few aggressors.
/// They are figures of their own, also where the row has no level.
fn tails(run: &RunRecord, variant: &str, rows: &Rows) -> Vec<Evidence> {
    let own = run.matrix.iter().filter(|row| row.variant == variant && rows.has(row));
    let found = own.filter_map(|row| {
        let ([lo, hi], figure) = of_figure(row, Figure::Tail)?;
        let beside = row.aggressor.as_deref().unwrap_or_default();
        if !run.plan.decides {
            let reason = format!("profile {} decides nothing", run.plan.profile);
            return Some(none(&format!("tail {beside}"), reason));
        }
        let reason = Some("its interval straddles it".to_owned());
        let figure = Some(format!("{figure} beside {beside}"));
        let (key, tenants) = (format!("tail {beside}"), run.plan.tenants);
        Some(Evidence { key, lo, hi, shown: lo, figure, reason, tenants, instead: None })
    });
    found.collect()
}

/// The worst level that a row leaves open.
fn recorded(row: &MatrixRow) -> Option<f64> {
    row.level.as_deref()?.chars().find_map(|c| c.to_digit(10)).map(f64::from)
}

/// The levels that a row leaves open. One that comes from trials is shown from L2 on: a single
/// success keeps L0 out, and proves nothing else.
fn level(row: &MatrixRow) -> Option<([f64; 2], String)> {
    let text = row.level.as_deref()?;
    let mut digits = text.chars().filter_map(|c| c.to_digit(10)).map(f64::from);
    let worst = digits.next()?;
    let best = digits.next().unwrap_or(worst);
    let is_shown = row.outcome.is_measured() || row.survival.is_none() || worst >= 2.0;
    let figures = [
        ("retention", &row.retention),
        ("survival", &row.survival),
        ("jitter", &row.jitter),
        ("overshoot", &row.overshoot),
    ];
    let figure = figures.into_iter().find_map(|(name, figure)| Some((name, figure.as_ref()?)));
    let figure = figure.map_or_else(String::new, |(name, of)| format!(", {name} {}", shown(of)));
    Some(([if is_shown { worst } else { 0.0 }, best], format!("{text}{figure}")))
}

fn of_figure(row: &MatrixRow, figure: Figure) -> Option<([f64; 2], String)> {
    let (name, found) = match figure {
        Figure::Kept if row.retention.is_some() => ("retention", &row.retention),
        Figure::Kept => ("survival", &row.survival),
        Figure::Jitter => ("jitter", &row.jitter),
        Figure::Guarantee => ("guarantee", &row.guarantee),
        Figure::Efficiency => ("efficiency", &row.efficiency),
        Figure::Tail => ("tail at the offered load", &row.tail_at_load),
        Figure::Throughput => return None,
    };
    let found = found.as_ref()?;
    Some((ends(found), format!("{name} {}", shown(found))))
}

/// The bounds of a figure. A range of values bounds no further one.
fn ends(of: &Estimate) -> [f64; 2] {
    match of.ends {
        Ends::Interval => [of.lo, of.hi],
        Ends::Range => [f64::NEG_INFINITY, f64::INFINITY],
        Ends::AtLeast => [of.lo, f64::INFINITY],
        Ends::AtMost => [f64::NEG_INFINITY, of.hi],
    }
}

/// A figure with its interval.
pub fn shown(of: &Estimate) -> String {
    let Estimate { value, n, .. } = of;
    // Outwards, as reports round: the printed interval contains the computed one.
    let (lo, hi) = (outwards(of.lo, -1.0, 3), outwards(of.hi, 1.0, 3));
    match of.ends {
        Ends::AtMost => format!("below {hi}, n={n}"),
        Ends::AtLeast => format!("{value:.3}, at least {lo}, n={n}"),
        Ends::Interval | Ends::Range => format!("{value:.3} [{lo}, {hi}], n={n}"),
    }
}

fn throughput(run: &RunRecord, variant: &str, rows: &Rows) -> Vec<Evidence> {
    let own = run.operator.iter().filter(|row| row.variant == variant && run.plan.decides);
    let own = own.filter(|row| {
        row.tenants == run.plan.tenants && rows.axis.is_none_or(|axis| axis == row.sub_axis.axis())
    });
    own.map(|row| {
        let key = format!("{} {}", row.sub_axis.as_str(), row.aggressor);
        let figure = format!("throughput in devices {} beside {}", shown(&row.stp), row.aggressor);
        let ([lo, hi], tenants) = (ends(&row.stp), row.tenants);
        let reason = Some("its interval straddles it".to_owned());
        Evidence { key, lo, hi, shown: lo, figure: Some(figure), reason, tenants, instead: None }
    })
    .collect()
}
