//! Figures of a row with their intervals, and the number of blocks at which an interval would no
//! longer straddle a bound.

use gpubench_record::{CellResult, Ends, Estimate};
use gpubench_stats::bimodal::{Modes, modes};
use gpubench_stats::{Confidence, LogRatio, NoEstimate};

use super::cells::Pairs;
use super::lost_time::LostTime;
use crate::gate::figure::CLOSED_RATE_PER_S;

/// Smallest distance of two modes, as a log ratio. Nearer modes change no level: the nearest bounds
/// of levels are 0.17 apart. Without a minimum, rounding on a device without noise would count as a
/// mode.
const MODES_RATIO_MIN: f64 = 0.02;

/// One log ratio for each block.
#[derive(Debug, Clone)]
pub(super) struct Logs {
    /// Block numbers, rising.
    pub blocks: Vec<u32>,
    pub logs: Vec<f64>,
    /// The part of the interval that no number of blocks narrows.
    pub lost_time: LostTime,
}

impl Logs {
    /// The logarithms of `P_top / P_bottom`, with P the closed-loop rate, of each block.
    pub(super) fn of_rates(pairs: &Pairs<'_>) -> Self {
        Self::of_cells(pairs.measured.iter().copied())
    }

    /// The same of these blocks, each with both of its cells.
    pub(super) fn of_cells<'a>(
        blocks: impl Iterator<Item = (u32, &'a CellResult, &'a CellResult)>,
    ) -> Self {
        let rate = |cell: &CellResult| cell.rates.get(CLOSED_RATE_PER_S).copied();
        let counted: Vec<_> = blocks
            .filter_map(|(block, top, bottom)| {
                let log = rate(top)?.ln() - rate(bottom)?.ln();
                log.is_finite().then_some((block, log, top, bottom))
            })
            .collect();
        Self {
            blocks: counted.iter().map(|one| one.0).collect(),
            logs: counted.iter().map(|one| one.1).collect(),
            lost_time: LostTime::of(counted.iter().map(|one| (one.2, one.3))),
        }
    }

    /// The logarithms of both series in the blocks that they share.
    pub(super) fn shared(&self, other: &Self) -> (Vec<f64>, Vec<f64>) {
        let both = self
            .blocks
            .iter()
            .zip(&self.logs)
            .filter_map(|(block, mine)| {
                let at = other.blocks.iter().position(|one| one == block)?;
                Some((*mine, other.logs[at]))
            });
        both.unzip()
    }

    /// The ratio with its 95 % interval, and what lost CPU time adds to it.
    pub(super) fn ratio(&self) -> Result<Estimate, NoEstimate> {
        let ratio = LogRatio::from_logs(self.logs.clone())?.interval(Confidence::P95)?;
        Ok(self.lost_time.widen(printed(ratio, "ratio")))
    }

    /// Both modes in words; `None` for one mode.
    pub(super) fn two_modes(&self) -> Option<String> {
        two_modes(&self.logs, MODES_RATIO_MIN, f64::exp)
    }
}

/// Both modes of a series in words; `None` for one mode, and for a series too short to have two.
pub(super) fn two_modes(
    blocks: &[f64],
    smallest_gap: f64,
    shown: impl Fn(f64) -> f64,
) -> Option<String> {
    match modes(blocks, smallest_gap) {
        Ok(Modes::Two {
            low,
            low_n,
            high,
            high_n,
        }) => {
            let (low, high) = (shown(low), shown(high));
            Some(format!(
                "bimodal: {low:.3} in {low_n} blocks, {high:.3} in {high_n}"
            ))
        }
        Ok(Modes::One) | Err(_) => None,
    }
}

/// An estimate in the form of the record.
pub(super) fn printed(estimate: gpubench_stats::Estimate, unit: &str) -> Estimate {
    let gpubench_stats::Estimate { value, lo, hi, n } = estimate;
    Estimate {
        value,
        lo,
        hi,
        ends: Ends::Interval,
        n,
        unit: unit.to_owned(),
    }
}

