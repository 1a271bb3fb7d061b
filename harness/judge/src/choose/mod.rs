//! Which mechanisms meet what people need, by the figures of records: a pure function of both.
//!
//! Each need has two bounds under each mechanism, and its outcome follows from a comparison with
//! them: *meets* where the worse one is on the side that is needed, *fails* where the better one is
//! not, else *unknown*. A row without a trusted figure has no bounds, so what was not measured is
//! unknown under every need. Several rows count by their worst one.

pub mod cost;
mod measure;
pub mod need;
pub mod page;
#[cfg(test)]
mod tests;

use gpubench_record::{
    Axis, DeviceKind, Ends, Estimate, MatrixRow, MechanismProperties, RunRecord,
};

pub use cost::{Cost, front};
pub use need::{Need, NeedError};

use gpubench_show::Labels;
use measure::{measure, unmeasured};
use need::{Bound, Figure, Rows, Step, What};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Fails,
    Unknown,
    Meets,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Fails => "fails",
            Self::Unknown => "unknown",
        }
    }
}

/// What the records say of one need under one mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub need: String,
    pub verdict: Verdict,
    /// The worse and the better bound; infinite where there is none.
    pub bounds: [f64; 2],
    /// The figure that decides it, with its interval, and its row.
    pub figure: Option<String>,
    /// Why it is unknown.
    pub reason: Option<String>,
    /// The command that would measure it, and its minutes.
    pub measure: Option<(String, u64)>,
}

/// One mechanism with its findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub name: String,
    pub variant: String,
    /// Its label on a screen.
    pub label: String,
    pub verdict: Verdict,
    pub findings: Vec<Finding>,
    pub cost: Cost,
}

/// A figure of one row, as a need reads it.
#[derive(Debug, Clone)]
struct Evidence {
    /// What rows of several records have in common.
    key: String,
    lo: f64,
    hi: f64,
    figure: Option<String>,
    reason: Option<String>,
    tenants: u32,
}

impl Evidence {
    const fn is_known(&self) -> bool {
        self.lo.is_finite() || self.hi.is_finite()
    }
}

/// Whether its figures are predictions of a model.
pub fn is_of_model(records: &[&RunRecord]) -> bool {
    records.iter().any(|run| run.device.kind == DeviceKind::Virtual)
}

/// Every mechanism of the records but the reference, in their order, with its findings.
pub fn candidates(records: &[&RunRecord], needs: &[Need]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let labels = Labels::of_records(records);
    for run in records {
        for row in run.mechanisms.iter().filter(|row| row.name != run.plan.reference) {
            if found.iter().any(|known| known.variant == row.variant) {
                continue;
            }
            let findings = |need| finding(records, &row.variant, need, needs);
            let findings: Vec<Finding> = needs.iter().map(findings).collect();
            let verdict = findings.iter().map(|one| one.verdict).min();
            found.push(Candidate {
                name: row.name.clone(),
                variant: row.variant.clone(),
                label: labels.get(&row.variant),
                verdict: verdict.unwrap_or(Verdict::Unknown),
                findings,
                cost: Cost::of(records, &row.variant, needs),
            });
        }
    }
    found
}

/// The mechanisms to use, best first: processes before threads, then the least capacity that none
/// can use, then the least to change. With `accept_unknown` those of which nothing fails follow.
pub fn ranked(candidates: &[Candidate], accept_unknown: bool) -> Vec<&Candidate> {
    let named = |one: &&Candidate| match one.verdict {
        Verdict::Meets => true,
        Verdict::Unknown => accept_unknown && one.cost.is_measured,
        Verdict::Fails => false,
    };
    let mut named: Vec<&Candidate> = candidates.iter().filter(named).collect();
    named.sort_by_key(|one| {
        let unusable = one.cost.unusable.as_ref().map_or(0.0, |unusable| unusable.share);
        let percent = (100.0 * unusable).round() as u64;
        (one.verdict != Verdict::Meets, one.cost.has_threads, percent, one.cost.steps.clone())
    });
    named
}

/// The needs that name a part which no row of the records has.
pub fn unknown_parts(records: &[&RunRecord], needs: &[Need]) -> Option<String> {
    needs.iter().find_map(|need| {
        let (What::Level(rows, _) | What::Figure(rows, ..)) = &need.what else { return None };
        rows.part.as_ref().filter(|_| matches!(rows.axis, Some(Axis::Fault | Axis::Jitter)))?;
        let every = || records.iter().flat_map(|run| &run.matrix);
        if every().any(|row| rows.has(row)) {
            return None;
        }
        let axis = Rows { part: None, ..rows.clone() };
        let mut parts: Vec<&str> = every()
            .filter(|row| axis.has(row))
            .flat_map(|row| [row.sub_axis.as_deref(), row.aggressor.as_deref()])
            .flatten()
            .collect();
        parts.sort_unstable();
        parts.dedup();
        let known = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
        Some(format!(
            "need \"{}\": no row of the records has this part (they have: {known})",
            need.text
        ))
    })
}

