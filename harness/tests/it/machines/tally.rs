//! How often intervals hold planted values, and levels are those of planted values.

use std::collections::BTreeMap;
use std::fmt;

use super::rows::{Kind, Row};
use crate::support::TestResult;

/// The rows of one kind.
#[derive(Debug)]
pub struct Tally {
    kind: Kind,
    rows: u64,
    starved: u64,
    starved_covered: u64,
    /// Of the other rows.
    intervals: u64,
    covered: u64,
    decided: u64,
    wrong: u64,
    wrong_far: u64,
    machines: u64,
    /// Machines with a planted value in every printed interval, and in that of one row, which the
    /// seed of the machine draws.
    all_in_print: u64,
    one_in_print: u64,
    /// Pairs of rows of one machine with equal planted values and decided levels.
    equal: u64,
    equal_apart: u64,
}

/// Planted values that differ by less are equal: noise moves a planted jitter of zero by that.
const EQUAL: f64 = 2e-3;

impl Tally {
    pub fn of(kind: Kind, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        let count = |of: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count() as u64;
        let mut machines: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.found.is_some()) {
            machines.entry(row.machine).or_default().push(row);
        }
        let number = |of: &dyn Fn(u64, &[&Row]) -> bool| {
            machines.iter().filter(|(seed, rows)| of(**seed, rows)).count() as u64
        };
        let pairs: Vec<bool> = machines.values().flat_map(|rows| equal_pairs(rows)).collect();
        Self {
            kind,
            rows: rows.len() as u64,
            starved: count(&|row| row.has_starved),
            starved_covered: count(&|row| row.has_starved && row.is_covered() == Some(true)),
            intervals: count(&|row| !row.has_starved && row.found.is_some()),
            covered: count(&|row| !row.has_starved && row.is_covered() == Some(true)),
            decided: count(&|row| row.level.is_some()),
            wrong: count(&Row::is_wrong),
            wrong_far: count(&|row| row.is_wrong() && row.distance > 3.0),
            machines: machines.len() as u64,
            all_in_print: number(&|_, rows| rows.iter().all(|row| row.is_in_print())),
            one_in_print: number(&|seed, rows| rows[seed as usize % rows.len()].is_in_print()),
            equal: pairs.len() as u64,
            equal_apart: pairs.iter().filter(|is_equal| !**is_equal).count() as u64,
        }
    }

    /// The counts are possible where intervals cover 95 % of planted values and 2.5 % of decided
    /// rows are wrong: rarer ones have a probability below 0.1 %. Intervals of starved victims
    /// always do: they are as wide as one completion. Those of proportions cover more than 95 %,
    /// and so do those of a jitter of zero. Of 40 machines 34 or more have their value in the
    /// printed interval of a row. A request that lasts many times longer beside the aggressor than
    /// alone leaves too few for a jitter; that is rare.
    pub fn check(&self) -> TestResult {
        let Self { intervals, covered, machines, .. } = *self;
        let is_rare = |ways: f64| ways < 1e-3;
        let is_retention = self.kind == Kind::Retention;
        let too_few = is_rare(at_most(covered, intervals, 0.95))
            || is_rare(at_most(self.one_in_print, machines, 0.95))
            || machines == 40 && self.one_in_print < 34;
        let too_many = is_retention && is_rare(at_most(intervals - covered, intervals, 0.05));
        let too_wrong = is_rare(1.0 - at_most(self.wrong.saturating_sub(1), self.decided, 0.025))
            && self.wrong > 0;
        // Few trials leave levels open.
        let is_of_trials = self.kind == Kind::Containment;
        let few_decided = !is_of_trials && 10 * self.decided < 8 * (self.starved + intervals);
        let is_broken = self.starved_covered < self.starved
            || self.rows - self.starved - intervals > 1 + self.rows / 20
            || self.wrong_far > 0
            || self.equal_apart > 0;
        if self.rows == 0 || too_few || too_many || too_wrong || few_decided || is_broken {
            return Err(format!("{self}").into());
        }
        Ok(())
    }
}

/// Of each pair of rows of one machine with equal planted values and decided levels, whether the
/// levels are equal.
fn equal_pairs(rows: &[&Row]) -> Vec<bool> {
    let decided: Vec<&&Row> = rows.iter().filter(|row| row.level.is_some()).collect();
    let pairs = decided.iter().enumerate().flat_map(|(at, one)| {
        let others = decided[at + 1..].iter();
        others
            .filter(|other| (one.planted - other.planted).abs() < EQUAL)
            .map(move |other| [one, other])
    });
    pairs.map(|[one, other]| one.level == other.level).collect()
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
            "{}: {} rows, {} of {} intervals of starved victims and {} of {} others hold the \
             planted value ({:.1} %), {} rows decided, {} of them wrong ({:.1} %), {} of these \
             more than 3 half-widths from a boundary; of {} machines {} have it in every printed \
             interval and {} in that of the drawn row; {} of {} pairs of equal values have \
             different levels",
            self.kind.name(),
            self.rows,
            self.starved_covered,
            self.starved,
            self.covered,
            self.intervals,
            pct(self.covered, self.intervals),
            self.decided,
            self.wrong,
            pct(self.wrong, self.decided),
            self.wrong_far,
            self.machines,
            self.all_in_print,
            self.one_in_print,
            self.equal_apart,
            self.equal
        )
    }
}
