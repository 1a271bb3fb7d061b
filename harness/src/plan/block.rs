//! The cells of one block, and the order in which blocks and their cells run.

use std::collections::BTreeSet;

use gpubench_record::{Cell, CellTenant, Condition, Role};
use gpubench_stats::ScheduleRng;

use super::capability::{Capability, VariantRef};
use super::seed::derive;
use crate::axis::{JITTER_SUB_AXIS, Pair};
use crate::profile::{AGGRESSOR, PEER};

/// Mechanisms that run without a switch of the host between them.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its members that can run, in report order.
    pub members: Vec<&'a Capability>,
}

/// A cell without its position in the order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    variant: VariantRef,
    group: String,
    pair: &'static Pair,
    condition: Condition,
    dose: f64,
    /// Whether the victim is the only tenant.
    no_neighbours: bool,
    /// Number of tenants, where it is smaller than the plan's.
    fewer: Option<u32>,
}

impl Draft {
    /// Whether the jitter of a variant is scored from the open loop of this cell: N, S or C of the
    /// jitter sub-axis.
    pub(super) fn gives_jitter(&self) -> bool {
        let condition = matches!(self.condition, Condition::N | Condition::S | Condition::C);
        condition && self.pair.sub_axis == JITTER_SUB_AXIS
    }
}

impl<'a> Group<'a> {
    /// Sorts mechanisms into groups, in the order in which the groups first appear.
    pub(super) fn sort(runnable: &[&'a Capability]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for &capability in runnable {
            match groups
                .iter_mut()
                .find(|group| group.name == capability.group)
            {
                Some(group) => group.members.push(capability),
                None => groups.push(Self {
                    name: &capability.group,
                    members: vec![capability],
                }),
            }
        }
        groups
    }

    /// Every cell of one block of this group, in report order. The aggressors of one victim on one
    /// sub-axis share its cells without an aggressor.
    pub(super) fn cells(&self, plan: &Layout<'_>) -> Vec<Draft> {
        let (pairs, doses) = (plan.pairs, plan.doses);
        let mut drafts = Vec::new();
        for (number, &first) in pairs.iter().enumerate() {
            let same = |pair: &Pair| (pair.sub_axis, pair.victim) == (first.sub_axis, first.victim);
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
                    condition,
                    dose,
                    no_neighbours,
                    fewer,
                });
            };
            let mut push = |variant: &VariantRef, pair, condition, dose| {
                push_with(variant, pair, condition, dose, None);
            };
            if self.members.iter().any(|member| member.needs_native) {
                let native = VariantRef::new(plan.reference, plan.reference);
                push(&native, first, Condition::N, 0.0);
                push(&native, first, Condition::NAgain, 0.0);
            }
            let aggressors: Vec<&'static Pair> =
                pairs.iter().copied().filter(|pair| same(pair)).collect();
            let beside = || {
                let of_pair = |&pair| doses.iter().map(move |&dose| (pair, dose));
                aggressors.iter().flat_map(of_pair)
            };
            for member in self.under_test() {
                push(&member.variant, first, Condition::S, 0.0);
                push(&member.variant, first, Condition::SAgain, 0.0);
                if member.properties.admits_one_tenant() {
                    continue;
                }
                beside().for_each(|(pair, dose)| push(&member.variant, pair, Condition::C, dose));
            }
            for form in self.unprotected_forms() {
                beside().for_each(|(pair, dose)| push(form, pair, Condition::U, dose));
            }
            for member in self
                .under_test()
                .filter(|member| !member.properties.admits_one_tenant())
            {
                for (&pair, &tenants) in aggressors
                    .iter()
                    .flat_map(|pair| plan.sweep.iter().map(move |tenants| (pair, tenants)))
                {
                    push_with(&member.variant, pair, Condition::C, 1.0, Some(tenants));
                }
            }
        }
        drafts
    }

    /// The variant, where the host must be switched for its cells.
    fn separate_state(&self, variant: &VariantRef) -> Option<&VariantRef> {
        let member = self
            .members
            .iter()
            .find(|member| member.variant == *variant)?;
        member.separate.then_some(&member.variant)
    }

    /// Whether this variant admits one tenant.
    fn admits_one_tenant(&self, variant: &VariantRef) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.variant == *variant && member.properties.admits_one_tenant())
    }

    /// The mechanisms under test: all but the reference.
    fn under_test(&self) -> impl Iterator<Item = &&'a Capability> {
        self.members
            .iter()
            .filter(|member| !member.properties.is_reference())
    }

    /// Unprotected forms that are not under test themselves, each once. Their contended cells are
    /// planned as condition U.
    fn unprotected_forms(&self) -> BTreeSet<&'a VariantRef> {
        let planned: BTreeSet<_> = self.under_test().map(|member| &member.variant).collect();
        let forms = self
            .under_test()
            .filter_map(|member| member.unprotected.as_ref());
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
        let visit: Vec<&Group<'_>> = if reversed {
            groups.iter().rev().collect()
        } else {
            groups.iter().collect()
        };
        for group in visit {
            let mut drafts = group.cells(plan);
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
    number(&mut cells, plan);
    cells
}

