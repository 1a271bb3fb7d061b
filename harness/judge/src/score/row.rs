//! A row of the matrix while it is filled: its figures, its doubts, and the outcome that follows.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Axis, BLOCKS_MIN, BlocksLost, Estimate, Gate, GateResult, LostBlock, LostKind, MatrixRow,
    MechanismRow, Outcome, Parts, Plan, SubAxis, counted,
};

use super::Context;
use super::level::{LevelRange, Straddled};
use super::reference::Repetition;
use super::word::not_proven;
use crate::figures::{LeftOut, Pair, Pairs};
use crate::gate::{findings_of, unevaluated_of};

/// One row, with what the overall level needs of it.
#[derive(Debug)]
pub(super) struct Row {
    pub matrix: MatrixRow,
    pub axis: Axis,
    /// The levels that the intervals leave open; `None` where the row has no level.
    pub range: Option<LevelRange>,
    /// The same, whatever else is in doubt.
    pub of_intervals: Option<LevelRange>,
    /// The blocks at which its intervals would no longer straddle a bound; `None` where they
    /// straddle none, and where no number is enough.
    pub blocks_wanted: Option<u32>,
    pub repetition: Option<Repetition>,
    /// Whether this device lacks what the pair needs. The axis is complete without such a row.
    pub cannot_run_here: bool,
    /// Why the row cannot be trusted.
    doubts: Vec<String>,
    /// By gate, the cells in which it failed without spoiling a figure, with the detail of each.
    findings: BTreeMap<Gate, Findings>,
    /// The same of gates that were not evaluated.
    unevaluated: BTreeMap<Gate, Findings>,
    /// Whether there are too few blocks because a cell failed.
    failed: bool,
    /// The planned blocks of its deciding figures, and those that they leave out.
    planned: BTreeSet<u32>,
    left_out: BTreeMap<u32, LeftOut>,
}

