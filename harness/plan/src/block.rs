//! The cells of one block, and the order in which blocks and their cells run.

use std::collections::BTreeSet;

use gpubench_catalogue::axis;
use gpubench_catalogue::axis::{AxisEntry, JITTER_SUB_AXIS, Pair, Selection};
use gpubench_catalogue::workload;
use gpubench_record::{Axis, Cell, Condition, Plan, Shape};
use gpubench_stats::ScheduleRng;

use super::draft::{Draft, Layout};
use super::facts::{Capability, VariantRef};
use crate::profile::{PairsOf, Profile, Wanted};

/// The blocks in which aggressors run alone: both of the first two pairs.
pub(super) const ALONE_BLOCKS: u32 = 4;

/// Mechanisms that run without a switch of the host between them.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub name: &'a str,
    /// Its members that can run, in report order.
    pub members: Vec<&'a Capability>,
    /// Whether its native cells are repeated: those of the first group that has any.
    pub repeats_native: bool,
}

impl<'a> Group<'a> {
    /// Sorts mechanisms into groups, in the order in which the groups first appear.
    pub(super) fn sort(runnable: &[&'a Capability]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for &capability in runnable {
            match groups.iter_mut().find(|group| group.name == capability.group) {
                Some(group) => group.members.push(capability),
                None => groups.push(Self {
                    name: &capability.group,
                    members: vec![capability],
                    repeats_native: false,
                }),
            }
        }
        let has_native = |group: &&mut Self| group.members.iter().any(|member| member.needs_native);
        if let Some(first) = groups.iter_mut().find(has_native) {
            first.repeats_native = true;
        }
        groups
    }

