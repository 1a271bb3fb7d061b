//! Which mechanisms meet what people need, by the figures of records: a pure function of both.
//!
//! Each need has two bounds under each mechanism, and its outcome follows from a comparison with
//! them: *meets* where the worse one is on the side that is needed, *fails* where the better one is
//! not, else *unknown*. A row without a trusted figure has no bounds, so what was not measured is
//! unknown under every need. Several rows count by their worst one.

pub mod cost;
mod evidence;
mod measure;
pub mod need;
pub mod page;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpubench_plan::{fault_part, is_part_of_rates};
use gpubench_record::{Axis, DeviceKind, MechanismProperties, MechanismRow, RunRecord};

pub use cost::{Cost, front};
pub use evidence::shown;
pub use measure::device_flag;
pub use need::{Need, NeedError};

use evidence::{Evidence, evidence};
use gpubench_show::Labels;
use measure::Command;
use need::{Bound, Rows, Step, What};

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
    /// What speaks against it although it is unknown: victims that faults harmed.
    pub against: Option<String>,
}

/// One mechanism with its findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub name: String,
    pub variant: String,
    /// Its label on a screen.
    pub label: String,
    pub verdict: Verdict,
    /// Why it cannot share a GPU.
    pub refusal: Option<&'static str>,
    pub findings: Vec<Finding>,
    /// The bounds of each column of [`page::columns`], which needs are compared with.
    pub isolation: Vec<[f64; 2]>,
    /// The levels of the same columns as the records have them.
    pub shown: Vec<Shown>,
    pub cost: Cost,
}

/// The levels of one column as the records have them.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub bounds: [f64; 2],
    /// The same in a table: of jitter beside a part of the aggressors with that part.
    pub text: String,
    /// Why they are open, or were not measured.
    pub why: Option<String>,
}

/// Whether its figures are predictions of a model.
pub fn is_of_model(records: &[&RunRecord]) -> bool {
    records.iter().any(|run| run.device.kind == DeviceKind::Virtual)
}

/// Tenants of one GPU, at least: what sharing means where no need has a number.
const SHARING: u32 = 2;

/// Why a mechanism is for nobody who shares a GPU.
const REFUSAL: &str = "it admits one process, and a second tenant is refused";

/// The tenants that are needed.
fn tenants_of(needs: &[Need]) -> u32 {
    let wanted = needs.iter().filter_map(|need| match need.what {
        What::Tenants(count) => Some(count),
        _ => None,
    });
    wanted.max().unwrap_or(SHARING)
}

/// Every mechanism of the records but the reference, in their order, with its findings.
pub fn candidates(records: &[&RunRecord], needs: &[Need]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let (labels, wanted) = (Labels::of_records(records), tenants_of(needs));
    for run in records {
        for row in run.mechanisms.iter().filter(|row| row.name != run.plan.reference) {
            let is_known = found.iter().any(|known| known.variant == row.variant);
            if is_known || run.plan.is_unprotected_form(&row.variant) {
                continue;
            }
            let findings = needs.iter().map(|need| finding(records, &row.variant, need, wanted));
            let findings: Vec<Finding> = findings.collect();
            let refuses = wanted >= SHARING && admits_one_tenant(run, &row.variant);
            let verdict = match findings.iter().map(|one| one.verdict).min() {
                Some(_) if refuses => Verdict::Fails,
                verdict => verdict.unwrap_or(Verdict::Unknown),
            };
            let columns = page::columns();
            let column = |(_, need): &(_, Need)| best_view(records, &row.variant, need, SHARING);
            let views: Vec<View> = columns.iter().map(column).collect();
            found.push(Candidate {
                name: row.name.clone(),
                variant: row.variant.clone(),
                label: labels.get(&row.variant),
                verdict,
                refusal: refuses.then_some(REFUSAL),
                findings,
                isolation: views.iter().map(|view| view.bounds).collect(),
                shown: views.into_iter().map(View::into_shown).collect(),
                cost: Cost::of(records, &row.variant, needs),
            });
        }
    }
    found
}

