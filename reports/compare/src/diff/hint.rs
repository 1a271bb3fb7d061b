//! What a change looks like: a hint at its cause, from parts of the same sessions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::comparability::mean_level;
use crate::session::{Metric, Parts, RowKey, Series, Session};

/// A likely cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// More readings have a reason for throttling.
    Power,
    /// The change is gone when time is counted in cycles of the SM clock.
    Clock,
    /// The native cells moved as much as the contended ones: no matter of isolation.
    DeviceWide,
    /// Only the contended cells moved.
    Interference,
    /// The solo cells moved, the native ones did not: the mechanism itself costs more or less.
    Mechanism,
    /// The aggressor alone got slower: a neighbour that works less interferes less.
    WeakerAggressor,
    /// The aggressor alone got faster: a neighbour that works more interferes more.
    StrongerAggressor,
}

impl Hint {
    /// As in tables, for a row that got worse or better.
    pub const fn text(self, is_worse: bool) -> &'static str {
        match self {
            Self::Power => "power: throttling differs",
            Self::Clock => "clock: equal in SM cycles",
            Self::DeviceWide if is_worse => "slower device: native cells moved as much",
            Self::DeviceWide => "faster device: native cells moved as much",
            Self::Interference => "interference: native and solo unchanged",
            Self::Mechanism => "mechanism: solo cells moved, native ones did not",
            Self::WeakerAggressor => "weaker aggressor: alone it is slower too",
            Self::StrongerAggressor => "stronger aggressor: alone it is faster too",
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Clock => "clock",
            Self::DeviceWide => "device-wide",
            Self::Interference => "interference",
            Self::Mechanism => "mechanism",
            Self::WeakerAggressor => "weaker-aggressor",
            Self::StrongerAggressor => "stronger-aggressor",
        }
    }
}

/// By how much the figures behind a row moved, by name, where both sides measured them: as shares,
/// of rates, or of latencies where the row is one; the share of throttled readings as a difference.
pub(super) fn moved_of(sides: &Sides<'_>) -> BTreeMap<String, f64> {
    let sign = if sides.is_rate { -1.0 } else { 1.0 };
    let part = |of: fn(&Parts) -> Option<f64>| {
        moved(sides.series, |series| of(&series.parts)).map(|by| (sign * by).exp_m1())
    };
    let found = [
        ("native", part(|parts| parts.native)),
        ("solo", part(|parts| parts.solo)),
        ("contended", part(|parts| parts.contended)),
        ("clock", moved(sides.series, |series| series.ln_clock).map(f64::exp_m1)),
        ("power", moved(sides.series, |series| series.ln_power).map(f64::exp_m1)),
        ("aggressor alone", aggressor(sides).map(f64::exp_m1)),
        ("throttled readings", throttled(sides.sessions)),
    ];
    found.into_iter().filter_map(|(name, by)| Some((name.to_owned(), by?))).collect()
}

/// Growth of the share of throttled readings that is named.
const THROTTLED_MIN: f64 = 0.05;
/// Part of a change that may be left where another cause explains it.
const REST_MAX: f64 = 1.0 / 3.0;

/// Change of the clock, as a logarithm, that can be a cause.
const CLOCK_MIN: f64 = 0.01;
/// Change of the cycles of the work, as a logarithm, that counts as none: the margin of rates.
const CYCLES_MAX: f64 = 0.03;

/// Both sides of one row, with all sessions of each side.
pub(super) struct Sides<'a> {
    pub sessions: [&'a [Session]; 2],
    pub series: [&'a [&'a Series]; 2],
    /// What it measures.
    pub key: &'a RowKey,
    /// Whether its cycles are those of the row itself, not of the work behind a latency.
    pub is_rate: bool,
}

/// The hint for a change; `None` where no pattern fits.
pub(super) fn of(sides: &Sides<'_>, change: &Change, margin: f64) -> Option<Hint> {
    if throttled(sides.sessions).is_some_and(|by| by.abs() > THROTTLED_MIN) {
        return Some(Hint::Power);
    }
    if is_clock(sides.series, change, sides.is_rate) {
        return Some(Hint::Clock);
    }
    let is_worse = change.effect.value * sides.key.metric.worse() > 0.0;
    match aggressor(sides) {
        Some(by) if by <= -margin && !is_worse => Some(Hint::WeakerAggressor),
        Some(by) if by >= margin && is_worse => Some(Hint::StrongerAggressor),
        _ => parts(sides.series, margin),
    }
}