    /// Every cell of one block of this group, in report order. All aggressors of one victim share
    /// its cells without an aggressor. N', the repetition of the reference, runs in
    /// the first group only; a mechanism that admits one tenant has no row that needs S'.
    pub(super) fn cells(&self, plan: &Layout<'_>) -> Vec<Draft> {
        let pairs = plan.pairs;
        let mut drafts = Vec::new();
        let contended_group = self.contended().next().is_some();
        for (number, &first) in pairs.iter().enumerate() {
            let same = |pair: &Pair| pair.victim == first.victim;
            if pairs[..number].iter().any(|pair| same(pair)) {
                continue;
            }
            let mut add = |variant: &VariantRef, pair, condition: Condition, dose, fewer, shape| {
                let (variant, group) = (variant.clone(), self.name.to_owned());
                let no_neighbours = condition.is_native() || self.admits_one_tenant(&variant);
                drafts.push(Draft {
                    variant,
                    group,
                    pair,
                    victim: pair.victim,
                    condition,
                    dose,
                    no_neighbours,
                    fewer,
                    shape,
                    contended_group,
                });
            };
            let mut push = |variant: &VariantRef, pair, condition, dose| {
                add(variant, pair, condition, dose, None, Shape::default());
            };
            if self.members.iter().any(|member| member.needs_native) {
                let native = VariantRef::new(plan.reference, plan.reference);
                push(&native, first, Condition::N, 0.0);
                if self.repeats_native {
                    push(&native, first, Condition::NAgain, 0.0);
                }
            }
            let aggressors: Vec<&'static Pair> =
                pairs.iter().copied().filter(|pair| same(pair)).collect();
            let beside = || {
                let of_pair = |&pair: &&'static Pair| {
                    let doses = plan.doses_of(pair).iter();
                    doses.map(move |&dose| (pair, dose))
                };
                aggressors.iter().flat_map(of_pair)
            };
            for member in self.under_test() {
                push(&member.variant, first, Condition::S, 0.0);
                if member.properties.admits_one_tenant() {
                    continue;
                }
                push(&member.variant, first, Condition::SAgain, 0.0);
                beside().for_each(|(pair, dose)| push(&member.variant, pair, Condition::C, dose));
            }
            // Scores use condition U at full dose only.
            for form in self.unprotected_forms() {
                for pair in &aggressors {
                    push(form, pair, Condition::U, 1.0);
                }
            }
            for member in self.contended() {
                for shape in plan.solo_shapes() {
                    add(&member.variant, first, Condition::S, 0.0, None, shape);
                }
                for &pair in &aggressors {
                    for &tenants in plan.sweep {
                        let (fewer, usual) = (Some(tenants), Shape::default());
                        add(&member.variant, pair, Condition::C, 1.0, fewer, usual);
                    }
                    for shape in plan.shapes(pair, member.properties.has_threads()) {
                        add(&member.variant, pair, Condition::C, 1.0, None, shape);
                    }
                }
            }
        }
        if plan.purpose == Purpose::Prove {
            drafts.retain(Draft::proves);
        }
        drafts
    }

    /// Each aggressor alone under each mechanism, in the place of the victim: whether a neighbour
    /// interferes less or only works less is known from its own rate. Aggressors of memory, whose
    /// victims have answering codes, have no rate to speak of.
    pub(super) fn aggressors_alone(&self, plan: &Layout<'_>) -> Vec<Draft> {
        if !plan.aggressors_alone {
            return Vec::new();
        }
        let has_rate = |pair: &Pair| {
            workload::find(pair.victim).is_some_and(|victim| victim.answers.is_empty())
        };
        let is_victim = |name: &str| plan.pairs.iter().any(|pair| pair.victim == name);
        let mut aggressors: Vec<&'static Pair> = Vec::new();
        for &pair in plan.pairs.iter().filter(|pair| has_rate(pair)) {
            let is_new = !aggressors.iter().any(|known| known.aggressor == pair.aggressor);
            if is_new && !is_victim(pair.aggressor) {
                aggressors.push(pair);
            }
        }
        let alone = |member: &&Capability, pair: &'static Pair| Draft {
            variant: member.variant.clone(),
            group: self.name.to_owned(),
            pair,
            victim: pair.aggressor,
            condition: Condition::S,
            dose: 0.0,
            no_neighbours: false,
            fewer: None,
            shape: Shape::default(),
            contended_group: true,
        };
        let members = self.contended();
        members.flat_map(|member| aggressors.iter().map(|pair| alone(member, pair))).collect()
    }

    /// Random order in three steps: the mechanisms of each state of the host, the victims of each
    /// mechanism, and the cells of each victim. So a contended cell stands beside the cells of the
    /// same victim that it is compared with, and their tenants keep contexts, modules and buffers.
    fn shuffle(&self, drafts: &mut [Draft], rng: &mut ScheduleRng) {
        fn ranks<K: Ord + Clone>(keys: impl Iterator<Item = K>, rng: &mut ScheduleRng) -> Vec<K> {
            let mut keys: Vec<K> = keys.collect::<BTreeSet<K>>().into_iter().collect();
            rng.shuffle(&mut keys);
            keys
        }
        rng.shuffle(drafts);
        let variants = ranks(drafts.iter().map(|draft| draft.variant.clone()), rng);
        let victims = ranks(drafts.iter().map(|draft| (draft.variant.clone(), draft.victim)), rng);
        // The sort is stable: the cells of a victim stay in random order.
        drafts.sort_by_cached_key(|draft| {
            let variant = variants.iter().position(|one| *one == draft.variant);
            let of = (&draft.variant, draft.victim);
            let victim = victims.iter().position(|(variant, victim)| (variant, *victim) == of);
            (self.separate_state(&draft.variant).cloned(), variant, victim)
        });
    }

    /// The variant, where the host must be switched for its cells.
    fn separate_state(&self, variant: &VariantRef) -> Option<&VariantRef> {
        let member = self.members.iter().find(|member| member.variant == *variant)?;
        member.separate.then_some(&member.variant)
    }

    fn admits_one_tenant(&self, variant: &VariantRef) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.variant == *variant && member.properties.admits_one_tenant())
    }

    /// The mechanisms under test: all but the reference.
    fn under_test(&self) -> impl Iterator<Item = &&'a Capability> {
        self.members.iter().filter(|member| !member.properties.is_reference())
    }

    /// Those with contended cells.
    fn contended(&self) -> impl Iterator<Item = &&'a Capability> {
        let members = self.under_test();
        members.filter(|member| !member.properties.admits_one_tenant())
    }

    /// Unprotected forms that are not under test themselves, each once. Their contended cells are
    /// planned as condition U.
    fn unprotected_forms(&self) -> BTreeSet<&'a VariantRef> {
        let planned: BTreeSet<_> = self.under_test().map(|member| &member.variant).collect();
        let forms = self.under_test().filter_map(|member| member.unprotected.as_ref());
        forms.filter(|form| !planned.contains(form)).collect()
    }
}

