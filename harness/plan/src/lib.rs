//! From a profile and the capabilities of the host to every cell that will run, with its seed, its
//! position in the order, and the reason for each skip.
//!
//! Pure: no device, no clock, no files. Equal inputs give equal plans.

mod block;
mod budget;
pub mod draft;
mod extend;
pub mod facts;
mod faults;
mod frozen;
mod ledger;
pub mod profile;
#[cfg(test)]
mod tests;
mod time_use;

use std::collections::{BTreeMap, BTreeSet};

use block::{Group, Pairs, Purpose, in_order};
use budget::{Fit, PerBlock};
use draft::{Layout, Turn};
use gpubench_catalogue::axis::{JITTER_SUB_AXIS, Pair};
use gpubench_catalogue::mechanism::REFERENCE;
use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{Axis, Cell, Plan, RequiredProof, Skip, SoakPlan};

use crate::profile::units::Span;
use crate::profile::{PairsOf, Profile, Wanted, profile_hash};

pub use budget::{notes, phase_ns};
pub use extend::{BlocksLeft, Detectable, MoreBlocks, blocks_left, detectable, extend};
pub use facts::{Availability, Capabilities, Capability, VariantRef};
pub use faults::{
    FaultPart, FaultWish, NOTHING_TO_BREAK, add_faults, fault_part, faults_ns, has_needs, is_fatal,
    is_part_of_rates, no_victim,
};
pub use frozen::Frozen;
pub use ledger::{Ledger, Misleading, NO_SOURCE, Recipe, Source, Word, ledger};
pub use time_use::{Pace, time_of};

/// Plans a run. `ptx_hash` identifies the kernels in the hash of the profile.
/// Fails when no mechanism can run, or `blocks.min` blocks exceed the profile's `device_time`.
pub fn plan(
    profile: &Profile,
    capabilities: &Capabilities,
    ptx_hash: &str,
) -> Result<Plan, PlanError> {
    let hash = profile_hash(profile, ptx_hash);
    let profile = &profile.of_run();
    let requested = requested(profile, capabilities);
    let mut skips = skips(profile, &requested);
    let runnable: Vec<&Capability> = requested
        .iter()
        .copied()
        .filter(|capability| capability.availability == Availability::Available)
        .collect();
    let pairs = block::selected(profile)
        .ok_or_else(|| PlanError::NoPair { axes: requested_axes(profile) })?;
    let groups = Group::sort(&runnable);
    let turns = runnable.iter().filter(|one| one.properties.takes_turns());
    let turns = turns.map(|one| one.variant.variant.clone()).collect();
    let sparse = jitter_pairs(profile, &pairs.pairs);
    let mut layout = layout(profile, &pairs, &sparse, &turns);
    let (Fit { blocks, durations, open_everywhere }, jitter_needs) =
        fitted(profile, pairs.purpose, &groups, &mut layout)?
            .ok_or_else(|| nothing_to_run(&skips))?;
    let durations = budget::whole_periods(durations, &runnable, profile.cell_min.closed.ns);
    let layout = Layout { blocks, open_everywhere, ..layout };
    let cells = in_order(&groups, &layout);
    let (ledger, is_whole) = (ledger()?, profile.pairs == PairsOf::All);
    let claimed = ledger.words_of(&names(&requested, &skips));
    let left_out = &sparse[layout.sparse.len()..];
    // A profile that decides nothing has no level to lose.
    let jitter_needs = jitter_needs.filter(|_| profile.decides);
    let jitter = jitter_needs.map(|needed| without_jitter(profile, left_out, needed));
    skips.extend(jitter.into_iter().chain(without_kills(profile, &runnable)));
    Ok(Plan {
        profile: profile.name.clone(),
        profile_hash: hash,
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
        meters: profile.meters.clone(),
        axes: requested_axes(profile),
        blocks,
        looks: if profile.decides && profile.blocks.top_up { 2 } else { 1 },
        durations,
        thresholds: profile.thresholds.clone(),
        margins: Some(profile.margins),
        mechanisms: runnable.into_iter().map(planned).collect(),
        user_victim: profile.user_victim.victim(),
        required_proofs: Some(required_proofs(capabilities, &cells)),
        cells,
        fault_trials: Vec::new(),
        probes: Vec::new(),
        workloads: facts::of_workloads(layout.pairs, layout.neighbours, is_whole),
        pairs: facts::of_pairs(layout.pairs),
        jitter_from: JITTER_SUB_AXIS,
        jitter_pairs: Some(
            layout
                .sparse
                .iter()
                .map(|pair| pair.sub_axis)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        ),
        reference: REFERENCE.to_owned(),
        claimed,
        claims: ledger.claims,
        skips,
        rotation: draft::recorded(profile, &layout),
        soak: soak(profile, pairs.purpose),
        time: Vec::new(),
        top_up: None,
        frozen: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
    })
}

