//! How far CPU time that victims lost can have moved a ratio of their rates.

use gpubench_record::{CellResult, Estimate};

use crate::gate::figure::CLOSED_RATE_LOSS_MAX_LN;

/// Widening of an end that a row mentions, as a share.
const NAMED_MIN: f64 = 0.01;

/// The systematic part of the interval of a ratio, as logarithms: each at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LostTime {
    /// By how much the ratio may be higher: its numerator was measured too low.
    up: f64,
    /// By how much it may be lower: its denominator was measured too low.
    down: f64,
}

impl LostTime {
    /// The part of a mean of block logs `ln(top / bottom)`.
    ///
    /// With `b` the bound of a cell, its true rate lies between `P` and `P exp(b)`. So the log of
    /// a block lies between `L - b_bottom` and `L + b_top`, and the mean of the logs between
    /// `mean L - mean b_bottom` and `mean L + mean b_top`. The bounds are those of one host and do
    /// not average out, so they are added to the ends and not to the variance. A cell without a
    /// bound (virtual time, old records) adds nothing.
    pub(super) fn of<'a>(blocks: impl Iterator<Item = (&'a CellResult, &'a CellResult)>) -> Self {
        let bound = |cell: &CellResult| cell.rates.get(CLOSED_RATE_LOSS_MAX_LN).copied();
        let (mut sum, mut count) = (Self::default(), 0_u32);
        for (top, bottom) in blocks {
            sum.up += bound(top).unwrap_or(0.0);
            sum.down += bound(bottom).unwrap_or(0.0);
            count += 1;
        }
        let blocks = f64::from(count.max(1));
        Self {
            up: sum.up / blocks,
            down: sum.down / blocks,
        }
    }

    /// The interval with this part; the value stays.
    pub(super) fn widen(self, estimate: Estimate) -> Estimate {
        Estimate {
            lo: estimate.lo * (-self.down).exp(),
            hi: estimate.hi * self.up.exp(),
            ..estimate
        }
    }

    /// What it adds to an interval, where that is worth a line.
    pub(super) fn in_words(self, what: &str) -> Option<String> {
        let (down, up) = (-(-self.down).exp_m1(), self.up.exp_m1());
        (down.max(up) >= NAMED_MIN).then(|| {
            format!(
                "the interval of {what} includes -{:.1} % and +{:.1} % for CPU time that the \
                 victim's threads lost; more blocks do not narrow these",
                100.0 * down,
                100.0 * up
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_acts_on_one_end() {
        let estimate = Estimate {
            value: 1.0,
            lo: 0.9,
            hi: 1.1,
            ends: gpubench_record::estimate::Ends::Interval,
            n: 8,
            unit: "ratio".to_owned(),
        };
        let part = LostTime {
            up: 1.25_f64.ln(),
            down: 2.0_f64.ln(),
        };
        let wide = part.widen(estimate.clone());
        assert!((wide.lo - 0.45).abs() < 1e-12 && (wide.hi - 1.375).abs() < 1e-12);
        assert_eq!((wide.value, wide.n), (1.0, 8));
        let text = part.in_words("retention").unwrap_or_default();
        assert!(text.contains("-50.0 % and +25.0 %"), "{text}");
        assert_eq!(LostTime::default().widen(estimate.clone()), estimate);
        assert_eq!(LostTime::default().in_words("retention"), None);
    }
}
