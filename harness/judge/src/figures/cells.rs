//! Finds cells by what they measure.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Cell, CellResult, Condition, Dose, LostKind, OutcomeKind, Plan, PlannedPair, Shape, SubAxis,
};

use gpubench_stats::Confidence;

use super::rates::LeftOut;

/// The planned cells of a run with their results.
#[derive(Debug)]
pub struct Cells<'a> {
    plan: &'a Plan,
    by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>>,
    /// Workloads that only stand beside victims: their cells without a neighbour give their own
    /// rate.
    aggressors_alone: BTreeSet<&'a str>,
    reading: Reading,
}

/// Which cells count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Those without a failed gate. Their figures are printed.
    Printed,
    /// Also those that only a disturbance excludes. They must give the same level.
    WithDisturbed,
}

/// A planned cell, with its result if it ran.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    pub cell: &'a Cell,
    pub result: Option<&'a CellResult>,
    reading: Reading,
}

/// Results that do not belong to the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CellsError {
    /// A result without a planned cell.
    #[error("cell {id} is not in the plan: only results of planned cells are accepted")]
    NotPlanned { id: String },
    /// Two results of one cell.
    #[error("cell {id} has two results: one for each planned cell is accepted")]
    Twice { id: String },
}

impl<'a> Cells<'a> {
    /// Assigns results to planned cells.
    pub fn index(
        plan: &'a Plan,
        results: &'a [CellResult],
        reading: Reading,
    ) -> Result<Self, CellsError> {
        let mut by_id: BTreeMap<&str, &CellResult> = BTreeMap::new();
        for result in results {
            if by_id.insert(&result.cell.id, result).is_some() {
                return Err(CellsError::Twice { id: result.cell.id.clone() });
            }
        }
        let mut by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>> = BTreeMap::new();
        let served = Served::of(plan);
        for cell in &plan.cells {
            let result = by_id.remove(cell.id.as_str());
            for sub_axis in served.sub_axes(cell) {
                let planned = Planned { cell, result, reading };
                by_key
                    .entry(Key::of(plan, cell, sub_axis))
                    .or_default()
                    .insert(cell.block, planned);
            }
        }
        match by_id.into_keys().next() {
            Some(id) => Err(CellsError::NotPlanned { id: id.to_owned() }),
            None => Ok(Self { plan, by_key, aggressors_alone: aggressors(plan), reading }),
        }
    }

    /// Which cells count.
    pub const fn reading(&self) -> Reading {
        self.reading
    }

    /// Of every interval over blocks.
    pub fn confidence(&self) -> Confidence {
        Confidence::of_looks(self.plan.looks)
    }

    /// Blocks that every row was planned to have; those after them belong to single rows.
    pub(super) const fn common_blocks(&self) -> u32 {
        self.plan.blocks
    }