impl Row {
    pub(super) fn new(
        context: &Context<'_>,
        mechanism: &str,
        variant: &str,
        axis: Axis,
        pair: Option<&Pair>,
    ) -> Self {
        let matrix = MatrixRow {
            mechanism: mechanism.to_owned(),
            variant: variant.to_owned(),
            axis: axis.as_str().to_owned(),
            sub_axis: pair.map(|pair| pair.sub_axis.as_str().to_owned()),
            victim: pair.map(|pair| pair.victim.clone()),
            aggressor: None,
            outcome: Outcome::measured(),
            warnings: Vec::new(),
            level: None,
            word: None,
            claimed: context.claimed(mechanism, axis),
            u_kind: None,
            retention: None,
            guarantee: None,
            efficiency: None,
            effectiveness: None,
            isolation_index: None,
            jitter: None,
            tail_at_load: None,
            survival: None,
            overshoot: None,
            clock_part: None,
            requests: 0,
            blocks_lost: None,
        };
        Self {
            matrix,
            axis,
            range: None,
            of_intervals: None,
            blocks_wanted: None,
            repetition: None,
            cannot_run_here: false,
            doubts: Vec::new(),
            findings: BTreeMap::new(),
            unevaluated: BTreeMap::new(),
            failed: false,
            planned: BTreeSet::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// A row of this mechanism. It takes over the outcome of a mechanism that did not run, and the
    /// doubts about a mechanism or a reference that was not proven in force.
    pub(super) fn of_mechanism(
        context: &Context<'_>,
        mechanism: &MechanismRow,
        axis: Axis,
        pair: Option<&Pair>,
    ) -> Self {
        let mut row = Self::new(context, &mechanism.name, &mechanism.variant, axis, pair);
        row.matrix.outcome = mechanism.outcome.clone();
        let waived = |pair: &Pair| {
            let aggressor = pair.aggressor.as_deref().filter(|_| !context.is_reference(mechanism));
            context.input.calibration.waived(&pair.victim, aggressor)
        };
        if row.matrix.outcome.is_measured()
            && let Some(reason) = pair.and_then(waived)
        {
            row.matrix.outcome = Outcome::waived(reason);
            row.cannot_run_here = true;
        }
        if let Some(doubt) = not_proven(mechanism) {
            row.doubt(doubt);
        }
        if let Some(doubt) = context.reference().and_then(not_proven) {
            row.doubt(format!("the reference: {doubt}"));
        }
        row
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.matrix.warnings.push(warning.into());
    }

    /// Adds a reason why the row cannot be trusted.
    pub(super) fn doubt(&mut self, doubt: impl Into<String>) {
        let doubt = doubt.into();
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    pub(super) fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Keeps the findings of the cells behind a figure.
    pub(super) fn find(&mut self, pairs: &Pairs<'_>) {
        let cells = pairs.measured.iter();
        for cell in cells.flat_map(|(_, top, bottom)| [top, bottom]) {
            let key = (cell.cell.variant != self.matrix.variant, cell.cell.id.clone());
            keep(&mut self.findings, &key, findings_of(cell));
            keep(&mut self.unevaluated, &key, unevaluated_of(cell));
        }
    }

    /// Checks that a figure has enough blocks for an interval.
    pub(super) fn count(&mut self, what: &str, pairs: &Pairs<'_>) {
        self.find(pairs);
        let (have, need) = (pairs.measured.len(), BLOCKS_MIN as usize);
        if have < need {
            self.failed |= pairs.any_failed;
            let why = pairs.left_out.values().next();
            let why = why.map_or(String::new(), |one| format!(" ({})", one.why));
            self.doubt(format!(
                "{what} rests on {}, {need} are needed{why}",
                counted(have, "block")
            ));
        }
    }

    /// A figure; where it could not be computed, the reason becomes a doubt.
    pub(super) fn take<E: std::fmt::Display>(
        &mut self,
        what: &str,
        figure: Result<Estimate, E>,
    ) -> Option<Estimate> {
        match figure {
            Ok(estimate) => Some(estimate),
            Err(error) => {
                self.doubt(format!("no {what}: {error}"));
                None
            }
        }
    }

    /// Sets the levels that the intervals leave open; `straddled` has the bounds that they
    /// straddle.
    pub(super) fn set_range(&mut self, range: LevelRange, straddled: Vec<Straddled>) {
        self.of_intervals = Some(range);
        self.range = Some(range);
        self.matrix.level = Some(range.to_string());
        if range.decided().is_none() {
            let blocks: Option<Vec<u32>> = straddled.iter().map(|one| one.blocks).collect();
            self.blocks_wanted = blocks.and_then(|blocks| blocks.into_iter().max());
            let why: Vec<String> = straddled.into_iter().map(|one| one.text).collect();
            let why = if why.is_empty() {
                "the intervals do not separate these levels".to_owned()
            } else {
                why.join("; ")
            };
            self.doubt(format!("{range}: {why}"));
        }
    }

    /// Doubts a finished row, whose level is then one of `range`.
    pub(super) fn retract(&mut self, why: &str, range: Option<LevelRange>) {
        self.range = range;
        self.matrix.level = range.map(|range| range.to_string());
        self.matrix.word = None;
        let known = self.matrix.outcome.reason.take();
        let reason = known.map_or_else(|| why.to_owned(), |known| format!("{known}; {why}"));
        self.matrix.outcome = Outcome::inconclusive(reason);
    }

    /// The finished row. Any doubt makes it inconclusive; it is failed where a cell failed.
    pub(super) fn finish(mut self) -> Self {
        let findings = std::mem::take(&mut self.findings).into_iter().map(|one| ("", one));
        let unevaluated = std::mem::take(&mut self.unevaluated).into_iter();
        let unevaluated = unevaluated.map(|one| (NOT_EVALUATED, one));
        let mechanism = format!("-{}-", self.matrix.mechanism);
        for (what, (gate, cells)) in findings.chain(unevaluated) {
            // A cell of the mechanism itself, where one of the reference or unprotected has it too.
            let own = cells.iter().find(|((_, id), _)| id.contains(&mechanism));
            if let Some(((_, first), detail)) = own.or(cells.first_key_value()) {
                let count = counted(cells.len(), "cell");
                self.warn(format!("{gate}{what} in {count}, first {first}: {detail}"));
            }
        }
        self.name_lost_blocks();
        self.name_unknown_parts();
        if self.matrix.outcome.is_measured() && self.is_doubtful() {
            let why = self.doubts.join("; ");
            self.matrix.outcome =
                if self.failed { Outcome::failed(why) } else { Outcome::inconclusive(why) };
        }
        self
    }

    fn name_unknown_parts(&mut self) {
        let unknown = |parts: &Parts| parts.sys_lo.is_none();
        let is_unknown = |figure: &Estimate| figure.parts.as_ref().is_some_and(unknown);
        if self.matrix.figures().into_iter().flatten().any(is_unknown) {
            self.warn(
                "intervals have their statistical part only: the cells have no counts of what \
                 disturbances did (formats before 2.3, users' programs)",
            );
        }
    }
}

/// What a row says of gates that its cells could not be held against.
pub(super) const NOT_EVALUATED: &str = " was not evaluated";

/// The details of a gate by cell: first the cells of the row's own variant, then those of the
/// mechanisms that it is compared with.
type Findings = BTreeMap<(bool, String), String>;

/// Adds the gates of a cell.
fn keep<'a>(
    to: &mut BTreeMap<Gate, Findings>,
    key: &(bool, String),
    gates: impl Iterator<Item = &'a GateResult>,
) {
    for gate in gates {
        to.entry(gate.gate.clone()).or_default().insert(key.clone(), gate.detail.clone());
    }
}

// The blocks that the deciding figures of a row rest on, and those that they leave out.

/// Blocks that a warning names.
const NAMED_MAX: usize = 4;
/// Share of lost blocks from which a row mentions them.
const LOST_MENTIONED: f64 = 0.25;

impl Row {
    /// The same of a figure that decides the level. A row that lost more than half of its blocks to
    /// cells that were not what they should be is in doubt.
    pub(in crate::score) fn decide_by(&mut self, what: &str, pairs: &Pairs<'_>) {
        self.count(what, pairs);
        let measured = pairs.measured.iter().map(|(block, _, _)| *block);
        self.planned.extend(measured.chain(pairs.left_out.keys().copied()));
        for (block, left_out) in &pairs.left_out {
            let known = self.left_out.get(block);
            if known.is_none_or(|known| known.kind < left_out.kind) {
                self.left_out.insert(*block, left_out.clone());
            }
        }
        let invalid = |one: &&LeftOut| one.kind == LostKind::Validity;
        let invalid = pairs.left_out.values().filter(invalid);
        let (cost, all) = (invalid.clone().count(), pairs.measured.len() + pairs.left_out.len());
        if 2 * cost > all {
            self.failed |= pairs.any_failed;
            let why = invalid.clone().next().map_or("", |one| one.why.as_str());
            self.doubt(format!(
                "{what} has {cost} of {} with a cell that is not valid ({why})",
                counted(all, "block")
            ));
        }
    }

    /// Blocks that its deciding figures leave out for a disturbance, in words.
    pub(in crate::score) fn disturbed_blocks(&self) -> Option<String> {
        let disturbed = |(_, one): &(&u32, &LeftOut)| one.kind == LostKind::Disturbance;
        named(self.left_out.iter().filter(disturbed))
    }

    fn name_lost_blocks(&mut self) {
        if self.left_out.is_empty() {
            return;
        }
        let (lost, planned) = (self.left_out.len(), self.planned.len());
        if lost as f64 >= LOST_MENTIONED * planned as f64 {
            let blocks = named(self.left_out.iter()).unwrap_or_default();
            self.warn(format!("{lost} of {planned} blocks are left out: {blocks}"));
        }
        let blocks = self.left_out.iter().map(|(block, one)| LostBlock {
            block: *block,
            kind: one.kind,
            reason: one.why.clone(),
        });
        self.matrix.blocks_lost = Some(BlocksLost {
            planned: u32::try_from(planned).unwrap_or(u32::MAX),
            lost: blocks.collect(),
        });
    }
}

/// The first of these blocks with their reasons; `None` where there is none.
fn named<'a>(blocks: impl Iterator<Item = (&'a u32, &'a LeftOut)>) -> Option<String> {
    let all: Vec<String> =
        blocks.map(|(block, one)| format!("block {block}: {}", one.why)).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let first = all.into_iter().take(NAMED_MAX).collect::<Vec<_>>();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("{}{more}", first.join("; ")))
}

