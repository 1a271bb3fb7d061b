//! The figures of a record that a claim is about.

use gpubench_record::claim::{Need, Selection, VictimKind};
use gpubench_record::{
    Cell, Claim, Condition, Dose, Ends, Estimate, MechanismRow, OutcomeKind, Plan, Quantity, Role,
    RunRecord,
};
use gpubench_stats::proportion::clopper_pearson;
use gpubench_stats::{Confidence, ratio};

use super::rows;
use crate::figures::latency::{Latency, Quantile, estimate};
use crate::figures::{Cells, Key, Reading, printed};

/// Begins the evidence of a claim that has no quantity.
pub(super) const NO_RECORD: &str = "no record decides it";

/// The figures; an error says why the record has none.
pub(super) fn of(claim: &Claim, run: &RunRecord) -> Result<Vec<Found>, String> {
    let Some(quantity) = claim.quantity else {
        return Err(no_record(claim));
    };
    circumstances(&claim.select, run)?;
    let mut own = variants(&claim.mechanisms, claim.select.variant.as_deref(), run)?;
    for need in claim.needs() {
        own.retain(|variant| is_met(need, &variant.variant, &run.plan));
        if own.is_empty() {
            let [what, by] = need.in_words();
            return Err(format!("needs {what}: {by}"));
        }
    }
    let mut found = collect(claim, quantity, &own, run);
    if let Some(against) = &claim.select.against {
        let others = variants(std::slice::from_ref(against), None, run)?;
        let others = collect(claim, quantity, &others, run);
        let partner = |one: Found| {
            let other = others.iter().find(|other| other.key == one.key)?;
            Some(one.over(other))
        };
        found = found.into_iter().filter_map(partner).collect();
    }
    if found.is_empty() {
        let names: Vec<&str> = own.iter().map(|one| one.variant.as_str()).collect();
        return Err(format!(
            "no {} of {} in the record; needs {}",
            quantity.as_str(),
            names.join(", "),
            quantity.needs()
        ));
    }
    Ok(found)
}

/// What it takes to decide a claim without a quantity.
pub(super) fn no_record(claim: &Claim) -> String {
    format!("{NO_RECORD}: needs {}", claim.lacks.as_deref().unwrap_or("a quantity"))
}

fn is_met(need: Need, variant: &str, plan: &Plan) -> bool {
    match need {
        Need::AbidingVictim => victim_of(plan) == Some(VictimKind::Abiding),
        Need::SaturatingVictim => victim_of(plan) == Some(VictimKind::Saturating),
        Need::EqualTenants => victim_of(plan) == Some(VictimKind::Equal),
        Need::OversubscribedQuotas => {
            quotas(variant).is_some_and(|[own, each]| own + each * (plan.tenants - 1) > 100)
        }
        Need::UnequalQuotas => quotas(variant).is_some_and(|[own, each]| own != each),
        Need::Depth => plan.cells.iter().any(|cell| cell.shape.depth.is_some()),
        // No record of this version has any of these.
        Need::SliceLengths
        | Need::PausingNeighbours
        | Need::CacheAfterSwitch
        | Need::Root
        | Need::DeviceReset
        | Need::Topology
        | Need::Energy
        | Need::LanguageModel => false,
    }
}

/// The limits of the victim and of each neighbour in a variant, `pct=50` or `sm=10/90`.
fn quotas(variant: &str) -> Option<[u32; 2]> {
    let (_, rest) = variant.split_once("pct=").or_else(|| variant.split_once("sm="))?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '/').unwrap_or(rest.len());
    let (own, each) = rest[..end].split_once('/').unwrap_or((&rest[..end], &rest[..end]));
    Some([own.parse().ok()?, each.parse().ok()?])
}

