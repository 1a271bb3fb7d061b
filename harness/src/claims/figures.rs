//! The figures of a record that a claim is about.

use gpubench_record::claim::Selection;
use gpubench_record::{Claim, MechanismRow, OutcomeKind, Quantity, RunRecord};

use super::cells;
use super::found::{Found, failures, share};
use super::rows;

/// Begins the evidence of a claim that has no quantity.
pub(super) const NO_RECORD: &str = "no record decides it";

/// The figures; an error says why the record has none.
pub(super) fn of(claim: &Claim, run: &RunRecord) -> Result<Vec<Found>, String> {
    let Some(quantity) = claim.quantity else {
        let needs = claim.needs.as_deref().unwrap_or("a quantity");
        return Err(format!("{NO_RECORD}: needs {needs}"));
    };
    circumstances(&claim.select, run)?;
    let own = variants(&claim.mechanisms, claim.select.variant.as_deref(), run)?;
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
        Quantity::Slowdown => rows::slowdown(claim, run, variant),
        Quantity::EarlyTail => cells::early_tail(claim, run, variant),
        Quantity::MedianLatency | Quantity::TailLatency | Quantity::P99 => {
            cells::latency(claim, quantity, run, variant)
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
