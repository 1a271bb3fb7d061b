//! A row of the matrix while it is filled: its figures, its doubts, and the outcome that follows.

use std::collections::BTreeMap;

use gpubench_record::{Axis, Estimate, Gate, MatrixRow, MechanismRow, Outcome};

use super::Context;
use super::cells::{Pair, Pairs};
use super::level::LevelRange;
use super::word::not_proven;
use crate::gate::findings_of;

/// Blocks that a warning names.
const NAMED_MAX: usize = 4;

/// One row, with what the overall level needs of it.
#[derive(Debug)]
pub(super) struct Row {
    pub matrix: MatrixRow,
    pub axis: Axis,
    /// The levels that the intervals leave open; `None` where the row has no level.
    pub range: Option<LevelRange>,
    /// Whether this device lacks what the pair needs. The axis is complete without such a row.
    pub cannot_run_here: bool,
    /// Why the row cannot be trusted.
    doubts: Vec<String>,
    /// By gate, the cells in which it failed without spoiling a figure, with the detail of each.
    findings: BTreeMap<Gate, BTreeMap<String, String>>,
    /// Whether there are too few blocks because a cell failed.
    failed: bool,
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
            requests: 0,
        };
        Self {
            matrix,
            axis,
            range: None,
            cannot_run_here: false,
            doubts: Vec::new(),
            findings: BTreeMap::new(),
            failed: false,
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
            let aggressor = pair
                .aggressor
                .as_deref()
                .filter(|_| !context.is_reference(mechanism));
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
    fn find(&mut self, pairs: &Pairs<'_>) {
        let cells = pairs.measured.iter();
        for cell in cells.flat_map(|(_, top, bottom)| [top, bottom]) {
            for gate in findings_of(cell) {
                let cells = self.findings.entry(gate.gate.clone()).or_default();
                cells.insert(cell.cell.id.clone(), gate.detail.clone());
            }
        }
    }

    /// Checks that a figure has enough blocks, and names the blocks that are left out.
    pub(super) fn count(&mut self, what: &str, pairs: &Pairs<'_>, context: &Context<'_>) {
        self.find(pairs);
        let left_out = &pairs.left_out;
        if !left_out.is_empty() {
            let named: Vec<String> = left_out
                .iter()
                .take(NAMED_MAX)
                .map(|(block, why)| format!("block {block}: {why}"))
                .collect();
            let more = left_out.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            self.warn(format!("{what} leaves out {}{more}", named.join("; ")));
        }
        let (have, need) = (pairs.measured.len(), context.blocks_min as usize);
        if have < need {
            self.failed |= pairs.any_failed;
            let why = left_out
                .values()
                .next()
                .map_or(String::new(), |why| format!(" ({why})"));
            self.doubt(format!(
                "{what} rests on {have} blocks, {need} are needed{why}"
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

    /// Sets the levels that the intervals leave open; `straddled` names the bounds that they
    /// straddle.
    pub(super) fn set_range(&mut self, range: LevelRange, straddled: Vec<String>) {
        self.range = Some(range);
        self.matrix.level = Some(range.to_string());
        if range.decided().is_none() {
            let why = if straddled.is_empty() {
                "the intervals do not separate these levels".to_owned()
            } else {
                straddled.join("; ")
            };
            self.doubt(format!("{range}: {why}"));
        }
    }

    /// The finished row. Any doubt makes it inconclusive; it is failed where a cell failed.
    pub(super) fn finish(mut self) -> Self {
        for (gate, cells) in std::mem::take(&mut self.findings) {
            if let Some((first, detail)) = cells.first_key_value() {
                let count = cells.len();
                self.warn(format!("{gate} in {count} cells, first {first}: {detail}"));
            }
        }
        if self.matrix.outcome.is_measured() && self.is_doubtful() {
            let why = self.doubts.join("; ");
            self.matrix.outcome = if self.failed {
                Outcome::failed(why)
            } else {
                Outcome::inconclusive(why)
            };
        }
        self
    }
}