fn finding(records: &[&RunRecord], variant: &str, need: &Need, needs: &[Need]) -> Finding {
    let mut all = evidence(records, variant, &need.what);
    let wanted = needs.iter().filter_map(|need| match need.what {
        What::Tenants(count) => Some(count),
        _ => None,
    });
    let wanted = wanted.max().unwrap_or(0);
    let rises = !matches!(need.what, What::Figure(_, _, Bound::AtMost(_)));
    // Fewer tenants than are needed show what fails and not what holds.
    for one in all.iter_mut().filter(|one| one.tenants < wanted && one.is_known()) {
        *if rises { &mut one.lo } else { &mut one.hi } =
            if rises { f64::NEG_INFINITY } else { f64::INFINITY };
        one.reason = Some(format!("measured with {} tenants", one.tenants));
    }
    let [worse, better] = worst(&all, rises);
    let (verdict, at) = match need.what {
        What::Level(_, level) => (judged(worse, better, f64::from(level), rises), worse),
        What::Figure(_, _, Bound::AtLeast(least)) => (judged(worse, better, least, rises), worse),
        What::Figure(_, _, Bound::AtMost(most)) => (judged(worse, better, most, rises), worse),
        What::Tenants(count) => (judged(worse, better, count.into(), rises), worse),
        What::Memory(bytes) => (judged(worse, better, bytes as f64, rises), worse),
        What::Without(_) | What::Processes => (judged(worse, better, 1.0, rises), worse),
    };
    let bound_of = |one: &Evidence| match (verdict, rises) {
        (Verdict::Fails, true) => one.hi,
        (Verdict::Fails, false) => one.lo,
        (_, true) => one.lo,
        (_, false) => one.hi,
    };
    let at = if verdict == Verdict::Fails { better } else { at };
    let deciding = all.iter().find(|one| bound_of(one) == at);
    let unknown = verdict == Verdict::Unknown;
    let is_row = matches!(need.what, What::Level(..) | What::Figure(..));
    let measure =
        || measure(records, variant, need, is_row && deciding.is_some_and(Evidence::is_known));
    Finding {
        need: need.text.clone(),
        verdict,
        bounds: [worse, better],
        figure: deciding.and_then(|one| one.figure.clone()),
        reason: deciding.and_then(|one| one.reason.clone()).filter(|_| unknown),
        measure: if unknown { measure() } else { None },
    }
}

fn judged(worse: f64, better: f64, wanted: f64, rises: bool) -> Verdict {
    let reaches = |end: f64| if rises { end >= wanted } else { end <= wanted };
    match (reaches(worse), reaches(better)) {
        (true, _) => Verdict::Meets,
        (_, false) => Verdict::Fails,
        _ => Verdict::Unknown,
    }
}

/// The worse and the better bound of all rows: those of the worst row.
fn worst(all: &[Evidence], rises: bool) -> [f64; 2] {
    let of = |end: fn(&Evidence) -> f64| {
        let ends = all.iter().map(end);
        if rises {
            ends.fold(f64::INFINITY, f64::min)
        } else {
            ends.fold(f64::NEG_INFINITY, f64::max)
        }
    };
    let (lo, hi) = (of(|one| one.lo), of(|one| one.hi));
    if rises { [lo, hi] } else { [hi, lo] }
}

/// The worse and the better bound of a need under a mechanism, for a page that only compares.
pub fn bounds(records: &[&RunRecord], variant: &str, need: &Need) -> [f64; 2] {
    finding(records, variant, need, &[]).bounds
}

fn evidence(records: &[&RunRecord], variant: &str, what: &What) -> Vec<Evidence> {
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
        let missing: Vec<Evidence> =
            missing.map(|sub| none(sub, unmeasured(records, variant))).collect();
        all.extend(missing);
    }
    if all.is_empty() {
        all.push(none("", unmeasured(records, variant)));
    }
    all
}

fn none(key: &str, reason: String) -> Evidence {
    let (lo, hi) = (f64::NEG_INFINITY, f64::INFINITY);
    Evidence { key: key.to_owned(), lo, hi, figure: None, reason: Some(reason), tenants: u32::MAX }
}

