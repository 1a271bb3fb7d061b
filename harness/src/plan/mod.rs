//! From a profile and the capabilities of the host to every cell that will run, with its seed, its
//! position in the order, and the reason for each skip.
//!
//! Pure: no device, no clock, no files. Equal inputs give equal plans.

mod block;
mod budget;
pub mod capability;
mod claimed;
pub mod device_check;
mod error;
mod facts;
mod faults;
mod notes;
mod seed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{Axis, Cell, Plan, RequiredProof, Skip};

use crate::axis::{self, AxisEntry, JITTER_SUB_AXIS, Pair, Selection};
use crate::catalogue::REFERENCE;
use crate::profile::{Profile, Wanted, profile_hash};
use block::{Group, Layout, in_order};
use budget::{Fit, PerBlock};
pub use capability::{Availability, Capabilities, Capability, VariantRef};
pub use error::PlanError;
pub use faults::{FaultWish, NOTHING_TO_BREAK, add_faults, has_needs, no_victim};
pub use notes::notes;

/// Plans a run. `ptx_hash` identifies the kernels in the hash of the profile.
///
/// # Errors
/// When no mechanism can run, or `blocks.min` blocks exceed the profile's `device_time`.
pub fn plan(
    profile: &Profile,
    capabilities: &Capabilities,
    ptx_hash: &str,
) -> Result<Plan, PlanError> {
    let requested = requested(profile, capabilities);
    let skips = skips(profile, &requested);
    let runnable: Vec<&Capability> = requested
        .iter()
        .copied()
        .filter(|capability| capability.availability == Availability::Available)
        .collect();
    let pairs = pairs(profile);
    if pairs.is_empty() {
        return Err(PlanError::NoPair {
            axes: requested_axes(profile),
        });
    }
    let groups = Group::sort(&runnable);
    let layout = Layout {
        seed: profile.seed,
        blocks: 0,
        tenants: profile.tenants,
        neighbours: &profile.neighbours,
        reference: REFERENCE,
        sweep: &profile.sweep,
        pairs: &pairs,
        doses: &profile.doses,
        open_everywhere: true,
    };
    let drafts = groups.iter().flat_map(|group| group.cells(&layout));
    let per_block = PerBlock::of(drafts, requests_jitter(profile));
    if per_block.cells == 0 {
        return Err(nothing_to_run(&skips));
    }
    let Fit {
        blocks,
        durations,
        open_everywhere,
    } = budget::fit(profile, per_block)?;
    let layout = Layout {
        blocks,
        open_everywhere,
        ..layout
    };
    let cells = in_order(&groups, &layout);
    Ok(Plan {
        profile: profile.name.clone(),
        profile_hash: profile_hash(profile, ptx_hash),
        decides: profile.decides,
        seed: profile.seed,
        tenants: profile.tenants,
        share: profile.share.value(),
        load: profile.load_of_one(),
        bursts: profile.bursts.shape(),
        slo_ns: Some(profile.slo.ns).filter(|&slo_ns| slo_ns > 0),
        slo_share: profile.slo_share,
        neighbours: profile.neighbours.clone(),
        sweep: profile.sweep.clone(),
        service_ns: profile.service.ns,
        telemetry_period_ns: profile.telemetry_period.ns,
        axes: requested_axes(profile),
        blocks,
        durations,
        thresholds: profile.thresholds.clone(),
        mechanisms: runnable.into_iter().map(planned).collect(),
        user_victim: profile.user_victim.victim(),
        required_proofs: Some(required_proofs(capabilities, &cells)),
        cells,
        fault_trials: Vec::new(),
        workloads: facts::of_workloads(layout.pairs, layout.neighbours),
        pairs: facts::of_pairs(layout.pairs),
        jitter_from: JITTER_SUB_AXIS,
        reference: REFERENCE.to_owned(),
        claimed: claimed::claimed(&names(&requested, &skips))?,
        skips,
    })
}

/// The proofs that the cells need, by variant.
fn required_proofs(
    capabilities: &Capabilities,
    cells: &[Cell],
) -> BTreeMap<String, Vec<RequiredProof>> {
    let mut required = capabilities.required_proofs.clone();
    required.retain(|variant, _| cells.iter().any(|cell| cell.variant == *variant));
    required
}

