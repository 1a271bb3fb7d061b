//! Distances from the median in robust standard deviations.
//!
//! The median and the median absolute deviation follow the majority, so that a sick device changes
//! neither. The deviation of n values is as uncertain as that of `0.37 (n - 1)` values by squares:
//! its efficiency is 37 % (Rousseeuw and Croux, JASA 88(424), 1993). Student's t with so many
//! degrees of freedom covers the tails: in 4 million simulated values of 5 to 300 normal peers each
//! the fitted degrees are 0.37 to 0.63 times `n - 1`.

use gpubench_stats::student_t::two_sided_quantile;
use gpubench_stats::summary::median_absolute_deviation;
use gpubench_stats::{NoEstimate, Sorted};

const EFFICIENCY: f64 = 0.37;
/// The normal quantile of the power of a detectable deviation, 80 %.
const POWER: f64 = 0.841_621_233_572_914_2;
/// Smallest deviation between devices, as a logarithm: devices without noise have none.
const SCALE_MIN: f64 = 1e-6;

/// The values of all devices in one row, as logarithms.
pub(super) struct Peers {
    pub median: f64,
    /// Robust standard deviation.
    pub scale: f64,
    /// Distance in such deviations from which a device differs.
    pub limit: f64,
}

impl Peers {
    /// `alpha` is the error of one comparison.
    pub(super) fn of(logs: &[f64], alpha: f64) -> Result<Self, NoEstimate> {
        let df = EFFICIENCY * (logs.len() as f64 - 1.0);
        Ok(Self {
            median: Sorted::new(logs.to_vec())?.median()?,
            scale: median_absolute_deviation(logs)?.max(SCALE_MIN),
            limit: two_sided_quantile(alpha, df)?,
        })
    }

    pub(super) fn z(&self, log: f64) -> f64 {
        (log - self.median) / self.scale
    }

    /// Whether a device is beyond the limit, and by at least the margin.
    pub(super) fn differs(&self, log: f64, margin: f64) -> bool {
        let far = (log - self.median).abs() >= margin.ln_1p();
        far && self.z(log).abs() > self.limit
    }

    /// The deviation that is found with 80 % power, as a logarithm.
    pub(super) fn detectable(&self, margin: f64) -> f64 {
        let by_limit = self.limit.max(margin.ln_1p() / self.scale);
        (by_limit + POWER) * self.scale
    }
}