/// The fit of the plan; `None` without a cell. As many pairs have sparse phases as the time allows,
/// the first ones of the profile; where some have none, also the device time that all of them take.
fn fitted(
    profile: &Profile,
    purpose: Purpose,
    groups: &[Group<'_>],
    layout: &mut Layout<'_>,
) -> Result<Option<(Fit, Option<Span>)>, PlanError> {
    let mut jitter_needs = None;
    loop {
        let drafts = groups.iter().flat_map(|group| group.cells(layout));
        let per_block = PerBlock::of(drafts, layout);
        if per_block.cells == 0 {
            return Ok(None);
        }
        let alone = groups.iter().map(|group| group.aggressors_alone(layout).len()).sum();
        let per_block = per_block.with_alone(alone, profile.blocks.min);
        let fit = match purpose {
            Purpose::Score => budget::fit(profile, per_block),
            Purpose::Prove => Ok(budget::one_block(profile)),
        };
        match (fit, layout.sparse) {
            (Ok(fit), _) => return Ok(Some((fit, jitter_needs))),
            (Err(PlanError::TooLittleTime { needed, .. }), [fewer @ .., _]) => {
                jitter_needs = jitter_needs.or(Some(needed));
                layout.sparse = fewer;
            }
            (Err(error), _) => return Err(error),
        }
    }
}

/// What a plan says that has no time for the jitter beside these pairs' aggressors.
fn without_jitter(profile: &Profile, left_out: &[&Pair], needed: Span) -> Skip {
    let aggressors: Vec<&str> = left_out.iter().map(|pair| pair.aggressor).collect();
    Skip {
        name: Axis::Jitter.as_str().to_owned(),
        variant: "every mechanism".to_owned(),
        axis: Some(Axis::Jitter.as_str().to_owned()),
        reason: format!(
            "device_time {} has no room for sparse phases: no jitter beside {}",
            profile.device_time,
            aggressors.join(", ")
        ),
        remedy: Some(format!("device_time = \"{needed}\"")),
    }
}

/// The mechanisms whose neighbours cannot be killed alone.
fn without_kills(profile: &Profile, runnable: &[&Capability]) -> Vec<Skip> {
    let kills = profile.events.iter().any(|event| event.kills());
    let threads = runnable.iter().filter(|one| kills && one.properties.has_threads());
    let skip = |one: &&Capability| Skip {
        name: one.variant.mechanism.clone(),
        variant: one.variant.variant.clone(),
        axis: Some("kill and restart".to_owned()),
        reason: "its tenants are threads of one process, which ends as a whole".to_owned(),
        remedy: None,
    };
    threads.map(skip).collect()
}

/// The heating and the check kernel; a plan that only proves mechanisms needs neither.
fn soak(profile: &Profile, purpose: Purpose) -> Option<SoakPlan> {
    let planned = profile.soak.planned(profile.device_time);
    planned.filter(|_| purpose == Purpose::Score)
}

/// What all cells share, before the number of blocks is known.
fn layout<'a>(
    profile: &'a Profile,
    selected: &'a Pairs,
    sparse: &'a [&'static Pair],
    turns: &'a BTreeSet<String>,
) -> Layout<'a> {
    Layout {
        seed: profile.seed,
        blocks: 0,
        tenants: profile.tenants,
        neighbours: &profile.neighbours,
        reference: REFERENCE,
        sweep: &profile.sweep,
        depths: &profile.depths,
        loads: &profile.loads,
        events: &profile.events,
        pairs: &selected.pairs,
        doses: &profile.doses,
        turn: Turn::of(profile),
        jitter: jitter_pair(profile, &selected.pairs),
        blocks_min: profile.blocks.min,
        sparse,
        turns,
        service_ns: profile.service.ns,
        open_everywhere: true,
        purpose: selected.purpose,
        aggressors_alone: profile.decides
            && selected.purpose == Purpose::Score
            && profile.user_victim.victim().is_none(),
    }
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
    // One reason for all is said once.
    if let [first, rest @ ..] = skips
        && !rest.is_empty()
        && rest.iter().all(|skip| skip.reason == first.reason)
    {
        let remedy = first.remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})"));
        let reason = format!("{}{}", first.reason, remedy.unwrap_or_default());
        return PlanError::NothingToRun { reasons: vec![reason] };
    }
    let reasons = skips.iter().map(|skip| format!("{}: {}", skip.variant, skip.reason));
    PlanError::NothingToRun { reasons: reasons.collect() }
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
    requested.chain(skips.iter().map(|skip| skip.name.as_str())).collect()
}