fn of_record(run: &RunRecord, variant: &str, what: &What) -> Vec<Evidence> {
    let exact = |value: bool, text: String| Evidence {
        lo: f64::from(value),
        hi: f64::from(value),
        figure: Some(text),
        ..none("", String::new())
    };
    match what {
        What::Level(rows, _) => rows_of(run, variant, rows, level),
        What::Figure(rows, figure, _) if *figure == Figure::Throughput => {
            throughput(run, variant, rows)
        }
        What::Figure(rows, figure, _) => rows_of(run, variant, rows, |row| of_figure(row, *figure)),
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
    let properties = properties(run, variant)?;
    let is_measured =
        run.mechanisms.iter().any(|row| row.variant == variant && row.outcome.is_measured());
    if properties.admits_one_tenant() {
        let figure = Some("a second tenant is refused".to_owned());
        return Some(Evidence { lo: 1.0, hi: 1.0, figure, ..none("", String::new()) });
    }
    let count = run.plan.tenants;
    is_measured.then(|| Evidence {
        lo: count.into(),
        figure: Some(format!("measured with {count} tenants")),
        ..none("", "no record has more".to_owned())
    })
}

fn rows_of(
    run: &RunRecord,
    variant: &str,
    rows: &Rows,
    read: impl Fn(&MatrixRow) -> Option<([f64; 2], String)>,
) -> Vec<Evidence> {
    let own = run.matrix.iter().filter(|row| row.variant == variant && rows.has(row));
    own.map(|row| {
        let beside = row.aggressor.as_deref().unwrap_or_default();
        let key = format!("{} {beside}", row.axis_path());
        let found = read(row).filter(|_| run.plan.decides && row.level.is_some());
        let Some(([lo, hi], figure)) = found else {
            let by_profile = || format!("profile {} decides nothing", run.plan.profile);
            let reason = match &row.outcome.reason {
                _ if !run.plan.decides => by_profile(),
                Some(reason) => reason.clone(),
                None => "the record has no such figure".to_owned(),
            };
            return Evidence { reason: Some(reason), ..none(&key, String::new()) };
        };
        let place = match row.aggressor.as_deref() {
            Some(beside) if row.axis != Axis::Fault.as_str() => format!(" beside {beside}"),
            Some(fault) => format!(" of {fault}"),
            None => String::new(),
        };
        let reason =
            row.outcome.reason.clone().or_else(|| Some("its interval straddles it".to_owned()));
        let figure = Some(format!("{} {figure}{place}", row.axis_path()));
        Evidence { key, lo, hi, figure, reason, tenants: run.plan.tenants }
    })
    .collect()
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
    let Estimate { value, lo, hi, n, .. } = of;
    match of.ends {
        Ends::AtMost => format!("below {hi:.3}, n={n}"),
        Ends::AtLeast => format!("{value:.3}, at least {lo:.3}, n={n}"),
        Ends::Interval | Ends::Range => format!("{value:.3} [{lo:.3}, {hi:.3}], n={n}"),
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
        Evidence { key, lo, hi, figure: Some(figure), reason, tenants }
    })
    .collect()
}

fn properties<'a>(run: &'a RunRecord, variant: &str) -> Option<&'a MechanismProperties> {
    let planned = run.plan.mechanisms.iter().find(|one| one.variant == variant)?;
    Some(&planned.properties)
}

/// What setting a planned mechanism up takes, by the changes that the plan names.
fn steps(run: &RunRecord, variant: &str) -> Option<Vec<Step>> {
    let planned = run.plan.mechanisms.iter().find(|one| one.variant == variant)?;
    let of = |text: &str| planned.host_changes.iter().any(|change| change.starts_with(text));
    let properties = &planned.properties;
    let mut steps = Vec::new();
    if properties.mps_daemon || properties.accounting_library || properties.has_threads() {
        steps.push(Step::Restart);
    }
    let is_partitioned = of("MIG ");
    if is_partitioned || of("compute mode") || of("time slice") || of("a control group") {
        steps.push(Step::Root);
    }
    if is_partitioned {
        steps.extend([Step::Restart, Step::Drain]);
    }
    // MIG mode takes a reset on Ampere and none since (MIG User Guide, "Enable MIG Mode").
    if of("MIG mode") && run.device.compute_capability.starts_with("8.") {
        steps.push(Step::Reset);
    }
    steps.sort_unstable();
    steps.dedup();
    Some(steps)
}