/// How much the victims of a plan demand; unknown of a user's program, and of a share between an
/// even one and the whole device.
fn victim_of(plan: &Plan) -> Option<VictimKind> {
    let contended = plan.cells.iter().filter(|cell| cell.condition == Condition::C);
    let does_the_same = |cell: &Cell| {
        let mut others = cell.tenants.iter().skip(1);
        cell.is_of_equals() || others.all(|one| one.role == Role::Peer)
    };
    let mut contended = contended.peekable();
    if plan.user_victim.is_some() {
        None
    } else if contended.peek().is_some() && contended.all(does_the_same) {
        Some(VictimKind::Equal)
    } else if plan.share * f64::from(plan.tenants) <= 1.0 {
        Some(VictimKind::Abiding)
    } else {
        (plan.share >= 1.0).then_some(VictimKind::Saturating)
    }
}

/// Whether the claim is about records such as this one.
fn circumstances(select: &Selection, run: &RunRecord) -> Result<(), String> {
    let plan = &run.plan;
    if let Some(profile) = select.profile.as_ref().filter(|one| **one != plan.profile) {
        return Err(format!("needs the profile {profile}, not {}", plan.profile));
    }
    let capability = &run.device.compute_capability;
    let major = capability.split('.').next().and_then(|text| text.parse().ok());
    let wanted = &select.compute_capability;
    if wanted.is_empty() || major.is_some_and(|major: u32| wanted.contains(&major)) {
        return Ok(());
    }
    Err(format!("needs a device of another generation, not {capability}"))
}

/// The variants of these mechanisms that ran.
fn variants<'a>(
    names: &[String],
    prefix: Option<&str>,
    run: &'a RunRecord,
) -> Result<Vec<&'a MechanismRow>, String> {
    let of_names = |row: &&MechanismRow| names.contains(&row.name);
    let of_prefix = |row: &&MechanismRow| prefix.is_none_or(|one| row.variant.starts_with(one));
    let rows = run.mechanisms.iter().filter(of_names).filter(of_prefix);
    let all: Vec<&MechanismRow> = rows.collect();
    let ran = |row: &&MechanismRow| {
        !matches!(row.outcome.outcome, OutcomeKind::Waived | OutcomeKind::Failed)
    };
    let ran: Vec<&MechanismRow> = all.iter().copied().filter(ran).collect();
    match (all.first(), ran.is_empty()) {
        (_, false) => Ok(ran),
        (Some(row), true) => {
            let outcome = row.outcome.outcome.as_str();
            let reason = row.outcome.reason.as_deref().unwrap_or("no reason given");
            Err(format!("{} {outcome}: {reason}", row.variant))
        }
        (None, _) => Err(match prefix {
            Some(prefix) => format!("no {prefix}... in the record"),
            None => format!("no {} in the record", names.join(", ")),
        }),
    }
}

fn collect(
    claim: &Claim,
    quantity: Quantity,
    variants: &[&MechanismRow],
    run: &RunRecord,
) -> Vec<Found> {
    let each = variants.iter();
    each.flat_map(|variant| of_variant(claim, quantity, variant, run)).collect()
}

fn of_variant(
    claim: &Claim,
    quantity: Quantity,
    mechanism: &MechanismRow,
    run: &RunRecord,
) -> Vec<Found> {
    let variant = mechanism.variant.as_str();
    let bad = |sub_axis: &str, unit: &str| {
        let found = rows::of_sub_axis(run, variant, sub_axis, |row| &row.survival).into_iter();
        found.map(|one| one.map(|good| failures(&good, unit))).collect()
    };
    match quantity {
        Quantity::Retention => rows::matrix(claim, run, variant, |row| &row.retention),
        Quantity::Efficiency => rows::matrix(claim, run, variant, |row| &row.efficiency),
        Quantity::IsolationIndex => rows::matrix(claim, run, variant, |row| &row.isolation_index),
        Quantity::Jitter => rows::matrix(claim, run, variant, |row| &row.jitter),
        Quantity::Overshoot => rows::of_sub_axis(run, variant, "cap", |row| &row.overshoot),
        Quantity::BrokenReservations => bad("capacity", "reservations broken"),
        Quantity::StalePages => bad("residue", "pages found"),
        Quantity::ForeignReads => bad("visibility", "reads not kept out"),
        Quantity::TimeSlice => rows::probe(run, variant, |name| name == "time slice"),
        Quantity::Overlap => rows::probe(run, variant, |name| name == "overlap"),
        Quantity::TimeToEnforce => {
            rows::probe(run, variant, |name| name.contains(": time to enforce"))
        }
        Quantity::SlicesPerKernel => rows::slices_per_kernel(run, variant),
        Quantity::MemoryEscapes => rows::escapes(run, variant, "memory"),
        Quantity::ComputeEscapes => rows::escapes(run, variant, "compute"),
        Quantity::DeadVictims | Quantity::HarmedVictims | Quantity::DelayedVictims => {
            rows::faults(claim, quantity, run, variant)
        }
        Quantity::Recovery => rows::recovery(run, variant),
        Quantity::Slowdown => rows::slowdown(claim, run, variant),
        Quantity::EarlyTail => early_tail(claim, run, variant),
        Quantity::MedianLatency | Quantity::TailLatency | Quantity::P99 => {
            latency(claim, quantity, run, variant)
        }
        Quantity::TenantLimit => rows::tenant_limit(claim, run, variant),
        Quantity::Stp => rows::operator(claim, run, variant, |row| &row.stp),
        Quantity::Utilisation => rows::operator(claim, run, variant, |row| &row.utilisation),
        Quantity::Ran => ran(mechanism, "it ran"),
        Quantity::UnequalInstances if has_unequal_instances(variant) => {
            ran(mechanism, "it ran with instances of different sizes")
        }
        Quantity::UnequalInstances => Vec::new(),
    }
}

