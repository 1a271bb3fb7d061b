//! Printed intervals and levels against planted values.

use std::fmt;

use super::planted::{Alone, Planted};
use crate::support::TestResult;
use gpubench_record::{Condition, Estimate, Gate, GateState, RunRecord};

/// One row of a matrix and what the machine file plants.
#[derive(Debug)]
pub struct Row {
    machine: String,
    pub mechanism: String,
    planted: Figures,
    retention: Option<Estimate>,
    /// Whether the victim starved in some blocks, so that the interval is wide.
    has_starved: bool,
    /// The level, if one is decided.
    pub level: Option<String>,
    /// Distance of the planted values from the nearest boundary of levels, in half-widths.
    distance: f64,
    why: String,
}

/// The figures that decide a level.
#[derive(Debug, Clone, Copy)]
struct Figures {
    retention: f64,
    index: f64,
}

impl Figures {
    /// The table of levels for exact figures. The guarantee equals the retention, as no mechanism
    /// here costs a victim without neighbours anything.
    fn level(self) -> &'static str {
        match self.retention {
            r if r >= 0.95 => "L3",
            r if r >= 0.80 => "L2",
            _ if self.index >= 0.2 => "L1",
            _ => "L0",
        }
    }
}

/// The rows of all mechanisms that share.
pub fn rows(machine: &str, planted: &Planted, alone: &Alone, record: &RunRecord) -> Vec<Row> {
    let mut found = Vec::new();
    for row in &record.matrix {
        let Some(retention) = planted.retention(&row.mechanism, alone) else {
            continue;
        };
        let is_sliced = row.mechanism == "time-slicing";
        let unprotected = if is_sliced { "time-slicing" } else { "mps" };
        let of_u = planted.retention(unprotected, alone).unwrap_or(1.0);
        let figures = Figures { retention, index: 1.0 - retention.ln() / of_u.ln() };
        let outcome = row.outcome.reason.clone().unwrap_or_default();
        let has_starved = record.cells.iter().any(|cell| {
            cell.cell.mechanism == row.mechanism
                && cell.cell.condition == Condition::C
                && cell.gate_state(&Gate::ClosedRate) == Some(GateState::NotEvaluated)
        });
        found.push(Row {
            machine: machine.to_owned(),
            mechanism: row.mechanism.clone(),
            planted: figures,
            retention: row.retention.clone(),
            has_starved,
            // Of a row that straddles a boundary both levels are printed.
            level: row.level.clone().filter(|level| !level.contains("..")),
            distance: distance(figures, row.retention.as_ref(), row.isolation_index.as_ref()),
            why: format!("{outcome} {:?}", row.warnings),
        });
    }
    found
}

fn distance(planted: Figures, retention: Option<&Estimate>, index: Option<&Estimate>) -> f64 {
    let half_widths = |value: f64, boundary: f64, found: Option<&Estimate>| {
        let half = found.map_or(f64::INFINITY, |found| (found.hi - found.lo) / 2.0);
        (value - boundary).abs() / half
    };
    let of_retention = [0.80, 0.95].map(|b| half_widths(planted.retention, b, retention));
    let nearest = of_retention.into_iter().fold(f64::INFINITY, f64::min);
    if planted.retention < 0.80 {
        nearest.min(half_widths(planted.index, 0.2, index))
    } else {
        nearest
    }
}

impl Row {
    fn is_covered(&self) -> Option<bool> {
        let found = self.retention.as_ref()?;
        Some((found.lo..=found.hi).contains(&self.planted.retention))
    }

    fn is_wrong(&self) -> bool {
        let level = self.level.as_deref();
        level.is_some_and(|level| level != self.planted.level())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { retention, index } = self.planted;
        let found = self.retention.as_ref();
        let interval = found.map_or("no interval".to_owned(), |found| {
            format!("{:.4} [{:.4}, {:.4}]", found.value, found.lo, found.hi)
        });
        let verdict = match (self.is_covered(), self.is_wrong()) {
            (_, true) => "WRONG LEVEL",
            (Some(false), _) => "NOT COVERED",
            (Some(true), _) => "ok",
            (None, _) => "no interval",
        };
        write!(
            f,
            "{verdict}: {} {}: planted {retention:.4} (index {index:.2}, {}), measured {interval}, \
             {}, {:.1} half-widths from a boundary: {}",
            self.machine,
            self.mechanism,
            self.planted.level(),
            self.level.as_deref().unwrap_or("undecided"),
            self.distance,
            self.why
        )
    }
}

/// Counts over rows.
#[derive(Debug)]
pub struct Tally {
    rows: u64,
    starved: u64,
    starved_covered: u64,
    /// Of the other rows.
    intervals: u64,
    covered: u64,
    decided: u64,
    wrong: u64,
    wrong_far: u64,
}

impl Tally {
    pub fn of(rows: &[Row]) -> Self {
        let count = |of: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count() as u64;
        Self {
            rows: rows.len() as u64,
            starved: count(&|row| row.has_starved),
            starved_covered: count(&|row| row.has_starved && row.is_covered() == Some(true)),
            intervals: count(&|row| !row.has_starved && row.retention.is_some()),
            covered: count(&|row| !row.has_starved && row.is_covered() == Some(true)),
            decided: count(&|row| row.level.is_some()),
            wrong: count(&Row::is_wrong),
            wrong_far: count(&|row| row.is_wrong() && row.distance > 3.0),
        }
    }

    /// The counts are possible where intervals cover 95 % of planted values and 2.5 % of decided
    /// rows are wrong: rarer ones have a probability below 0.1 %. Intervals of starved victims
    /// always do: they are as wide as one completion.
    pub fn check(&self) -> TestResult {
        let intervals = self.intervals;
        let is_rare = |ways: f64| ways < 1e-3;
        let too_few = is_rare(at_most(self.covered, intervals, 0.95));
        let too_many = is_rare(at_most(intervals - self.covered, intervals, 0.05));
        let too_wrong = is_rare(1.0 - at_most(self.wrong.saturating_sub(1), self.decided, 0.025))
            && self.wrong > 0;
        let few_decided = 10 * self.decided < 8 * self.rows;
        let is_broken = self.starved_covered < self.starved || self.wrong_far > 0;
        if self.rows == 0 || too_few || too_many || too_wrong || few_decided || is_broken {
            return Err(format!("{self}").into());
        }
        Ok(())
    }
}

/// The probability of at most `k` successes of `n`.
fn at_most(k: u64, n: u64, chance: f64) -> f64 {
    let ln_choose = |k: u64| -> f64 { (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum() };
    let ln = |i: u64| ln_choose(i) + i as f64 * chance.ln() + (n - i) as f64 * (1.0 - chance).ln();
    (0..=k).map(|i| ln(i).exp()).sum()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pct = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        write!(
            f,
            "{} rows, {} of {} intervals of starved victims and {} of {} others hold the \
             planted retention ({:.1} %), {} rows decided, {} of them wrong ({:.1} %), {} of \
             these more than 3 half-widths from a boundary",
            self.rows,
            self.starved_covered,
            self.starved,
            self.covered,
            self.intervals,
            pct(self.covered, self.intervals),
            self.decided,
            self.wrong,
            pct(self.wrong, self.decided),
            self.wrong_far
        )
    }
}