// Cells that a disturbance excludes must not choose the verdict: the level is computed a second
// time with all of them, and a row whose level differs is inconclusive.

/// Compares the printed rows with those of the second reading, which are in the same order.
pub(super) fn compare(rows: &mut [Row], again: &[Row]) {
    for (row, again) in rows.iter_mut().zip(again) {
        let Some(level) = row.range.filter(|range| range.decided().is_some()) else {
            continue;
        };
        let other = again.of_intervals;
        let Some(blocks) = row.disturbed_blocks().filter(|_| other != Some(level)) else {
            continue;
        };
        let found = other.map_or("without a level".to_owned(), |other| format!("at {other}"));
        let why = format!(
            "the level {level} rests on leaving out what a disturbance moved: with {blocks} the \
             row is {found}"
        );
        row.retract(&why, other.map(|other| level.with(other)));
    }
}

// What the profile requests of the scores: its axes, of those that the plan has cells of.

/// The pairs that the profile requests and the plan has cells of.
pub(super) struct Requested {
    pub(super) pairs: Vec<Pair>,
    /// The pairs that give the jitter, and those beside which none is measured.
    pub(super) jitter: Vec<Pair>,
    pub(super) without_jitter: Vec<Pair>,
}

impl Requested {
    pub(super) fn of(context: &Context<'_>) -> Self {
        let planned = context.cells.pairs();
        let plan = context.input.plan;
        // Probes of memory and victims with answering codes have no latencies of this kind.
        let contended = planned.iter().filter(|pair| pair.aggressor.is_some());
        let contended =
            contended.filter(|pair| requests(plan, "jitter") && has_latency(plan, pair));
        let (jitter, without_jitter) =
            contended.cloned().partition(|pair| plan.has_jitter_of(pair.sub_axis));
        let is_requested = |pair: &Pair| {
            let axis = pair.sub_axis.axis().as_str();
            requests(plan, axis) || requests(plan, &format!("{axis}/{}", pair.sub_axis.as_str()))
        };
        let pairs = planned.into_iter().filter(is_requested).collect();
        Self { pairs, jitter, without_jitter }
    }
}

