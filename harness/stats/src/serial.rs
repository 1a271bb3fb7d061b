//! Intervals for a quantile of a serially correlated series, such as windows of one run or
//! consecutive launches.
//!
//! Correlation makes the number of values below a quantile vary `D` times as much as the binomial
//! of independent values. The ranks that bracket the quantile are therefore those of `n / D`
//! values, with `D` the design effect by batch means ([`crate::design_effect`]). `D` is an estimate
//! from few batches, so the normal quantile is replaced by Student's with one degree of freedom
//! less than there are batches (Law, "Simulation Modeling and Analysis", ch. 9).

use statrs::function::beta::beta_reg;

use crate::confidence::Confidence;
use crate::design_effect::{BATCHES_DEFAULT, DesignEffect, design_effect};
use crate::estimate::{Estimate, NoEstimate, require_open_unit, require_series};
use crate::order_rank::smallest_n_for_upper_bound;
use crate::quantile::Sorted;
use crate::student_t;

/// Smallest number of batches for a variance (Schmeiser 1982 recommends 10 to 30).
pub const BATCHES_MIN: u32 = 10;
/// Smallest number of values: two per batch, because a batch of one shows no correlation.
pub const VALUES_MIN: u32 = 2 * BATCHES_MIN;

/// The serial correlation of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// Factor by which the variance of a share of the values exceeds that of independent values,
    /// widened for the uncertainty of the factor; at least 1.
    pub d: f64,
}

impl Dependence {
    /// Independent values.
    pub const NONE: Self = Self { d: 1.0 };

    /// Estimates the correlation from the series, for the indicator "above the p quantile"; for
    /// "above the median" where too few values lie beyond the quantile. `None` for a short series.
    ///
    /// # Errors
    /// [`NoEstimate::OutOfRange`] unless `0 < p < 1`, [`NoEstimate::NotFinite`] for a bad value.
    pub fn of(series: &[f64], p: f64, confidence: Confidence) -> Result<Option<Self>, NoEstimate> {
        require_open_unit("a quantile's probability", p)?;
        let n = require_series("values", series, 1)?;
        if n < VALUES_MIN {
            return Ok(None);
        }
        let beyond = (f64::from(n) * p.min(1.0 - p)).floor() as u32;
        let p = if beyond < BATCHES_MIN { 0.5 } else { p };
        let beyond = (f64::from(n) * p.min(1.0 - p)).floor() as u32;
        let batches = (n / 2).min(beyond).clamp(BATCHES_MIN, BATCHES_DEFAULT);
        // Nearly all values are equal, and so are all quantiles among them.
        let Some((found, batches)) = estimate(series, p, batches)? else {
            return Ok(Some(Self::NONE));
        };
        let tail = 1.0 - confidence.alpha() / 2.0;
        let degrees = f64::from(batches - 1);
        let widened = student_t::quantile(tail, degrees)? / normal_quantile(tail)?;
        Ok(Some(Self { d: (found.d * widened * widened).max(1.0) }))
    }

    /// The correlation of means over `length` consecutive values each; at most that of the series.
    /// Exact for a first-order autoregression with a memory shorter than one mean: neighbouring
    /// means correlate by `(D^2 - 1) / (4 D length)`.
    #[must_use]
    pub fn of_means(self, length: u32) -> Self {
        let length = f64::from(length.max(1));
        let between = (self.d * self.d - 1.0) / (2.0 * self.d * length);
        Self { d: (1.0 + between).min(self.d) }
    }
}