/// By how much the rate of a row's aggressor, alone under the same mechanism, moved as a logarithm.
fn aggressor(sides: &Sides<'_>) -> Option<f64> {
    let aggressor = sides.key.aggressor.as_ref()?;
    // Jitter is an axis of its own; the aggressor has that of its resource.
    let own = (&sides.key.variant, aggressor, Metric::AggressorRate);
    let is_alone = |key: &RowKey| (&key.variant, &key.victim, key.metric) == own;
    let [before, after] = sides.sessions.map(|side| {
        let rows = side.iter().flat_map(|session| session.rows.iter());
        let rows = rows.filter(|(key, _)| is_alone(key)).filter_map(|(_, row)| row.series());
        let logs: Result<Vec<f64>, _> = rows.map(Series::mean).collect();
        gpubench_stats::summary::mean(&logs.ok()?).ok()
    });
    Some(after? - before?)
}

/// Whether the clock moved and the work takes as many cycles as before.
fn is_clock(series: [&[&Series]; 2], change: &Change, is_rate: bool) -> bool {
    let [before, after] = series;
    let clock = moved(series, |series| series.ln_clock);
    let (Ok(cycles), Some(clock)) = (Change::in_cycles(before, after, None), clock) else {
        return false;
    };
    let rest = cycles.effect.value.abs();
    let explains = !is_rate || rest <= REST_MAX * change.effect.value.abs();
    clock.abs() > CLOCK_MIN && rest < CYCLES_MAX && explains
}

fn throttled(sessions: [&[Session]; 2]) -> Option<f64> {
    let [before, after] = sessions.map(|side| mean_level(side, "throttled_ratio"));
    Some(after? - before?)
}

/// Which conditions moved, by the logarithm of their cost.
fn parts(series: [&[&Series]; 2], margin: f64) -> Option<Hint> {
    let native = moved(series, |series| series.parts.native)?;
    let solo = moved(series, |series| series.parts.solo);
    // What the row is made of: a row of solo or native rates has no contended cells.
    let contended = moved(series, |series| series.parts.contended).or(solo).unwrap_or(native);
    let near = margin.max(contended.abs() * REST_MAX);
    let is_still = |by: f64| by.abs() < near;
    let is_as_much = |by: f64| (by - contended).abs() < near;
    if !is_still(native) {
        return is_as_much(native).then_some(Hint::DeviceWide);
    }
    match solo {
        Some(solo) if is_still(solo) && !is_still(contended) => Some(Hint::Interference),
        Some(solo) if !is_still(solo) => Some(Hint::Mechanism),
        _ => None,
    }
}

/// By how much the mean of a logarithm moved.
fn moved(series: [&[&Series]; 2], of: impl Fn(&Series) -> Option<f64>) -> Option<f64> {
    let [before, after] = series.map(|side| {
        let values: Option<Vec<f64>> = side.iter().map(|series| of(series)).collect();
        gpubench_stats::summary::mean(&values?).ok()
    });
    Some(after? - before?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(parts: [f64; 3], cycles: f64, blocks: f64, ln_clock: f64) -> Series {
        let [native, solo, contended] = parts.map(Some);
        Series {
            blocks: vec![blocks; 3],
            cycles: vec![cycles; 3],
            ln_clock: Some(ln_clock),
            parts: Parts { native, solo, contended },
            ..Series::default()
        }
    }

    #[test]
    fn each_pattern_has_its_hint() {
        let before = series([0.0, 0.1, 1.0], -0.9, -0.9, 7.0);
        let key = RowKey {
            variant: "mps".to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: Some("dram-copy".to_owned()),
            dose: None,
            metric: Metric::Retention,
        };
        for (parts, cycles, clock, hint) in [
            ([0.0, 0.1, 1.2], -1.1, 7.0, Some(Hint::Interference)),
            ([0.2, 0.3, 1.2], -1.1, 7.0, Some(Hint::DeviceWide)),
            ([0.0, 0.3, 1.2], -1.1, 7.0, Some(Hint::Mechanism)),
            ([0.2, 0.3, 1.2], -0.9, 6.8, Some(Hint::Clock)),
            // The work takes other cycles, or the clock is the same.
            ([0.2, 0.3, 1.2], -1.0, 6.8, Some(Hint::DeviceWide)),
            ([0.2, 0.3, 1.2], -0.9, 7.0, Some(Hint::DeviceWide)),
            ([0.5, 0.1, 1.2], -1.1, 7.0, None),
        ] {
            let after = series(parts, cycles, -1.1, clock);
            let (one, two) = ([&before; 3], [&after; 3]);
            let change = Change::between(&one, &two, None).unwrap();
            let sides =
                Sides { sessions: [&[], &[]], series: [&one, &two], key: &key, is_rate: true };
            assert_eq!(of(&sides, &change, 0.03), hint, "{parts:?} {cycles}");
        }
    }
}