/// The pair whose open loops give the tail at the offered load; `None` where the profile does not
/// request the jitter axis.
fn jitter_pair(profile: &Profile, pairs: &[&'static Pair]) -> Option<&'static Pair> {
    let mut pairs = pairs.iter().copied().filter(|_| requests_jitter(profile));
    pairs.find(|pair| pair.sub_axis == JITTER_SUB_AXIS)
}

/// The pairs that give service jitter, in the order of the profile. A user's victim follows a
/// schedule of its own, and has no sparse phase.
fn jitter_pairs(profile: &Profile, pairs: &[&'static Pair]) -> Vec<&'static Pair> {
    if !requests_jitter(profile) || profile.user_victim.victim().is_some() {
        return Vec::new();
    }
    let axis_of = |pair: &Pair| pair.sub_axis.axis();
    match &profile.jitter_pairs {
        Wanted::All => {
            let has_latency =
                |pair: &&Pair| matches!(axis_of(pair), Axis::Compute | Axis::Bandwidth);
            pairs.iter().copied().filter(has_latency).collect()
        }
        Wanted::Names(names) => {
            let is = |pair: &Pair, wanted: &String| {
                wanted.split_once('/') == Some((axis_of(pair).as_str(), pair.sub_axis.as_str()))
            };
            // The usual pair of each.
            let of = |wanted| pairs.iter().copied().find(|pair| is(pair, wanted));
            names.iter().filter_map(of).collect()
        }
    }
}

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

fn planned(capability: &Capability) -> PlannedMechanism {
    PlannedMechanism {
        name: capability.variant.mechanism.clone(),
        variant: capability.variant.variant.clone(),
        host_changes: capability.host_changes.clone(),
        unprotected: capability.unprotected.as_ref().map(|form| form.variant.clone()),
        properties: capability.properties,
    }
}

fn skips(profile: &Profile, requested: &[&Capability]) -> Vec<Skip> {
    let waived = requested.iter().filter_map(|capability| match &capability.availability {
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
        .filter(|name| !requested.iter().any(|capability| capability.variant.mechanism == **name))
        .map(|name| Skip {
            name: name.clone(),
            variant: name.clone(),
            axis: None,
            reason: "its availability on this host is unknown".to_owned(),
            remedy: None,
        });
    waived.chain(unknown).collect()
}

// Why a profile cannot be planned on a host.

/// A profile that cannot be planned on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No mechanism can run.
    #[error("{}", reasons.join("; "))]
    NothingToRun {
        /// `variant: reason`, one for each requested mechanism.
        reasons: Vec<String>,
    },
    /// The profile selects no pair of victim and aggressor of its axes.
    #[error("no pair of the profile's victims and aggressors is on {}", axes.join(", "))]
    NoPair {
        /// The requested axes.
        axes: Vec<String>,
    },
    /// The built-in claims cannot be read, which is a defect of the build.
    #[error("the built-in claims.toml: {what}")]
    Ledger {
        /// The message of the parser.
        what: String,
    },
    /// The fewest blocks of the shortest cells take longer than `device_time`.
    #[error(
        "device_time {device_time} is too short for {cells} cells (blocks.min of the shortest \
         cells); the smallest sufficient device_time is {needed}"
    )]
    TooLittleTime {
        /// The `device_time` of the profile.
        device_time: Span,
        /// Cells in the fewest blocks.
        cells: u64,
        /// The time of these cells at their shortest.
        needed: Span,
    },
}
