//! The pairs of victim and aggressor in the cells of a plan.

use gpubench_record::Axis;

use crate::axis::{self, AxisEntry, JITTER_SUB_AXIS, Pair, Selection};
use crate::profile::{Profile, Wanted};

/// What cells are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Rows of the matrix.
    Score,
    /// Only the proof that each mechanism was in force; probes and fault trials make the rows.
    Prove,
}

/// The pairs of a plan, in report order.
pub(super) struct Pairs {
    pub pairs: Vec<&'static Pair>,
    pub purpose: Purpose,
}

/// The pairs that the profile's axes need; `None` where they select nothing. Probes and fault
/// trials need no pair of their own. Where nothing else is selected, cells of one pair prove that
/// each mechanism was in force.
pub(super) fn selected(profile: &Profile) -> Option<Pairs> {
    let entries = axis::CATALOGUE.iter();
    let scored: Vec<&Pair> = entries.flat_map(|entry| of_entry(profile, entry)).collect();
    if !scored.is_empty() {
        return Some(Pairs { pairs: scored, purpose: Purpose::Score });
    }
    let is_user = profile.user_victim.victim().is_some();
    let mut of_proof = axis::CATALOGUE.iter();
    let entry = of_proof.find(|entry| entry.sub_axis == JITTER_SUB_AXIS)?;
    (!is_user && profile.selects(Selection::needs_no_pair))
        .then(|| Pairs { pairs: entry.pairs().take(1).collect(), purpose: Purpose::Prove })
}

/// The pairs of one sub-axis: those with a victim and an aggressor that the profile selects. A
/// sub-axis that the profile names has at least its first pair, and so has each sub-axis of an axis
/// that the profile names and that would have no pair at all.
fn of_entry(profile: &Profile, entry: &AxisEntry) -> Vec<&'static Pair> {
    if !profile.selects(|selection| selection.needs(entry.sub_axis)) {
        return Vec::new();
    }
    let wanted = wanted(profile, entry);
    if wanted.is_empty() && (names(profile, entry.name) || is_bare(profile, entry)) {
        return candidates(profile, entry).into_iter().take(1).collect();
    }
    wanted
}

/// Whether the profile names the axis of this entry and selects no pair of any of its sub-axes.
fn is_bare(profile: &Profile, entry: &AxisEntry) -> bool {
    let axis = entry.sub_axis.axis();
    let mut of_axis = axis::CATALOGUE.iter().filter(|one| one.sub_axis.axis() == axis);
    axis != Axis::Memory
        && names(profile, axis.as_str())
        && of_axis.all(|one| wanted(profile, one).is_empty())
}

fn wanted(profile: &Profile, entry: &AxisEntry) -> Vec<&'static Pair> {
    let is_user = profile.user_victim.victim().is_some();
    let mut pairs = candidates(profile, entry);
    pairs.retain(|pair| is_user || wants(&profile.victims, pair.victim));
    pairs.retain(|pair| wants(&profile.aggressors, pair.aggressor));
    pairs
}

fn candidates(profile: &Profile, entry: &AxisEntry) -> Vec<&'static Pair> {
    if profile.user_victim.victim().is_some() {
        entry.user_victim_pairs().collect()
    } else {
        entry.pairs().collect()
    }
}

fn wants(wanted: &Wanted, name: &str) -> bool {
    match wanted {
        Wanted::All => true,
        Wanted::Names(names) => names.iter().any(|one| one == name),
    }
}

/// Whether the profile names this axis or sub-axis itself.
fn names(profile: &Profile, name: &str) -> bool {
    matches!(&profile.axes, Wanted::Names(names) if names.iter().any(|one| one == name))
}
