//! Bootstrap-t intervals for statistics other than means; whole blocks are resampled.
//!
//! Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 12.5, with the jackknife
//! standard error of chapter 11 in every resample. A mean of block values has a t interval, which
//! needs fewer blocks and covers better. Resampling requests would assume that they are
//! independent, which they are not. The caller chooses the seed.

use crate::confidence::Confidence;
use crate::estimate::{Estimate, NoEstimate, require_finite_result};
use crate::rng::ScheduleRng;

/// Smallest number of blocks: with fewer, the coverage is clearly below the nominal one.
pub const BLOCKS_MIN: u32 = 20;

/// Default number of resamples: 999, so that the 2.5 % points are order statistics.
pub const RESAMPLES_DEFAULT: u32 = 999;

/// The statistic of all blocks with its bootstrap-t interval; `n` counts blocks.
///
/// `statistic` receives the blocks of one resample in the order drawn, with repetitions.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under 20 blocks or too few resamples for the confidence;
/// [`NoEstimate::Unbounded`] when too many resamples have no spread for a finite tail of the
/// studentised distribution; [`NoEstimate::Disordered`] when that distribution lies on one side of
/// zero; and every error of the statistic.
///
/// Wanted by: diff
pub fn bootstrap_t<T>(
    blocks: &[T],
    statistic: impl Fn(&[&T]) -> Result<f64, NoEstimate>,
    resamples: u32,
    seed: u64,
    confidence: Confidence,
) -> Result<Estimate, NoEstimate> {
    let n = require_blocks(blocks.len())?;
    let tail_rank = require_resamples(resamples, confidence)?;
    let checked = |sample: &[&T]| require_finite_result("the statistic", statistic(sample)?);

    let all: Vec<&T> = blocks.iter().collect();
    let value = checked(&all)?;
    let se = jackknife_se(&all, &checked)?;
    if se == 0.0 {
        return Estimate::new(value, value, value, n);
    }
    let mut rng = ScheduleRng::new(seed);
    let mut studentised = Vec::with_capacity(resamples as usize);
    for _ in 0..resamples {
        let drawn: Vec<&T> = (0..n).map(|_| all[rng.below(n) as usize]).collect();
        let distance = checked(&drawn)? - value;
        let spread = jackknife_se(&drawn, &checked)?;
        // A resample without spread that misses the estimate counts as infinitely far out. Dropping
        // it would make the tails too short.
        studentised.push(if distance == 0.0 {
            0.0
        } else {
            distance / spread
        });
    }
    studentised.sort_unstable_by(f64::total_cmp);
    let low_t = studentised[tail_rank - 1];
    let high_t = studentised[studentised.len() - tail_rank];
    if low_t.is_infinite() || high_t.is_infinite() {
        return Err(NoEstimate::Unbounded {
            what: "the bootstrap distribution",
        });
    }
    Estimate::new(value, value - high_t * se, value - low_t * se, n)
}

/// The jackknife standard error: `sqrt((n - 1) / n * sum (theta_(-i) - mean)^2)`.
fn jackknife_se<T>(
    sample: &[&T],
    statistic: &impl Fn(&[&T]) -> Result<f64, NoEstimate>,
) -> Result<f64, NoEstimate> {
    let mut kept: Vec<&T> = sample[1..].to_vec();
    let mut without = Vec::with_capacity(sample.len());
    without.push(statistic(&kept)?);
    for (at, left_in) in sample[..sample.len() - 1].iter().enumerate() {
        // Puts block `at` back where block `at + 1` was left out.
        kept[at] = *left_in;
        without.push(statistic(&kept)?);
    }
    let found = crate::moments::moments(&without)?;
    let n = f64::from(found.n);
    require_finite_result("jackknife standard error", found.sd * (n - 1.0) / n.sqrt())
}

fn require_blocks(len: usize) -> Result<u32, NoEstimate> {
    match u32::try_from(len) {
        Ok(n) if n >= BLOCKS_MIN => Ok(n),
        Ok(n) => {
            let (have, need) = (u64::from(n), u64::from(BLOCKS_MIN));
            Err(NoEstimate::TooFew {
                what: "blocks for a bootstrap",
                have,
                need,
            })
        }
        Err(_) => {
            let (value, accepted) = (len as f64, "at most 4294967295");
            Err(NoEstimate::OutOfRange {
                what: "the number of blocks",
                value,
                accepted,
            })
        }
    }
}

