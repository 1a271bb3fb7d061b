//! The cells of one block, and the order in which blocks and their cells run.

use std::collections::BTreeSet;

use gpubench_record::{Cell, Condition};
use gpubench_stats::ScheduleRng;
use gpubench_workloads::load;

use super::capability::{Capability, VariantRef};
use super::draft::{Draft, Layout};
use super::ids;
use super::pairs::Purpose;
use super::seed::derive;
use crate::axis::Pair;

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
            let mut push_with = |variant: &VariantRef, pair, condition: Condition, dose, fewer| {
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
                    contended_group,
                });
            };
            let mut push = |variant: &VariantRef, pair, condition, dose| {
                push_with(variant, pair, condition, dose, None);
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
                for (&pair, &tenants) in aggressors
                    .iter()
                    .flat_map(|pair| plan.sweep.iter().map(move |tenants| (pair, tenants)))
                {
                    push_with(&member.variant, pair, Condition::C, 1.0, Some(tenants));
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
        let has_rate =
            |pair: &Pair| load::find(pair.victim).is_ok_and(|victim| victim.answers().is_empty());
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
            contended_group: true,
        };
        let members = self.contended();
        members.flat_map(|member| aggressors.iter().map(|pair| alone(member, pair))).collect()
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
/// cancels out (ABBA). A pair of one group runs before the host is switched to the next group,
/// and the order of groups is reversed from pair to pair, which halves the switches.
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
            ScheduleRng::new(derive(plan.seed, &purpose, first)).shuffle(&mut drafts);
            // The sort is stable: within each state of the host the order stays random.
            drafts.sort_by_key(|draft| group.separate_state(&draft.variant));
            cells.extend(drafts.iter().map(|draft| plan.cell(first, draft)));
            if first + 1 < plan.blocks {
                cells.extend(drafts.iter().rev().map(|draft| plan.cell(first + 1, draft)));
            }
        }
    }
    ids::number(&mut cells, plan);
    cells
}