/// One trial, in which the mechanism ran.
fn ran(mechanism: &MechanismRow, key: &str) -> Vec<Found> {
    let once = share(1, 1, "of the attempts");
    let found = once.map(|once| Found::new(&mechanism.variant, key, once));
    found.into_iter().collect()
}

/// Whether the layout of a variant, `mig[3g+4g]`, has instances of several sizes.
fn has_unequal_instances(variant: &str) -> bool {
    let layout = variant.split(['[', ']']).nth(1).unwrap_or_default();
    let mut sizes = layout.split('+').map(|one| one.split('.').next());
    let first = sizes.next();
    sizes.any(|size| Some(size) != first)
}

// A figure of a record that a claim is compared with, and the arithmetic of such figures.

/// A figure, or why it cannot be trusted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub variant: String,
    /// The row, probe or fault; equal for two variants where their figures compare.
    pub key: String,
    pub estimate: Result<Estimate, String>,
}

impl Found {
    pub(super) fn new(variant: &str, key: impl Into<String>, estimate: Estimate) -> Self {
        Self { variant: variant.to_owned(), key: key.into(), estimate: Ok(estimate) }
    }

    /// The same with another figure.
    pub(super) fn map(self, change: impl FnOnce(Estimate) -> Result<Estimate, String>) -> Self {
        Self { estimate: self.estimate.and_then(change), ..self }
    }

    /// The ratio of this figure and that of another mechanism, as independent ones.
    pub(super) fn over(self, other: &Self) -> Self {
        let key = format!("{}, over {}", self.key, other.variant);
        let found = self.map(|own| {
            let other = other.estimate.clone()?;
            if [own.ends, other.ends] != [Ends::Interval; 2] {
                return Err("a ratio needs two intervals".to_owned());
            }
            let [x, y] = [&own, &other].map(plain);
            let ratio = ratio::ratio(x, y).map_err(|error| error.to_string())?;
            Ok(printed(ratio, "ratio"))
        });
        Self { key, ..found }
    }
}

const fn plain(of: &Estimate) -> gpubench_stats::Estimate {
    let Estimate { value, lo, hi, n, .. } = *of;
    gpubench_stats::Estimate { value, lo, hi, n }
}

/// The share of an event in trials, with its two-sided interval, as in rows of faults.
pub(super) fn share(events: u64, trials: u64, unit: &str) -> Result<Estimate, String> {
    let count = |n: u64| u32::try_from(n).map_err(|_| format!("{n} trials are too many"));
    let (events, trials) = (count(events)?, count(trials)?);
    let found = clopper_pearson(events, trials, Confidence::P95);
    Ok(printed(found.map_err(|error| error.to_string())?, unit))
}