/// The rank, counted from 1, of the resample that bounds either tail.
fn require_resamples(resamples: u32, confidence: Confidence) -> Result<usize, NoEstimate> {
    let tail = confidence.alpha() / 2.0;
    let rank = ((f64::from(resamples) + 1.0) * tail).floor();
    if rank >= 1.0 {
        return Ok(rank as usize);
    }
    let (have, need) = (u64::from(resamples), (1.0 / tail).ceil() as u64);
    Err(NoEstimate::TooFew {
        what: "resamples for this confidence",
        have,
        need,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moments::mean;
    use crate::quantile::Sorted;

    const X: [f64; 20] = [
        1.02, 0.98, 1.10, 0.95, 1.07, 1.01, 0.99, 1.03, 1.25, 0.97, 1.00, 1.04, 0.96, 1.12, 1.05,
        0.94, 1.08, 1.06, 0.93, 1.15,
    ];

    fn mean_of(sample: &[&f64]) -> Result<f64, NoEstimate> {
        mean(&sample.iter().map(|x| **x).collect::<Vec<f64>>())
    }

    /// The same procedure in NumPy: draws from NumPy's PCG64 (see `rng`), `w * 20 >> 64` as the
    /// index, standard error of the mean (which is what the jackknife gives) in each resample.
    #[test]
    fn the_interval_of_a_mean_equals_the_oracle() {
        let actual = bootstrap_t(&X, mean_of, 999, 42, Confidence::P95).unwrap();
        for (actual, expected) in [
            (actual.value, 1.034_999_999_999_999_7),
            (actual.lo, 1.005_469_325_919_642_3),
            (actual.hi, 1.080_872_267_812_113),
        ] {
            assert!(
                (actual - expected).abs() < 1e-12,
                "actual {actual}, expected {expected}"
            );
        }
        assert_eq!(actual.n, 20);
        // The seed is the only source of chance.
        assert_eq!(
            bootstrap_t(&X, mean_of, 999, 42, Confidence::P95).unwrap(),
            actual
        );
        assert_ne!(
            bootstrap_t(&X, mean_of, 999, 43, Confidence::P95).unwrap(),
            actual
        );
    }

    /// For the mean the jackknife is the ordinary standard error (Efron and Tibshirani, 11.2).
    #[test]
    fn the_jackknife_of_a_mean_is_its_standard_error() {
        let all: Vec<&f64> = X.iter().collect();
        let expected = crate::Effect::of_mean(&X).unwrap().se;
        assert!((jackknife_se(&all, &mean_of).unwrap() - expected).abs() < 1e-15);
    }

    #[test]
    fn blocks_are_resampled_whole() {
        // Every block is a pair whose members differ by one; a pair split by resampling would fail.
        let blocks: Vec<(f64, f64)> = X.iter().map(|x| (*x, *x + 1.0)).collect();
        let difference =
            |sample: &[&(f64, f64)]| mean(&sample.iter().map(|(a, b)| b - a).collect::<Vec<f64>>());
        let actual = bootstrap_t(&blocks, difference, 199, 1, Confidence::P95).unwrap();
        assert!(
            (actual.value - 1.0).abs() < 1e-12 && actual.hi - actual.lo < 2e-12,
            "{actual:?}"
        );
    }

    #[test]
    fn identical_blocks_are_legal() {
        let actual = bootstrap_t(&[0.1; 20], mean_of, 199, 1, Confidence::P95).unwrap();
        assert_eq!((actual.value, actual.lo, actual.hi), (0.1, 0.1, 0.1));
    }

    #[test]
    fn resamples_without_spread_are_not_dropped() {
        // One block differs: a third of the resamples miss it and have no spread.
        let mut blocks = [0.0; 20];
        blocks[0] = 1.0;
        assert_eq!(
            bootstrap_t(&blocks, mean_of, 999, 1, Confidence::P95),
            Err(NoEstimate::Unbounded {
                what: "the bootstrap distribution"
            })
        );
    }

    #[test]
    fn reports_missing_blocks_and_errors_of_the_statistic() {
        assert_eq!(
            bootstrap_t(&X[..19], mean_of, 999, 1, Confidence::P95),
            Err(NoEstimate::TooFew {
                what: "blocks for a bootstrap",
                have: 19,
                need: 20
            })
        );
        assert!(bootstrap_t(&X, mean_of, 38, 1, Confidence::P95).is_err());
        let refuses = |_: &[&f64]| Sorted::new(vec![]).map(|s| s.min());
        assert!(bootstrap_t(&X, refuses, 999, 1, Confidence::P95).is_err());
        let nan = |_: &[&f64]| Ok(f64::NAN);
        assert!(bootstrap_t(&X, nan, 999, 1, Confidence::P95).is_err());
    }
}
