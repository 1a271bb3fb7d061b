//! Intervals for a quantile of a serially correlated series, such as windows of one run or
//! consecutive launches.
//!
//! Correlation makes the number of values below a quantile vary `D` times as much as the binomial
//! of independent values. The ranks that bracket the quantile are therefore those of `n / D`
//! values, with `D` the design effect by batch means ([`design_effect`]). `D` is an estimate
//! from few batches, so the normal quantile is replaced by Student's with one degree of freedom
//! less than there are batches (Law, "Simulation Modeling and Analysis", ch. 9).

use statrs::function::beta::beta_reg;

use super::estimate::Confidence;
use super::quantile::smallest_n_for_upper_bound;
use super::summary::moments;
use crate::estimate::{Estimate, NoEstimate, require_open_unit, require_series};
use crate::quantile::Sorted;
use crate::student_t;

/// Smallest number of batches for a variance (Schmeiser 1982 recommends 10 to 30).
pub const BATCHES_MIN: u32 = 10;
/// Smallest number of values: two per batch, because a batch of one shows no correlation.
pub const VALUES_MIN: u32 = 2 * BATCHES_MIN;

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
    /// Fails with [`NoEstimate::OutOfRange`] unless `0 < p < 1`, [`NoEstimate::NotFinite`] for a
    /// bad value.
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
/// Fails as [`Sorted::order_interval`]; also when the effective number of values is too small for a
/// bound.
pub fn interval(series: &[f64], p: f64, confidence: Confidence) -> Result<Estimate, NoEstimate> {
    let dependence = Dependence::of(series, p, confidence)?;
    interval_with(series, p, dependence.unwrap_or(Dependence::NONE), confidence)
}

/// As [`interval`], with a known correlation.
/// Fails as [`interval`].
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

// The design effect: how much serial correlation inflates the variance of a tail quantile.
//
// `D` is the variance of the share of exceedances by batch means over the binomial variance of
// independent values (Kish's design effect, "Survey Sampling", 1965; batch means: Law, "Simulation
// Modeling and Analysis", ch. 9). Queues make exceedances cluster, so D grows steeply with load.
// Batches must be longer than the clusters: short batches give an estimate that is too small.

/// The default number of batches. Schmeiser, "Batch size effects in the analysis of simulation
/// output", Operations Research 30(3), 1982, recommends 10 to 30.
pub const BATCHES_DEFAULT: u32 = 20;

/// The design effect of the indicator "above the p quantile" in one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignEffect {
    /// Variance inflation: 1 for independent values; noise may make it slightly smaller.
    pub d: f64,
    /// Values used: the series less the remainder that fills no batch.
    pub n: u32,
    /// How many of them lie above the quantile.
    pub exceedances: u32,
}

