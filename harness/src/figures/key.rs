//! What a row measures: the pair of victim and aggressor, and one condition of it.

use gpubench_record::{Cell, Condition, Dose, Plan, SubAxis};

/// A victim and an aggressor on the sub-axis under which they are scored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub sub_axis: SubAxis,
    pub victim: String,
    /// `None` where no contended cell was planned.
    pub aggressor: Option<String>,
}

impl Pair {
    /// Whether both are the same victim on the same sub-axis.
    pub(crate) fn has_victim_of(&self, other: &Self) -> bool {
        (self.sub_axis, &self.victim) == (other.sub_axis, &other.victim)
    }
}

/// One condition of one victim under one variant, over all blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub group: String,
    pub variant: String,
    /// Without an aggressor in N and S, whose cells serve every aggressor.
    pub pair: Pair,
    /// The dose of the aggressor, where it is below 1. Scores are taken at dose 1.
    pub dose: Option<Dose>,
    /// The tenants of the cells of a sweep that has fewer than the plan. Scores use cells with all.
    pub fewer: Option<u32>,
    pub condition: Condition,
}

impl Key {
    pub(super) fn of(plan: &Plan, cell: &Cell, sub_axis: SubAxis) -> Self {
        let contends = cell.condition.has_aggressor();
        let tenants = u32::try_from(cell.tenants.len()).unwrap_or(u32::MAX);
        let is_fewer = contends && !plan.sweep.is_empty() && tenants < plan.tenants;
        Self {
            group: cell.group.clone(),
            variant: cell.variant.clone(),
            pair: Pair {
                sub_axis,
                victim: cell.victim.clone(),
                aggressor: cell.aggressor.clone().filter(|_| contends),
            },
            dose: Dose::below_1(cell.dose).filter(|_| contends),
            fewer: is_fewer.then_some(tenants),
            condition: cell.condition,
        }
    }

    /// The cells of a victim without an aggressor.
    pub(crate) fn alone(group: &str, variant: &str, pair: &Pair, condition: Condition) -> Self {
        Self {
            group: group.to_owned(),
            variant: variant.to_owned(),
            pair: Pair { aggressor: None, ..pair.clone() },
            dose: None,
            fewer: None,
            condition,
        }
    }

    /// Whether its cells have all tenants and aggressors at dose 1.
    pub(crate) fn is_scored(&self) -> bool {
        self.dose.is_none() && self.fewer.is_none()
    }

    /// The same victim in the same blocks, under another condition of the same variant.
    pub(crate) fn with(&self, condition: Condition) -> Self {
        let mut key = self.clone();
        key.condition = condition;
        if !condition.has_aggressor() {
            (key.pair.aggressor, key.dose, key.fewer) = (None, None, None);
        }
        key
    }
}