/// The estimate as text: value, interval, unit and number of blocks.
pub(super) fn in_words(estimate: &Estimate) -> String {
    let Estimate {
        value,
        lo,
        hi,
        n,
        unit,
        ..
    } = estimate;
    format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n = {n}")
}

/// The scale on which the interval of a figure is symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// That of ratios.
    Log,
}

/// How many blocks would decide, in words; `None` where the interval does not straddle the bound.
///
/// The half width of a t interval is `t s / sqrt(n)`, and it must shrink to the distance from the
/// value to the bound: `n* = ceil(n (half width / distance)^2)`, on the scale on which the interval
/// is symmetric.
pub(super) fn blocks_needed(
    what: &str,
    estimate: &Estimate,
    bound: f64,
    scale: Scale,
) -> Option<String> {
    if !(estimate.lo < bound && bound <= estimate.hi) {
        return None;
    }
    let scale = |x: f64| match scale {
        Scale::Linear => x,
        Scale::Log => x.ln(),
    };
    let (value, bound_at) = (scale(estimate.value), scale(bound));
    let end = if value < bound_at {
        scale(estimate.hi)
    } else {
        scale(estimate.lo)
    };
    let (half, distance) = ((end - value).abs(), (bound_at - value).abs());
    let needed = (f64::from(estimate.n) * (half / distance).powi(2)).ceil();
    let blocks = if needed.is_finite() && needed < f64::from(u32::MAX) {
        format!(
            "about {} blocks are needed",
            needed.max(f64::from(estimate.n) + 1.0)
        )
    } else {
        "no number of blocks would decide".to_owned()
    };
    Some(format!(
        "{what} straddles {bound}: {blocks}, {} are there",
        estimate.n
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, lo: f64, hi: f64, unit: &str) -> Estimate {
        Estimate {
            value,
            lo,
            hi,
            ends: Ends::Interval,
            n: 8,
            unit: unit.to_owned(),
        }
    }

    #[test]
    fn blocks_needed_follow_the_formula() {
        // Half width 1/4, distance 1/8: four times the blocks.
        let index = estimate(0.5, 0.25, 0.75, "index");
        let text = blocks_needed("index", &index, 0.375, Scale::Linear);
        let want = "index straddles 0.375: about 32 blocks are needed, 8 are there";
        assert_eq!(text.as_deref(), Some(want));
        // On the log scale: half width ln 1.21, distance ln 1.1, again twice as far.
        let ratio = estimate(1.1 * 0.8, 0.8 * 1.1 / 1.21, 0.8 * 1.1 * 1.21, "ratio");
        let text = blocks_needed("retention", &ratio, 0.8, Scale::Log).unwrap_or_default();
        assert!(
            text.contains("about 32 blocks") || text.contains("about 33 blocks"),
            "{text}"
        );
        let on_it = blocks_needed(
            "index",
            &estimate(0.2, 0.1, 0.5, "index"),
            0.2,
            Scale::Linear,
        );
        assert!(on_it.is_some_and(|text| text.contains("no number of blocks would decide")));
        assert_eq!(
            blocks_needed(
                "index",
                &estimate(0.3, 0.2, 0.5, "index"),
                0.2,
                Scale::Linear
            ),
            None
        );
        assert_eq!(
            blocks_needed(
                "index",
                &estimate(0.1, 0.0, 0.19, "index"),
                0.2,
                Scale::Linear
            ),
            None
        );
    }

    #[test]
    fn shared_keeps_the_blocks_of_both_series() {
        let left = Logs {
            blocks: vec![0, 1, 3],
            logs: vec![0.1, 0.2, 0.4],
            lost_time: LostTime::default(),
        };
        let right = Logs {
            blocks: vec![1, 2, 3],
            logs: vec![2.0, 3.0, 4.0],
            lost_time: LostTime::default(),
        };
        assert_eq!(left.shared(&right), (vec![0.2, 0.4], vec![2.0, 4.0]));
    }
}