/// Whether requests of this victim are work, and not calls that the driver answers.
fn has_latency(plan: &Plan, pair: &Pair) -> bool {
    let facts = plan.workloads.get(&pair.victim);
    facts.is_none_or(|facts| facts.answering_codes.is_empty())
        && !matches!(pair.sub_axis, SubAxis::Power)
}

/// Whether scores have rows of jitter.
pub fn plans_jitter(plan: &Plan) -> bool {
    let mut pairs = plan.pairs.iter();
    requests(plan, "jitter") && pairs.any(|pair| plan.has_jitter_of(pair.sub_axis))
}

/// Whether the profile requests this axis or sub-axis. A record without a list requests all.
pub(super) fn requests(plan: &Plan, name: &str) -> bool {
    plan.axes.is_empty() || plan.axes.iter().any(|axis| axis == "all" || axis == name)
}

// The rows that more blocks would decide, with the number of blocks that the spread of each asks
// for.

/// A row that more blocks would decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straddling {
    pub row: usize,
    pub blocks: u32,
    /// The blocks that its spread asks for: an upper estimate, because a t interval of more blocks
    /// has a smaller t.
    pub blocks_wanted: u32,
}

/// The rows whose interval straddles a bound of levels and would not with more blocks.
pub(super) fn of(rows: &[Row]) -> Vec<Straddling> {
    let wanted = |(place, row): (usize, &Row)| {
        let wanted = row.blocks_wanted?;
        let Some(retention) = &row.matrix.retention else {
            // Its groups hold as many of the blocks each.
            let (groups, blocks) = (row.matrix.jitter.as_ref()?.n, row.planned.len() as u32);
            let wanted = (u64::from(wanted) * u64::from(blocks)).div_ceil(groups.max(1).into());
            let blocks_wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            return Some(Straddling { row: place, blocks, blocks_wanted });
        };
        Some(Straddling { row: place, blocks: retention.n, blocks_wanted: wanted })
    };
    rows.iter().enumerate().filter_map(wanted).collect()
}