/// The mechanisms to use, best first: processes before threads, then the better isolated, the
/// weakest axis first, then the more work of all tenants together, then the least capacity that
/// none can use and the least to change. With `accept_unknown` those of which nothing fails follow.
pub fn ranked(candidates: &[Candidate], accept_unknown: bool) -> Vec<&Candidate> {
    let named = |one: &&Candidate| match one.verdict {
        Verdict::Meets => true,
        Verdict::Unknown => accept_unknown && one.cost.is_measured,
        Verdict::Fails => false,
    };
    let mut named: Vec<&Candidate> = candidates.iter().filter(named).collect();
    // As precise as they are printed.
    let percent = |share: f64| (100.0 * share).round() as u64;
    named.sort_by_cached_key(|one| {
        let mut levels: Vec<u8> =
            one.shown.iter().map(|one| one.bounds[0].max(0.0) as u8).collect();
        levels.sort_unstable();
        let work = one.cost.throughput.as_ref();
        let work = work.map(|ends| ends.each_ref().map(|end| percent(end.value)));
        let unusable = one.cost.unusable.as_ref().map_or(0, |unusable| percent(unusable.share));
        (
            (one.verdict != Verdict::Meets, one.cost.has_threads),
            (Reverse(levels), Reverse(work), unusable, one.cost.steps.clone()),
        )
    });
    named
}

