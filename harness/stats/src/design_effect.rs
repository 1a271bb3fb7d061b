//! The design effect: how much serial correlation inflates the variance of a tail quantile.
//!
//! `D` is the variance of the share of exceedances by batch means over the binomial variance of
//! independent values (Kish's design effect, "Survey Sampling", 1965; batch means: Law, "Simulation
//! Modeling and Analysis", ch. 9). Queues make exceedances cluster, so D grows steeply with load.
//! Batches must be longer than the clusters: short batches give an estimate that is too small.

use crate::estimate::{NoEstimate, require_open_unit, require_series};
use crate::moments::moments;
use crate::quantile::Sorted;

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
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless `0 < p < 1`; [`NoEstimate::TooFew`] for under two batches,
/// for fewer values than batches, or for fewer exceedances than batches (then the variance
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
    fn independent_values_have_a_design_effect_of_one() {
        let independent = |seed| {
            let mut rng = ScheduleRng::new(seed);
            (0..20_000).map(|_| rng.exponential()).collect()
        };
        let d = mean_d(independent);
        assert!((0.7..1.3).contains(&d), "{d}");
    }

    #[test]
    fn queueing_makes_exceedances_cluster() {
        // 20 000 requests: about 2.6 at load 0.3 and 8 at load 0.5, by an earlier simulation.
        let light = mean_d(|seed| single_server(0.3, 20_000, seed));
        let middle = mean_d(|seed| single_server(0.5, 20_000, seed));
        assert!((1.7..4.0).contains(&light), "{light}");
        assert!((5.0..12.0).contains(&middle), "{middle}");
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