/// Estimates D from latencies in the order of their arrival.
/// Fails with [`NoEstimate::OutOfRange`] unless `0 < p < 1`; [`NoEstimate::TooFew`] for under two
/// batches, for fewer values than batches, or for fewer exceedances than batches (then the variance
/// between batches is that of a handful of events).
pub fn design_effect(latencies: &[f64], p: f64, batches: u32) -> Result<DesignEffect, NoEstimate> {
    require_open_unit("a quantile's probability", p)?;
    if batches < 2 {
        return Err(NoEstimate::TooFew { what: "batches", have: u64::from(batches), need: 2 });
    }
    let total = require_series("latencies", latencies, batches)?;
    let batch_len = total / batches;
    let n = batch_len * batches;
    // The remainder is left out at the start, next to the warm-up.
    let used = &latencies[(total - n) as usize..];
    let threshold = Sorted::new(used.to_vec())?.linear(p)?;
    let shares: Vec<f64> = used
        .chunks_exact(batch_len as usize)
        .map(|batch| batch.iter().filter(|&&x| x > threshold).count() as f64 / f64::from(batch_len))
        .collect();
    let exceedances = used.iter().filter(|&&x| x > threshold).count();
    if exceedances < batches as usize {
        return Err(NoEstimate::TooFew {
            what: "values above the quantile",
            have: exceedances as u64,
            need: u64::from(batches),
        });
    }
    // The observed share and not 1 - p: they differ where values tie at the quantile, and both
    // variances must be of the same share.
    let share = exceedances as f64 / f64::from(n);
    let between = moments(&shares)?.sd.powi(2) / f64::from(batches);
    let independent = share * (1.0 - share) / f64::from(n);
    Ok(DesignEffect { d: between / independent, n, exceedances: exceedances as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleRng;

    const SEEDS: [u64; 3] = [7, 8, 9];
    const REPLICATES: usize = 400;

    /// Standard normal by Box and Muller.
    fn normal(rng: &mut ScheduleRng) -> f64 {
        let angle = std::f64::consts::TAU * rng.uniform();
        (2.0 * rng.exponential()).sqrt() * angle.cos()
    }

    /// Windows whose share follows the window before: a first-order autoregression around 0.5 with
    /// a spread of 0.05.
    fn windows(rng: &mut ScheduleRng, n: usize, correlation: f64) -> Vec<f64> {
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut off = normal(rng);
        let next = |_| {
            off = correlation * off + fresh * normal(rng);
            0.5 + 0.05 * off
        };
        (0..n).map(next).collect()
    }

    type Interval = fn(&[f64]) -> Result<Estimate, NoEstimate>;

    fn correlated(series: &[f64]) -> Result<Estimate, NoEstimate> {
        interval(series, 0.5, Confidence::P95)
    }

    /// The interval that assumes independence.
    fn independent(series: &[f64]) -> Result<Estimate, NoEstimate> {
        Sorted::new(series.to_vec())?.order_interval(0.5, Confidence::P95)
    }

    /// The proportion of series whose interval contains the true median.
    fn coverage(of: Interval, seed: u64, n: usize, correlation: f64) -> f64 {
        let mut rng = ScheduleRng::new(seed);
        let holds = |_: &usize| of(&windows(&mut rng, n, correlation)).unwrap().contains(0.5);
        let held = (0..REPLICATES).filter(holds).count();
        held as f64 / REPLICATES as f64
    }

    #[test]
    fn intervals_of_correlated_windows_cover_the_truth() {
        for (seed, (n, correlation)) in SEEDS.into_iter().zip([(600, 0.8), (600, 0.5), (200, 0.6)])
        {
            let covered = coverage(correlated, seed, n, correlation);
            assert!((0.92..=0.985).contains(&covered), "{n} windows, {correlation}: {covered}");
            // The interval for independent values covers too rarely.
            let claimed = coverage(independent, seed, n, correlation);
            assert!(claimed < 0.85, "{n} windows, {correlation}: {claimed}");
        }
    }

    #[test]
    fn long_windows_use_the_correlation_of_the_short_ones() {
        let mut rng = ScheduleRng::new(13);
        let (mut claimed, mut held) = (0, 0);
        for _ in 0..REPLICATES {
            let fine = windows(&mut rng, 600, 0.8);
            let means: Vec<f64> = fine.chunks(100).map(|c| c.iter().sum::<f64>() / 100.0).collect();
            let dependence = Dependence::of(&fine, 0.5, Confidence::P95).unwrap().unwrap();
            let long = dependence.of_means(100);
            // Where the short windows correlate strongly, six long ones may have no interval.
            if let Ok(found) = interval_with(&means, 0.5, long, Confidence::P95) {
                claimed += 1;
                held += usize::from(found.contains(0.5));
            }
        }
        let covered = held as f64 / claimed as f64;
        assert!(claimed > REPLICATES / 2, "{claimed} of {REPLICATES}");
        assert!((0.93..=0.99).contains(&covered), "{covered} of {claimed}");
    }

    #[test]
    fn intervals_of_independent_windows_stay_narrow() {
        let covered = coverage(correlated, 10, 600, 0.0);
        assert!((0.94..=0.985).contains(&covered), "{covered}");
        let width = |of: Interval| {
            let mut rng = ScheduleRng::new(11);
            let all = (0..50).map(|_| {
                let interval = of(&windows(&mut rng, 600, 0.0)).unwrap();
                interval.hi - interval.lo
            });
            all.sum::<f64>()
        };
        let wider = width(correlated) / width(independent);
        assert!((1.0..1.25).contains(&wider), "{wider}");
    }

    #[test]
    fn ties_at_the_quantile_hide_no_correlation() {
        let steps: Vec<f64> = (0..26).map(|k| f64::from(k / 2)).collect();
        let d = Dependence::of(&steps, 0.5, Confidence::P95).unwrap().unwrap().d;
        assert!(d > 2.0, "{d}");
    }

    #[test]
    fn means_over_many_values_correlate_less() {
        let fine = Dependence { d: 9.0 };
        // A correlation of 0.8 between neighbours; means of 100 correlate by 0.022.
        assert!((fine.of_means(100).d - 1.044).abs() < 0.001);
        assert_eq!(fine.of_means(1).d, (80.0_f64 / 18.0 + 1.0).min(9.0));
        assert_eq!(Dependence::NONE.of_means(7), Dependence::NONE);
    }

    #[test]
    fn short_series_have_no_interval_and_constant_series_no_width() {
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let with = |d| interval_with(&six, 0.5, Dependence { d }, Confidence::P95);
        assert_eq!(with(1.0).map(|e| (e.lo, e.hi)), Ok((1.0, 6.0)));
        // 5.32 independent values bracket a median with 95 %.
        assert_eq!(with(1.12).map(|e| (e.lo, e.hi)), Ok((1.0, 6.0)));
        assert!(matches!(with(1.14), Err(NoEstimate::TooFew { have: 5, .. })));
        let still = interval(&[0.25; 100], 0.5, Confidence::P95).unwrap();
        assert_eq!((still.value, still.lo, still.hi), (0.25, 0.25, 0.25));
        assert_eq!(Dependence::of(&six, 0.5, Confidence::P95), Ok(None));
    }

    #[test]
    fn fractional_ranks_lie_between_whole_ones() {
        // Whole numbers give the ranks of `order_rank` (6 and 100, from SciPy).
        for (n, p, expected) in [(20.0, 0.5, 6.0), (100.0, 0.9, 84.0), (6.0, 0.5, 1.0)] {
            let rank = lower_rank(n, p, 0.025).unwrap();
            assert!((expected..expected + 1.0).contains(&rank), "{n} {p}: {rank}");
        }
        assert_eq!(lower_rank(5.0, 0.5, 0.025), None);
    }

    /// Waiting plus service times of a single first-come first-served server with Poisson
    /// arrivals and exponential service of mean 1 (Lindley's recursion).
    fn single_server(load: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = ScheduleRng::new(seed);
        let (mut wait, mut latencies) = (0.0_f64, Vec::with_capacity(n));
        for _ in 0..n {
            let service = rng.exponential();
            latencies.push(wait + service);
            wait = (wait + service - rng.exponential() / load).max(0.0);
        }
        latencies
    }

    fn mean_d(series: impl Fn(u64) -> Vec<f64>) -> f64 {
        let seeds = [11, 12, 13, 14, 15, 16, 17, 18];
        let sum: f64 = seeds
            .iter()
            .map(|&seed| design_effect(&series(seed), 0.99, BATCHES_DEFAULT).unwrap().d)
            .sum();
        sum / seeds.len() as f64
    }

    #[test]
    fn repeating_every_value_k_times_inflates_k_fold() {
        let mut rng = ScheduleRng::new(5);
        let base: Vec<f64> = (0..20_000).map(|_| rng.exponential()).collect();
        let repeated: Vec<f64> = base.iter().flat_map(|&x| [x; 4]).collect();
        let one = design_effect(&base, 0.99, 20).unwrap();
        let four = design_effect(&repeated, 0.99, 20).unwrap();
        assert!((four.d / one.d - 4.0).abs() < 0.05, "{} {}", four.d, one.d);
        assert_eq!(four.n, 80_000);
    }

    #[test]
    fn values_that_tie_at_the_quantile_do_not_change_the_effect() {
        let in_steps = |seed| {
            let mut rng = ScheduleRng::new(seed);
            (0..20_000)
                .map(|_| match rng.below(1000) {
                    0..900 => 1.0,
                    900..995 => 2.0,
                    _ => 3.0,
                })
                .collect()
        };
        // The quantile is 2, and one value in 200 lies above it.
        let d = mean_d(in_steps);
        assert!((0.7..1.3).contains(&d), "{d}");
    }

    #[test]
    fn a_remainder_that_fills_no_batch_is_left_out_at_the_head() {
        let series = single_server(0.5, 20_019, 3);
        let whole = design_effect(&series, 0.99, 20).unwrap();
        assert_eq!(whole, design_effect(&series[19..], 0.99, 20).unwrap());
        assert_eq!(whole.n, 20_000);
    }

    #[test]
    fn reports_missing_batches_and_exceedances() {
        assert_eq!(
            design_effect(&[1.0; 4000], 0.99, 20).unwrap_err(),
            NoEstimate::TooFew { what: "values above the quantile", have: 0, need: 20 }
        );
        assert!(design_effect(&[1.0; 10], 0.99, 20).is_err());
        assert!(design_effect(&[1.0; 10], 0.99, 1).is_err());
        assert!(design_effect(&[1.0; 100], 1.0, 20).is_err());
    }
}