/// The needs that name a part which neither the catalogue nor a row of the records has.
pub fn unknown_parts(records: &[&RunRecord], needs: &[Need]) -> Option<String> {
    needs.iter().find_map(|need| {
        let (What::Level(rows, _) | What::Figure(rows, ..)) = &need.what else { return None };
        let part = rows.part.as_ref()?;
        let is_known = match rows.axis {
            Some(Axis::Fault) => fault_part(part, None).is_some(),
            Some(Axis::Jitter) => is_part_of_rates(part),
            _ => true,
        };
        let every = || records.iter().flat_map(|run| &run.matrix);
        if is_known || every().any(|row| rows.has(row)) {
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

/// One need by some records.
struct View {
    verdict: Verdict,
    bounds: [f64; 2],
    /// The same as the records have them.
    shown: [f64; 2],
    /// The evidence that decides it.
    deciding: Option<Evidence>,
}

impl View {
    fn into_shown(self) -> Shown {
        let levels = page::levels(self.shown);
        let instead = self.deciding.as_ref().and_then(|one| one.instead.clone());
        let is_said = instead.is_some() || levels == page::OPEN;
        let why = self.deciding.and_then(|one| one.reason).filter(|_| is_said);
        Shown { bounds: self.shown, text: instead.unwrap_or(levels), why }
    }
}

fn finding(records: &[&RunRecord], variant: &str, need: &Need, wanted: u32) -> Finding {
    let View { verdict, bounds, deciding, .. } = best_view(records, variant, need, wanted);
    let unknown = verdict == Verdict::Unknown;
    let is_row = matches!(need.what, What::Level(..) | What::Figure(..));
    let straddles = |one: &Evidence| one.is_known() && one.tenants >= wanted;
    let undecided = is_row && deciding.as_ref().is_some_and(straddles);
    let measure = || Command { records, variant, need, wanted, undecided }.with_minutes();
    let against = unknown.then(|| evidence::harmed(records, variant, need)).flatten();
    let reason = deciding.as_ref().and_then(|one| one.reason.clone()).filter(|_| unknown);
    let reason = reason.map(|why| [Some(why), against.clone()].into_iter().flatten());
    Finding {
        need: need.text.clone(),
        verdict,
        bounds,
        measure: if unknown { measure() } else { None },
        reason: reason.map(|parts| parts.collect::<Vec<_>>().join("; ")),
        against,
        // A figure of fewer tenants is none of the need, unless it fails.
        figure: deciding.filter(|one| !unknown || one.tenants >= wanted).and_then(|one| one.figure),
    }
}

/// The view of the records that can show the need: those with the same number of tenants, each of
/// them alone, and all, which complete each other.
fn best_view(records: &[&RunRecord], variant: &str, need: &Need, wanted: u32) -> View {
    let counts = records.iter().filter(|run| is_measured(run, variant)).map(|run| run.plan.tenants);
    let enough = counts.filter(|&count| count >= wanted).min().unwrap_or(u32::MAX);
    let of = |runs: &[&RunRecord]| view(runs, variant, need, [wanted, enough]);
    let mut groups: BTreeMap<u32, Vec<&RunRecord>> = BTreeMap::new();
    for run in records {
        groups.entry(run.plan.tenants).or_default().push(*run);
    }
    let together = of(records);
    if records.len() < 2 {
        return together;
    }
    let best = |runs: &Vec<&RunRecord>| {
        let all = of(runs);
        let mut alone = runs.iter().map(|run| of(&[*run]));
        match all.verdict {
            Verdict::Unknown => alone.find(|one| one.verdict == Verdict::Meets).unwrap_or(all),
            _ => all,
        }
    };
    let mut views: Vec<View> = groups.values().map(best).collect();
    let at = |views: &[View], verdict| views.iter().position(|one| one.verdict == verdict);
    match (at(&views, Verdict::Meets), together.verdict, at(&views, Verdict::Fails)) {
        (Some(at), ..) | (None, Verdict::Unknown, Some(at)) => views.swap_remove(at),
        _ => together,
    }
}

/// Fewer tenants than are needed show what fails and not what holds, and more than enough show what
/// holds and not what fails.
fn view(records: &[&RunRecord], variant: &str, need: &Need, [wanted, enough]: [u32; 2]) -> View {
    let mut all = evidence(records, variant, &need.what);
    let rises = !matches!(need.what, What::Figure(_, _, Bound::AtMost(_)));
    for one in all.iter_mut().filter(|one| one.is_known()) {
        let is_few = one.tenants < wanted;
        if !is_few && !(enough.saturating_add(1)..u32::MAX).contains(&one.tenants) {
            continue;
        }
        if is_few == rises {
            one.lo = f64::NEG_INFINITY;
            one.shown = f64::NEG_INFINITY;
        } else {
            one.hi = f64::INFINITY;
        }
        one.reason = Some(format!("measured with {} tenants", one.tenants));
    }
    let [worse, better] = worst(&all, rises);
    let shown = all.iter().map(|one| one.shown).fold(f64::INFINITY, f64::min);
    let wanted = match need.what {
        What::Level(_, level) => f64::from(level),
        What::Figure(_, _, Bound::AtLeast(end) | Bound::AtMost(end)) => end,
        What::Tenants(count) => count.into(),
        What::Memory(bytes) => bytes as f64,
        What::Without(_) | What::Processes => 1.0,
    };
    let verdict = judged(worse, better, wanted, rises);
    let bound_of = |one: &Evidence| match (verdict, rises) {
        (Verdict::Fails, true) | (Verdict::Meets | Verdict::Unknown, false) => one.hi,
        (Verdict::Fails, false) | (_, true) => one.lo,
    };
    let at = if verdict == Verdict::Fails { better } else { worse };
    let mut deciding = all.into_iter().filter(|one| bound_of(one) == at);
    let deciding =
        if rises { deciding.min_by(|a, b| a.shown.total_cmp(&b.shown)) } else { deciding.next() };
    let shown = if rises { [shown, better] } else { [worse, better] };
    View { verdict, bounds: [worse, better], shown, deciding }
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
    best_view(records, variant, need, SHARING).bounds
}

/// Whether it is for one tenant, also where it did not run.
fn admits_one_tenant(run: &RunRecord, variant: &str) -> bool {
    let row = run.mechanisms.iter().find(|row| row.variant == variant);
    let by_name = row.map(|row| MechanismProperties::of_format_1_0(&row.name));
    properties(run, variant).or(by_name.as_ref()).is_some_and(|of| of.admits_one_tenant())
}

/// Whether the run measured the mechanism for itself. What others take as their reference is in no
/// plan, and its cells say nothing of it.
fn is_measured(run: &RunRecord, variant: &str) -> bool {
    let own = |row: &MechanismRow| row.variant == variant && row.outcome.is_measured();
    properties(run, variant).is_some() && run.mechanisms.iter().any(own)
}

/// The instances of a MIG layout: no tenant more has one.
fn instances(variant: &str) -> Option<Vec<f64>> {
    let layout = variant.strip_prefix("mig[")?.strip_suffix(']')?;
    let slices = |part: &str| part.split_once('g')?.0.parse().ok();
    let instances: Vec<f64> = layout.split('+').filter_map(slices).collect();
    (!instances.is_empty()).then_some(instances)
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
    // Clients find their daemon when they start, also one that limits memory alone.
    let has_daemon = properties.mps_daemon || of("an MPS daemon");
    if has_daemon || properties.accounting_library || properties.has_threads() {
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