/// The settings that all cells of a plan share.
pub(super) struct Layout<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Blocks.
    pub blocks: u32,
    /// Tenants in a contended cell.
    pub tenants: u32,
    /// The roles of the neighbours of a contended cell.
    pub neighbours: &'a [String],
    /// Smaller numbers of tenants for contended cells.
    pub sweep: &'a [u32],
    /// Name of the mechanism of native cells.
    pub reference: &'a str,
    /// Pairs of victim and aggressor to run.
    pub pairs: &'a [&'static Pair],
    /// Doses of the aggressor.
    pub doses: &'a [f64],
    /// Whether every cell has an open loop, or only those that jitter is scored from.
    pub open_everywhere: bool,
}

impl Layout<'_> {
    fn cell(&self, block: u32, draft: &Draft) -> Cell {
        let aggressor = draft
            .condition
            .has_aggressor()
            .then_some(draft.pair.aggressor);
        Cell {
            id: String::new(),
            block,
            group: draft.group.clone(),
            mechanism: draft.variant.mechanism.clone(),
            variant: draft.variant.variant.clone(),
            sub_axis: draft.pair.sub_axis,
            condition: draft.condition,
            victim: draft.pair.victim.to_owned(),
            aggressor: aggressor.map(str::to_owned),
            dose: draft.dose,
            tenants: self.tenants(draft, aggressor),
            schedule_seed: derive(self.seed, "schedule", block),
            closed_only: !self.open_everywhere && !draft.gives_jitter(),
        }
    }

    fn tenants(&self, draft: &Draft, aggressor: Option<&str>) -> Vec<CellTenant> {
        let victim = CellTenant {
            tenant: "victim".to_owned(),
            role: Role::Victim,
            workload: Some(draft.pair.victim.to_owned()),
        };
        let neighbours = if draft.no_neighbours {
            0
        } else {
            draft.fewer.unwrap_or(self.tenants) - 1
        };
        let neighbour = |number: u32| {
            let last = self.neighbours.len().saturating_sub(1);
            let planned = self.neighbours.get((number as usize - 1).min(last));
            let (role, workload) = match (aggressor, planned.map(String::as_str)) {
                (None, _) => (Role::Idle, None),
                (Some(_), Some(PEER)) => (Role::Peer, Some(draft.pair.victim)),
                (Some(aggressor), None | Some(AGGRESSOR)) => (Role::Aggressor, Some(aggressor)),
                (Some(_), Some(other)) => (Role::Aggressor, Some(other)),
            };
            CellTenant {
                tenant: format!("neighbour-{number}"),
                role,
                workload: workload.map(str::to_owned),
            }
        };
        std::iter::once(victim)
            .chain((1..=neighbours).map(neighbour))
            .collect()
    }
}

/// Gives every cell its id: a number that sorts in run order, then block, mechanism, victim,
/// condition and aggressor.
fn number(cells: &mut [Cell], plan: &Layout<'_>) {
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
        let parts = parts.chain(dose).chain(fewer);
        cell.id = parts.collect::<Vec<_>>().join("-");
    }
}
