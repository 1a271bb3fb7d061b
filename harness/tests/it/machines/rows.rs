//! Rows of records beside planted values: whether the interval holds the value, and the level.

use std::fmt;

use gpubench_record::{Condition, Ends, Estimate, Gate, GateState, MatrixRow, RunRecord};

use super::faults::contained;
use super::jitter::jitter;
use super::planted::{Alone, Planted};
use crate::support::Error;

/// What a machine file plants a value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Retention,
    Jitter,
    /// The proportion of contained faults.
    Containment,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Retention, Self::Jitter, Self::Containment];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Jitter => "jitter",
            Self::Containment => "containment",
        }
    }

    /// Of levels, rising. Where no fault is contained, few of many may be.
    const fn bounds(self) -> &'static [f64] {
        match self {
            Self::Retention => &[0.60, 0.80, 0.95],
            Self::Jitter => &[0.10, 0.50],
            Self::Containment => &[0.20, 0.80, 0.95],
        }
    }

    /// The levels that an exact value may have. The guarantee equals the retention, as no mechanism
    /// here costs a victim without neighbours anything. L0 of faults takes that none is contained,
    /// and trials cannot tell a small chance from none.
    fn levels(self, planted: f64) -> &'static [&'static str] {
        let reached = self.bounds().iter().filter(|bound| planted >= **bound).count();
        match self {
            Self::Retention => [&["L0"], &["L1"], &["L2"], &["L3"]][reached],
            Self::Jitter if planted <= 0.10 => &["L3"],
            Self::Jitter if planted <= 0.50 => &["L2"],
            Self::Jitter => &["L0"],
            Self::Containment if planted == 0.0 => &["L0"],
            Self::Containment => [&["L0", "L1"][..], &["L1"], &["L2"], &["L3"]][reached],
        }
    }
}

/// One row of a matrix and what the machine file plants.
#[derive(Debug)]
pub struct Row {
    pub machine: u64,
    pub kind: Kind,
    mechanism: String,
    pub planted: f64,
    pub found: Option<Estimate>,
    /// Whether the victim starved in some blocks, so that the interval is wide.
    pub has_starved: bool,
    /// The level, if one is decided.
    pub level: Option<String>,
    /// Distance of the planted value from the nearest bound of levels, in half-widths.
    pub distance: f64,
    why: String,
}

/// The rows of a record that have a planted value. Fails where the report of the record does not
/// print their intervals.
pub fn rows(
    planted: &Planted,
    alone: &Alone,
    record: &RunRecord,
    report: &str,
) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    for row in &record.matrix {
        let is_of_axis = row.sub_axis.as_ref().is_some_and(|sub| planted.axis.ends_with(sub));
        let (kind, value) = if row.axis_path() == planted.axis {
            (Kind::Retention, planted.retention(&row.mechanism, alone))
        } else if row.axis == "jitter" && is_of_axis {
            let pause_us = pause_us(planted, record, row).ok_or("no pause of single requests")?;
            (Kind::Jitter, jitter(planted, &row.mechanism, alone, pause_us))
        } else if row.axis == "fault" {
            (Kind::Containment, contained(planted, &row.mechanism))
        } else {
            continue;
        };
        found.extend(value.map(|value| Row::of(planted, record, row, kind, value)));
    }
    let mut intervals = found.iter().filter_map(|row| Some(printed(row.found.as_ref()?).0));
    if let Some(absent) = intervals.find(|interval| !report.contains(interval)) {
        return Err(format!("the report does not print {absent}").into());
    }
    Ok(found)
}

/// The mean pause before single requests beside the aggressor, as the record has it.
fn pause_us(planted: &Planted, record: &RunRecord, row: &MatrixRow) -> Option<f64> {
    let mut cells = record.cells.iter().map(|cell| &cell.cell);
    let cell = cells.find(|cell| {
        cell.mechanism == row.mechanism
            && cell.condition == Condition::C
            && planted.axis.ends_with(cell.sub_axis.as_str())
            && cell.sparse.is_some()
    })?;
    Some(cell.sparse?.pause_ns as f64 / 1e3)
}

impl Row {
    fn of(of: &Planted, record: &RunRecord, row: &MatrixRow, kind: Kind, planted: f64) -> Self {
        let found = match kind {
            Kind::Retention => &row.retention,
            Kind::Jitter => &row.jitter,
            Kind::Containment => &row.survival,
        };
        let has_starved = record.cells.iter().any(|cell| {
            cell.cell.mechanism == row.mechanism
                && cell.cell.condition == Condition::C
                && of.axis.ends_with(cell.cell.sub_axis.as_str())
                && cell.gate_state(&Gate::ClosedRate) == Some(GateState::NotEvaluated)
        });
        let half = found.as_ref().map_or(f64::INFINITY, |found| (found.hi - found.lo) / 2.0);
        let bounds = kind.bounds().iter().map(|bound| (planted - bound).abs() / half);
        let outcome = row.outcome.reason.clone().unwrap_or_default();
        Self {
            machine: of.seed,
            kind,
            mechanism: row.mechanism.clone(),
            planted,
            found: found.clone(),
            has_starved: kind == Kind::Retention && has_starved,
            // Of a row that straddles a boundary both levels are printed.
            level: row.level.clone().filter(|level| !level.contains("..")),
            distance: bounds.fold(f64::INFINITY, f64::min),
            why: format!("{outcome} {:?}", row.warnings),
        }
    }

    pub fn is_covered(&self) -> Option<bool> {
        let found = self.found.as_ref()?;
        Some((found.lo..=found.hi).contains(&self.planted))
    }

    /// Whether the interval as reports print it holds the planted value.
    pub fn is_in_print(&self) -> bool {
        self.found.as_ref().is_some_and(|found| {
            let (_, [lo, hi]) = printed(found);
            (lo..=hi).contains(&self.planted)
        })
    }

    pub fn is_wrong(&self) -> bool {
        let level = self.level.as_deref();
        level.is_some_and(|level| !self.kind.levels(self.planted).contains(&level))
    }
}

/// The interval as reports print it, and its ends there: rounded outwards to three decimals, or to
/// as many as three digits of a small end need, five at most.
fn printed(found: &Estimate) -> (String, [f64; 2]) {
    let outwards = |end: f64, sign: f64| {
        let size = end.abs();
        let decimals =
            (3..5).find(|decimals| size == 0.0 || size * 10_f64.powi(*decimals) >= 100.0);
        let text = gpubench_show::outwards(end, sign, decimals.unwrap_or(5) as usize);
        let number = text.parse().unwrap_or(end);
        (if number == 0.0 { text.replace('-', "") } else { text }, number)
    };
    let (lo, hi) = (outwards(found.lo, -1.0), outwards(found.hi, 1.0));
    match found.ends {
        Ends::AtMost => (format!("< {}", hi.0), [0.0, hi.1]),
        _ => (format!("[{}, {}]", lo.0, hi.0), [lo.1, hi.1]),
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interval = self.found.as_ref().map_or("no interval".to_owned(), |found| {
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
            "{verdict}: seed {} {} {}: planted {:.4} ({}), measured {interval}, \
             {}, {:.1} half-widths from a boundary: {}",
            self.machine,
            self.mechanism,
            self.kind.name(),
            self.planted,
            self.kind.levels(self.planted).join(" or "),
            self.level.as_deref().unwrap_or("undecided"),
            self.distance,
            self.why
        )
    }
}