/// The cells of all blocks in the order in which they run.
///
/// Blocks come in pairs, the second in the reverse order of the first, so that a linear drift
/// cancels out (ABBA), and the mechanism at the end of the first keeps its contexts. A pair of one
/// group runs before the host is switched to the next group, and the order of groups is reversed
/// from pair to pair, which halves the switches.
pub(super) fn in_order(groups: &[Group<'_>], plan: &Layout<'_>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for first in (0..plan.blocks).step_by(2) {
        let reversed = (first / 2) % 2 == 1;
        let visit: Vec<&Group<'_>> =
            if reversed { groups.iter().rev().collect() } else { groups.iter().collect() };
        for group in visit {
            let mut drafts = group.cells(plan);
            if first < ALONE_BLOCKS {
                drafts.extend(group.aggressors_alone(plan));
            }
            let purpose = format!("order {}", group.name);
            let mut rng = ScheduleRng::new(derive(plan.seed, &purpose, first));
            group.shuffle(&mut drafts, &mut rng);
            cells.extend(drafts.iter().map(|draft| plan.cell(first, draft)));
            if first + 1 < plan.blocks {
                cells.extend(drafts.iter().rev().map(|draft| plan.cell(first + 1, draft)));
            }
        }
    }
    number(&mut cells, plan);
    cells
}

// The pairs of victim and aggressor in the cells of a plan.

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
    let are_equal = profile.pairs == PairsOf::Equal;
    pairs.retain(|pair| are_equal || wants(&profile.aggressors, pair.aggressor));
    pairs
}

fn candidates(profile: &Profile, entry: &AxisEntry) -> Vec<&'static Pair> {
    match profile.pairs {
        _ if profile.user_victim.victim().is_some() => entry.user_victim_pairs().collect(),
        PairsOf::Resource => entry.pairs().collect(),
        PairsOf::All => entry.matrix_pairs().collect(),
        PairsOf::Equal => entry.equal_pairs().collect(),
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

// The ids of cells.

/// Gives every cell its id: a number that sorts in run order, then block, mechanism, victim,
/// condition and aggressor.
pub(super) fn number(cells: &mut [Cell], plan: &Layout<'_>) {
    let blocks = plan.blocks;
    let digits = |count: usize| count.saturating_sub(1).to_string().len();
    let number_width = digits(cells.len()).max(4);
    let block_width = digits(blocks as usize).max(2);
    for (number, cell) in cells.iter_mut().enumerate() {
        let what = [
            format!("{number:0number_width$}"),
            format!("b{:0block_width$}", cell.block),
            cell.mechanism.clone(),
            cell.victim.clone(),
            // An apostrophe needs quoting in every shell.
            cell.condition.as_str().replace('\'', "2"),
        ];
        let dose = (cell.dose > 0.0 && cell.dose < 1.0).then(|| format!("dose{}", cell.dose));
        let tenants = cell.tenants.len();
        let fewer = cell.condition.has_aggressor() && tenants < plan.tenants as usize;
        let fewer = fewer.then(|| format!("tenants{tenants}"));
        let parts = what.into_iter().chain(cell.aggressor.clone());
        let parts = parts.chain(dose).chain(fewer).chain(in_id(cell));
        cell.id = parts.collect::<Vec<_>>().join("-");
    }
}

/// The part of an id that says where a cell differs from the usual one.
fn in_id(cell: &Cell) -> Option<String> {
    if let Some(pct) = cell.shape.load_pct {
        return Some(format!("load{pct}"));
    }
    if let Some(event) = cell.shape.event {
        return Some(event.as_str().to_owned());
    }
    let [own, beside] = cell.depths();
    let contends = cell.condition.has_aggressor();
    let text = if contends { format!("depth{own}x{beside}") } else { format!("depth{own}") };
    (!cell.shape.is_usual()).then_some(text)
}

/// A number that no cell of the plan has or had, and that sorts behind all of them.
pub(super) fn next_number(plan: &Plan) -> usize {
    let number = |cell: &Cell| cell.id.split('-').next()?.parse::<usize>().ok();
    let last = plan.all_cells().filter_map(number).max();
    last.map_or(0, |last| last + 1).max(plan.cells.len())
}

/// The id of the same cell in another block, with another number.
pub(super) fn in_block(id: &str, number: usize, block: u32) -> String {
    let mut parts = id.splitn(3, '-');
    let mut width = |prefix: usize| parts.next().map_or(0, |part| part.len() - prefix);
    // The block has the prefix `b`.
    let (number_width, block_width) = (width(0), width(1));
    let what = parts.next().unwrap_or_default();
    format!("{number:0number_width$}-b{block:0block_width$}-{what}")
}

// Seeds for parts of a run, derived from the seed of the profile.

/// A seed for one purpose and number. Equal inputs give equal seeds on every platform. It has 53
/// bits, so a JSON reader that uses doubles reads it exactly.
pub(super) fn derive(seed: u64, purpose: &str, number: u32) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("gpubench plan seeds v1");
    hasher.update(&seed.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(purpose.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first) >> 11
}
