//! A planned cell before it has its position in the order, and the settings that all cells share.

use gpubench_record::{Cell, CellTenant, Condition, Role};

use super::capability::VariantRef;
use super::pairs::Purpose;
use super::rotation::Turn;
use super::seed::derive;
use crate::axis::Pair;
use crate::profile::{AGGRESSOR, PEER};

/// A cell without its position in the order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub variant: VariantRef,
    pub group: String,
    pub pair: &'static Pair,
    /// The workload in the place of the victim: that of the pair, or its aggressor without a
    /// neighbour.
    pub victim: &'static str,
    pub condition: Condition,
    pub dose: f64,
    /// Whether the victim is the only tenant.
    pub no_neighbours: bool,
    /// Number of tenants, where it is smaller than the plan's.
    pub fewer: Option<u32>,
    /// Whether the group has contended cells, with which its native cells are compared.
    pub contended_group: bool,
}

impl Draft {
    /// Whether the jitter of a variant is scored from the open loop of this cell: N or S of the
    /// victim of the jitter pair, or C of that pair with every neighbour at full dose.
    pub(super) fn gives_jitter(&self, jitter: Option<&Pair>) -> bool {
        let Some(jitter) = jitter.filter(|_| !self.is_aggressor_alone()) else {
            return false;
        };
        match self.condition {
            Condition::N => self.contended_group && self.pair.victim == jitter.victim,
            Condition::S => !self.no_neighbours && self.pair.victim == jitter.victim,
            Condition::C => *self.pair == *jitter && self.dose >= 1.0 && self.fewer.is_none(),
            _ => false,
        }
    }

    /// Whether the aggressor of the pair stands in the place of the victim.
    pub(super) fn is_aggressor_alone(&self) -> bool {
        self.victim != self.pair.victim
    }

    /// Whether the cell shows a mechanism, or the reference, with all its tenants.
    pub(super) fn proves(&self) -> bool {
        use Condition::{C, N, S};
        matches!(self.condition, C | N) || self.condition == S && self.no_neighbours
    }
}

/// The settings that all cells of a plan share.
pub(super) struct Layout<'a> {
    /// Seed of the run.
    pub seed: u64,
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
    /// The part of the doses that this run has.
    pub turn: Turn,
    /// The pair that jitter is scored from, where the profile requests jitter.
    pub jitter: Option<&'static Pair>,
    /// Whether every cell has an open loop, or only those that jitter is scored from.
    pub open_everywhere: bool,
    /// What the cells are for.
    pub purpose: Purpose,
    /// Whether each aggressor is also measured alone under each mechanism.
    pub aggressors_alone: bool,
}

impl Layout<'_> {
    /// The doses of a pair in this run, rising.
    pub(super) fn doses_of(&self, pair: &Pair) -> &[f64] {
        let index = self.pairs.iter().position(|one| *one == pair);
        if index.is_some_and(|index| self.turn.has(index)) {
            self.doses
        } else {
            &self.doses[self.doses.len().saturating_sub(1)..]
        }
    }

    pub(super) fn cell(&self, block: u32, draft: &Draft) -> Cell {
        let aggressor = draft.condition.has_aggressor().then_some(draft.pair.aggressor);
        Cell {
            id: String::new(),
            block,
            group: draft.group.clone(),
            mechanism: draft.variant.mechanism.clone(),
            variant: draft.variant.variant.clone(),
            sub_axis: draft.pair.sub_axis,
            condition: draft.condition,
            victim: draft.victim.to_owned(),
            aggressor: aggressor.map(str::to_owned),
            dose: draft.dose,
            tenants: self.tenants(draft, aggressor),
            schedule_seed: derive(self.seed, "schedule", block),
            closed_only: self.purpose == Purpose::Prove
                || draft.is_aggressor_alone()
                || !self.open_everywhere && !draft.gives_jitter(self.jitter),
        }
    }

    fn tenants(&self, draft: &Draft, aggressor: Option<&str>) -> Vec<CellTenant> {
        let victim = CellTenant {
            tenant: "victim".to_owned(),
            role: Role::Victim,
            workload: Some(draft.victim.to_owned()),
        };
        let neighbours =
            if draft.no_neighbours { 0 } else { draft.fewer.unwrap_or(self.tenants) - 1 };
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
        std::iter::once(victim).chain((1..=neighbours).map(neighbour)).collect()
    }
}
