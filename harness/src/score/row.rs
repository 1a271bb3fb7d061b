//! A row of the matrix while it is filled: its figures, its doubts, and the outcome that follows.

mod blocks;

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Axis, BLOCKS_MIN, Estimate, Gate, MatrixRow, MechanismRow, Outcome, Parts, counted,
};

use super::Context;
use super::boundary::Straddled;
use super::controls::Repetition;
use super::level::LevelRange;
use super::word::not_proven;
use crate::figures::{LeftOut, Pair, Pairs};
use crate::gate::findings_of;

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
    /// The A/A pair of the solo rate.
    pub repetition: Option<Repetition>,
    /// Whether this device lacks what the pair needs. The axis is complete without such a row.
    pub cannot_run_here: bool,
    /// Why the row cannot be trusted.
    doubts: Vec<String>,
    /// By gate, the cells in which it failed without spoiling a figure, with the detail of each.
    findings: BTreeMap<Gate, BTreeMap<String, String>>,
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
            for gate in findings_of(cell) {
                let cells = self.findings.entry(gate.gate.clone()).or_default();
                cells.insert(cell.cell.id.clone(), gate.detail.clone());
            }
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
        for (gate, cells) in std::mem::take(&mut self.findings) {
            if let Some((first, detail)) = cells.first_key_value() {
                let count = counted(cells.len(), "cell");
                self.warn(format!("{gate} in {count}, first {first}: {detail}"));
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