    /// Every key, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.by_key.keys()
    }

    /// The keys of one condition, each of its cells under one of them: cells that also serve other
    /// sub-axes count under their own.
    pub fn of(&self, condition: Condition) -> impl Iterator<Item = &Key> {
        let is_own = |key: &Key, cells: &BTreeMap<u32, Planned<'_>>| {
            cells.values().all(|one| one.cell.sub_axis == key.pair.sub_axis)
        };
        let keys = self.by_key.iter().filter(move |(key, _)| key.condition == condition);
        keys.filter(move |(key, cells)| is_own(key, cells)).map(|(key, _)| key)
    }

    /// Whether these are cells of a victim, and not of an aggressor that runs alone.
    pub fn has_victim(&self, key: &Key) -> bool {
        !self.aggressors_alone.contains(key.pair.victim.as_str())
    }

    /// The pairs that have cells: by sub-axis, within one in the order of the plan.
    pub fn pairs(&self) -> Vec<Pair> {
        let keys = self.by_key.keys().filter(|key| key.is_scored() && self.has_victim(key));
        let all: BTreeSet<&Pair> = keys.map(|key| &key.pair).collect();
        // A victim without an aggressor is a pair only where it has no contended cells.
        let is_pair = |pair: &&Pair| {
            let contends = |other: &Pair| other.aggressor.is_some() && other.has_victim_of(pair);
            pair.aggressor.is_some() || !all.iter().any(|other| contends(other))
        };
        let mut pairs: Vec<Pair> = all.iter().copied().filter(is_pair).cloned().collect();
        let position = |pair: &Pair| {
            let aggressor = pair.aggressor.as_deref();
            let is_same = |one: &PlannedPair| {
                (one.sub_axis, &one.victim) == (pair.sub_axis, &pair.victim)
                    && Some(one.aggressor.as_str()) == aggressor
            };
            self.plan.pairs.iter().position(is_same)
        };
        pairs.sort_by_key(|pair| (pair.sub_axis, position(pair).unwrap_or(usize::MAX)));
        pairs
    }

    pub fn native_groups(&self, pair: &Pair) -> BTreeSet<&str> {
        let native = self
            .by_key
            .keys()
            .filter(|key| key.pair.has_victim_of(pair) && key.condition.is_native());
        native.map(|key| key.group.as_str()).collect()
    }

    /// The contended cells of this variant; `None` where none was planned.
    pub fn contended(&self, variant: &str, pair: &Pair) -> Option<&Key> {
        self.contended_at(variant, pair, 1.0)
    }

    /// The same at another dose.
    pub fn contended_at(&self, variant: &str, pair: &Pair, dose: f64) -> Option<&Key> {
        let dose = Dose::below_1(dose);
        self.by_key.keys().find(|key| {
            key.variant == variant
                && key.pair == *pair
                && key.condition == Condition::C
                && (key.dose, key.fewer) == (dose, None)
                && key.shape.is_usual()
        })
    }

    /// The group in which this variant has solo cells of the victim.
    pub fn solo_group_of(&self, variant: &str, pair: &Pair) -> Option<&str> {
        let solo = |key: &&Key| {
            key.variant == variant && key.pair.has_victim_of(pair) && key.condition == Condition::S
        };
        Some(self.by_key.keys().find(solo)?.group.as_str())
    }

    /// The cells of an unprotected form: the contended cells of the form, or cells that were
    /// planned as its condition U, which are equal. Those of `group` come first.
    pub fn unprotected(&self, form: &str, pair: &Pair, group: &str) -> Option<&Key> {
        let serving = |key: &&Key| {
            let contends = key.condition.has_aggressor() && key.is_scored();
            key.variant == form && key.pair == *pair && contends
        };
        let elsewhere = |key: &&Key| key.group != group;
        self.by_key.keys().filter(serving).min_by_key(|key| (elsewhere(key), key.condition))
    }

    /// The native cells of the same victim in the same blocks.
    pub fn native_of(&self, key: &Key) -> Key {
        Key {
            variant: self.plan.reference.clone(),
            shape: Shape::default(),
            ..key.with(Condition::N)
        }
    }

    pub fn blocks(&self, key: &Key) -> Option<&BTreeMap<u32, Planned<'a>>> {
        self.by_key.get(key)
    }
}

impl<'a> Planned<'a> {
    /// The result, if the cell counts in this reading.
    pub fn measured(&self) -> Option<&'a CellResult> {
        let put_back = self.reading == Reading::WithDisturbed;
        self.result.filter(|result| {
            result.outcome.is_measured() || put_back && result.is_excluded_for_a_disturbance()
        })
    }

    pub(super) fn failed(&self) -> bool {
        self.result.is_some_and(|result| result.outcome.outcome == OutcomeKind::Failed)
    }

    /// Why it does not count; `None` where it does.
    pub(super) fn doubt(&self) -> Option<LeftOut> {
        if self.measured().is_some() {
            return None;
        }
        let reason = self.result.and_then(|result| result.outcome.reason.as_deref());
        let (kind, what) = match self.result {
            None => (LostKind::NotMeasured, "did not run"),
            Some(result) => {
                let kind = if result.is_excluded_for_a_disturbance() {
                    LostKind::Disturbance
                } else if result.outcome.outcome == OutcomeKind::Waived {
                    LostKind::NotMeasured
                } else {
                    LostKind::Validity
                };
                (kind, reason.unwrap_or("no reason given"))
            }
        };
        let why = format!("{} {what}", self.cell.condition.as_str());
        Some(LeftOut { kind, why })
    }
}