fn nothing_to_run(skips: &[Skip]) -> PlanError {
    let reasons = skips
        .iter()
        .map(|skip| format!("{}: {}", skip.variant, skip.reason));
    PlanError::NothingToRun {
        reasons: reasons.collect(),
    }
}

/// The capabilities of the mechanisms that the profile requests.
fn requested<'a>(profile: &Profile, capabilities: &'a Capabilities) -> Vec<&'a Capability> {
    let wanted = |capability: &&Capability| match &profile.mechanisms {
        Wanted::All => true,
        Wanted::Names(names) => names.contains(&capability.variant.mechanism),
    };
    capabilities.mechanisms.iter().filter(wanted).collect()
}

/// Every mechanism that has a row in the record.
fn names<'a>(requested: &[&'a Capability], skips: &'a [Skip]) -> Vec<&'a str> {
    let requested = requested.iter().map(|one| one.variant.mechanism.as_str());
    requested
        .chain(skips.iter().map(|skip| skip.name.as_str()))
        .collect()
}

/// Whether the profile requests the jitter axis.
fn requests_jitter(profile: &Profile) -> bool {
    match &profile.axes {
        Wanted::All => true,
        Wanted::Names(names) => names.iter().any(|name| name == Axis::Jitter.as_str()),
    }
}

fn requested_axes(profile: &Profile) -> Vec<String> {
    match &profile.axes {
        Wanted::All => vec!["all".to_owned()],
        Wanted::Names(names) => names.clone(),
    }
}

/// The pairs that the profile's axes need, in report order: those with a victim and an aggressor
/// that the profile selects. A sub-axis that the profile names itself has at least its first pair.
fn pairs(profile: &Profile) -> Vec<&'static Pair> {
    let user_victim = profile.user_victim.victim().is_some();
    let of_entry = |entry: &&'static AxisEntry| {
        let all: Vec<&'static Pair> = if user_victim {
            entry.user_victim_pairs().collect()
        } else {
            entry.pairs().collect()
        };
        let wanted: Vec<&Pair> = all
            .iter()
            .copied()
            .filter(|pair| user_victim || wants(&profile.victims, pair.victim))
            .filter(|pair| wants(&profile.aggressors, pair.aggressor))
            .collect();
        if wanted.is_empty() && is_named(profile, entry) {
            return all.into_iter().take(1).collect();
        }
        wanted
    };
    let needed = |entry: &&AxisEntry| match &profile.axes {
        Wanted::All => true,
        Wanted::Names(names) => names
            .iter()
            .filter_map(|name| Selection::find(name))
            .any(|selection| selection.needs(entry.sub_axis)),
    };
    let entries = axis::CATALOGUE.iter().filter(needed);
    entries.flat_map(|entry| of_entry(&entry)).collect()
}

fn wants(wanted: &Wanted, name: &str) -> bool {
    match wanted {
        Wanted::All => true,
        Wanted::Names(names) => names.iter().any(|one| one == name),
    }
}

/// Whether the profile names this sub-axis itself.
fn is_named(profile: &Profile, entry: &AxisEntry) -> bool {
    matches!(&profile.axes, Wanted::Names(names) if names.iter().any(|name| name == entry.name))
}

fn planned(capability: &Capability) -> PlannedMechanism {
    PlannedMechanism {
        name: capability.variant.mechanism.clone(),
        variant: capability.variant.variant.clone(),
        host_changes: capability.host_changes.clone(),
        unprotected: capability
            .unprotected
            .as_ref()
            .map(|form| form.variant.clone()),
        properties: capability.properties,
    }
}

fn skips(profile: &Profile, requested: &[&Capability]) -> Vec<Skip> {
    let waived = requested
        .iter()
        .filter_map(|capability| match &capability.availability {
            Availability::Available => None,
            Availability::Waived { reason, remedy } => Some(Skip {
                name: capability.variant.mechanism.clone(),
                variant: capability.variant.variant.clone(),
                axis: None,
                reason: reason.clone(),
                remedy: remedy.clone(),
            }),
        });
    let Wanted::Names(names) = &profile.mechanisms else {
        return waived.collect();
    };
    let unknown = names
        .iter()
        .filter(|name| {
            !requested
                .iter()
                .any(|capability| capability.variant.mechanism == **name)
        })
        .map(|name| Skip {
            name: name.clone(),
            variant: name.clone(),
            axis: None,
            reason: "its availability on this host is unknown".to_owned(),
            remedy: None,
        });
    waived.chain(unknown).collect()
}