/// The share of failures in this unit, from the share of successes in a matrix row.
pub(super) fn failures(of: &Estimate, unit: &str) -> Result<Estimate, String> {
    let trials = u64::from(of.n);
    // The value of a row is a count over its trials.
    let good = (of.value * f64::from(of.n)).round() as u64;
    share(trials.saturating_sub(good), trials, unit)
}

/// One over a positive figure.
pub(super) fn inverse(of: Estimate) -> Result<Estimate, String> {
    if of.lo <= 0.0 || of.ends != Ends::Interval {
        return Err(format!("the rate may be zero: {:.3} to {:.3}", of.lo, of.hi));
    }
    Ok(Estimate { value: 1.0 / of.value, lo: 1.0 / of.hi, hi: 1.0 / of.lo, ..of })
}

// Latencies of the open loop: beside busy neighbours over solo, or on their own.

pub(super) fn latency(
    claim: &Claim,
    quantity: Quantity,
    run: &RunRecord,
    variant: &str,
) -> Vec<Found> {
    let tenants = claim.select.tenants.unwrap_or(run.plan.tenants);
    let wanted = |key: &Key| {
        let of = key.fewer.unwrap_or(run.plan.tenants);
        key.dose.is_none() && key.shape.is_usual() && of == tenants
    };
    let latency = match quantity {
        Quantity::P99 => Latency::Of(Quantile::P99),
        Quantity::MedianLatency => Latency::OverSolo(Quantile::Median),
        _ => Latency::OverSolo(Quantile::P99),
    };
    let name = |pair: &str, aggressor: &str| format!("{pair} beside {} {aggressor}", tenants - 1);
    found(claim, latency, run, variant, wanted, name)
}

/// The growth of the tail over the growth of the median at the smallest dose below 1, block by
/// block: above 1 where the tail moves first.
pub(super) fn early_tail(claim: &Claim, run: &RunRecord, variant: &str) -> Vec<Found> {
    let own = run.cells.iter().filter(|one| one.cell.variant == variant);
    let contended = own.filter(|one| one.cell.condition == Condition::C);
    let measured = contended.filter(|one| one.outcome.is_measured());
    let Some(smallest) = measured.filter_map(|one| Dose::below_1(one.cell.dose)).min() else {
        return Vec::new();
    };
    let wanted =
        |key: &Key| key.dose == Some(smallest) && key.fewer.is_none() && key.shape.is_usual();
    let name =
        |pair: &str, aggressor: &str| format!("{pair} beside {aggressor} at dose {}", smallest.0);
    found(claim, Latency::TailOverMedian, run, variant, wanted, name)
}

/// The figure of each contended pair of a variant that is wanted and has one.
fn found(
    claim: &Claim,
    latency: Latency,
    run: &RunRecord,
    variant: &str,
    wanted: impl Fn(&Key) -> bool,
    name: impl Fn(&str, &str) -> String,
) -> Vec<Found> {
    // A record whose results are not those of its plan has no figures.
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return Vec::new();
    };
    let keys = cells.of(Condition::C).filter(|key| key.variant == variant && wanted(key));
    // Jitter has no cells of its own, so a claim without sub-axes is about all.
    let select = &claim.select;
    let keys = keys
        .filter(|key| select.sub_axes.is_empty() || select.sub_axes.contains(&key.pair.sub_axis));
    let keys = keys.filter(|key| select.is_beside(key.pair.aggressor.as_deref()));
    let found = keys.filter_map(|key| {
        let aggressor = key.pair.aggressor.as_deref().unwrap_or_default();
        Some(Found {
            variant: variant.to_owned(),
            key: name(&key.pair.victim, aggressor),
            estimate: estimate(&cells, key, latency)?.map_err(|error| error.to_string()),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::has_unequal_instances;

    #[test]
    fn instances_differ_by_their_slices() {
        for (variant, unequal) in [
            ("mig[3g+4g]", true),
            ("mig[3g.40gb+4g.40gb]", true),
            ("mig[3g+3g]", false),
            ("mig[1g]", false),
            ("mig", false),
        ] {
            assert_eq!(has_unequal_instances(variant), unequal, "{variant}");
        }
    }
}