/// The workloads of aggressors that are no victim of a contended cell.
fn aggressors(plan: &Plan) -> BTreeSet<&str> {
    let contended = || plan.cells.iter().filter(|cell| cell.condition.has_aggressor());
    let victims: BTreeSet<&str> = contended().map(|cell| cell.victim.as_str()).collect();
    let aggressors = contended().filter_map(|cell| cell.aggressor.as_deref());
    aggressors.filter(|name| !victims.contains(name)).collect()
}

// What a row measures: the pair of victim and aggressor, and one condition of it.

/// A victim and an aggressor on the sub-axis under which they are scored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub sub_axis: SubAxis,
    pub victim: String,
    /// `None` where no contended cell was planned.
    pub aggressor: Option<String>,
}

impl Pair {
    /// Whether both are the same victim on the same sub-axis.
    pub fn has_victim_of(&self, other: &Self) -> bool {
        (self.sub_axis, &self.victim) == (other.sub_axis, &other.victim)
    }
}

/// One condition of one victim under one variant, over all blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub group: String,
    pub variant: String,
    /// Without an aggressor in N and S, whose cells serve every aggressor.
    pub pair: Pair,
    /// The dose of the aggressor, where it is below 1. Scores are taken at dose 1.
    pub dose: Option<Dose>,
    /// The tenants of the cells of a sweep that has fewer than the plan. Scores use cells with all.
    pub fewer: Option<u32>,
    /// Where the cells differ from the usual ones, which give the scores.
    pub shape: Shape,
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
            shape: if contends { cell.shape } else { cell.shape.alone() },
            condition: cell.condition,
        }
    }

    /// The cells of a victim without an aggressor.
    pub fn alone(group: &str, variant: &str, pair: &Pair, condition: Condition) -> Self {
        Self {
            group: group.to_owned(),
            variant: variant.to_owned(),
            pair: Pair { aggressor: None, ..pair.clone() },
            dose: None,
            fewer: None,
            shape: Shape::default(),
            condition,
        }
    }

    /// Whether its cells have all tenants, the usual shape, and aggressors at dose 1.
    pub fn is_scored(&self) -> bool {
        self.dose.is_none() && self.fewer.is_none() && self.shape.is_usual()
    }

    /// The same victim in the same blocks, under another condition of the same variant.
    pub fn with(&self, condition: Condition) -> Self {
        let mut key = self.clone();
        key.condition = condition;
        if !condition.has_aggressor() {
            (key.pair.aggressor, key.dose, key.fewer) = (None, None, None);
            key.shape = key.shape.alone();
        }
        key
    }
}

// Which rows the cells without an aggressor serve.

/// The sub-axes that cells without an aggressor serve. One such cell serves every pair of its
/// victim; records of format 1.0 have one for each sub-axis.
pub struct Served<'a> {
    plan: &'a Plan,
    own: BTreeSet<(SubAxis, &'a str)>,
}

impl<'a> Served<'a> {
    pub fn of(plan: &'a Plan) -> Self {
        let cells = plan.cells.iter();
        let alone = cells.filter(|cell| !cell.condition.has_aggressor());
        Self { plan, own: alone.map(|cell| (cell.sub_axis, cell.victim.as_str())).collect() }
    }

    /// The sub-axis of a cell, then those of its victim that have no cells of their own.
    pub fn sub_axes(&self, cell: &Cell) -> BTreeSet<SubAxis> {
        let mut found = BTreeSet::from([cell.sub_axis]);
        if !cell.condition.has_aggressor() {
            let pairs = self.plan.pairs.iter();
            let shared = pairs
                .filter(|pair| pair.victim == cell.victim)
                .filter(|pair| !self.own.contains(&(pair.sub_axis, pair.victim.as_str())));
            found.extend(shared.map(|pair| pair.sub_axis));
        }
        found
    }
}