/// The design effect and its number of batches. Ties at the quantile may leave too few values above
/// it for that many batches; the values below it or fewer batches are then used.
fn estimate(
    series: &[f64],
    p: f64,
    batches: u32,
) -> Result<Option<(DesignEffect, u32)>, NoEstimate> {
    let mirrored: Vec<f64> = series.iter().map(|value| -value).collect();
    for batches in [batches, BATCHES_MIN] {
        for (series, p) in [(series, p), (&mirrored[..], 1.0 - p)] {
            match design_effect(series, p, batches) {
                Ok(found) => return Ok(Some((found, batches))),
                Err(NoEstimate::TooFew { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(None)
}

/// Degrees of freedom at which Student's distribution equals the normal one to double precision.
const NORMAL_DEGREES: f64 = 1e9;

fn normal_quantile(p: f64) -> Result<f64, NoEstimate> {
    student_t::quantile(p, NORMAL_DEGREES)
}

/// The `p` quantile (linear) of a series in its order, with an interval that accounts for serial
/// correlation; `n` counts values. A series too short to estimate the correlation counts as
/// independent.
///
/// # Errors
/// As [`Sorted::order_interval`]; also when the effective number of values is too small for a
/// bound.
pub fn interval(series: &[f64], p: f64, confidence: Confidence) -> Result<Estimate, NoEstimate> {
    let dependence = Dependence::of(series, p, confidence)?;
    interval_with(series, p, dependence.unwrap_or(Dependence::NONE), confidence)
}

/// As [`interval`], with a known correlation.
///
/// # Errors
/// As [`interval`].
pub fn interval_with(
    series: &[f64],
    p: f64,
    dependence: Dependence,
    confidence: Confidence,
) -> Result<Estimate, NoEstimate> {
    let sorted = Sorted::new(series.to_vec())?;
    if dependence.d <= 1.0 {
        return sorted.order_interval(p, confidence);
    }
    let n = sorted.count();
    let effective = f64::from(n) / dependence.d;
    let tail = confidence.alpha() / 2.0;
    // By symmetry the upper rank is the lower one of 1 - p, counted from the top.
    let below = lower_rank(effective, p, tail);
    let above = lower_rank(effective, 1.0 - p, tail);
    let (Some(below), Some(above)) = (below, above) else {
        let need = smallest_n_for_upper_bound(p.max(1.0 - p), confidence)?;
        return Err(NoEstimate::TooFew {
            what: "effective values",
            have: effective.floor() as u64,
            need: u64::from(need),
        });
    };
    // Converts ranks among the effective values to ranks among all values, rounded outwards.
    let scale = f64::from(n) / effective;
    let among_all = |rank: f64| ((rank * scale).floor() as u32).clamp(1, n) as usize;
    let values = sorted.values();
    let (lo, hi) = (
        values[outwards(among_all(below), rank_by_normal(n, p, dependence, tail)?) - 1],
        values[values.len()
            - outwards(among_all(above), rank_by_normal(n, 1.0 - p, dependence, tail)?)],
    );
    Estimate::new(sorted.linear(p)?, lo, hi, n)
}

/// The outer of two ranks. With few effective values the binomial is coarse, and the normal
/// approximation of the share gives the safer rank.
fn outwards(binomial: usize, normal: usize) -> usize {
    binomial.min(normal).max(1)
}

fn rank_by_normal(n: u32, p: f64, dependence: Dependence, tail: f64) -> Result<usize, NoEstimate> {
    let n = f64::from(n);
    let spread = (dependence.d * p * (1.0 - p) / n).sqrt();
    let share = p - normal_quantile(1.0 - tail)? * spread;
    Ok((share * n).floor().max(0.0) as usize)
}

/// The largest rank, among `n` values (a fraction is allowed), that exceeds the quantile with at
/// most the probability `tail`; `None` where even the smallest value exceeds it more often.
fn lower_rank(n: f64, p: f64, tail: f64) -> Option<f64> {
    // The r-th of n uniform values is distributed as Beta(r, n + 1 - r).
    let missed = |rank: f64| 1.0 - beta_reg(rank, n + 1.0 - rank, p);
    if n < 1.0 || missed(1.0) > tail {
        return None;
    }
    let (mut holds, mut fails) = (1.0, n);
    for _ in 0..60 {
        let middle = (holds + fails) / 2.0;
        if missed(middle) <= tail {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    Some(holds)
}

#[cfg(test)]
mod tests;
