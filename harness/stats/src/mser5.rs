//! Warm-up: how many requests at the start of a series to leave out, and whether the rest is
//! steady.
//!
//! MSER-5: White, "An effective truncation heuristic for bias reduction in simulation output",
//! Simulation 69(6), 1997, on means of five requests (White, Cobb and Spratt, WSC 2000). It cuts
//! where the standard error of the remaining mean is smallest. The caller keeps the discarded
//! requests and marks them as warm-up.

use crate::estimate::{NoEstimate, require_series};
use crate::moments::mean;

/// Requests per batch, the 5 of MSER-5.
pub const BATCH_REQUESTS: usize = 5;

/// Smallest number of batches for a cut: with fewer, single batches decide the criterion.
pub const BATCHES_MIN: u32 = 10;

/// Smallest number of batches after the cut. A few equal batches at the end would otherwise win
/// over any sensible cut (White, Cobb and Spratt, 2000, use the same number).
const BATCHES_LEFT_MIN: usize = 5;

/// Where the warm-up of a series ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// How many requests at the start belong to the warm-up.
    pub discard_requests: usize,
    /// The same in batches, `d*`.
    pub discard_batches: u32,
    /// How many whole batches the series holds, `n`.
    pub batches: u32,
}

impl WarmUp {
    /// Whether the series settled early enough to be scored, `d* <= n / 2`.
    #[must_use]
    pub fn settled(&self) -> bool {
        u64::from(self.discard_batches) * 2 <= u64::from(self.batches)
    }
}

/// Finds the cut `d* = argmin (1 / (n - d)^2) * sum_{i > d} (x_i - mean_{i > d})^2` over batch
/// means, the earliest one on a tie. A remainder that fills no batch is ignored.
///
/// # Errors
/// [`NoEstimate::TooFew`] for under ten batches of five, [`NoEstimate::NotFinite`].
pub fn warm_up(requests: &[f64]) -> Result<WarmUp, NoEstimate> {
    require_series("requests", requests, BATCHES_MIN * BATCH_REQUESTS as u32)?;
    let means = requests
        .chunks_exact(BATCH_REQUESTS)
        .map(mean)
        .collect::<Result<Vec<f64>, NoEstimate>>()?;
    let mut best = (f64::INFINITY, 0);
    // Welford's update from the end: one pass gives the sum of squares of every tail, and exactly
    // zero for equal values.
    let (mut tail_mean, mut tail_squares) = (0.0_f64, 0.0_f64);
    for (kept, (discarded, value)) in means.iter().enumerate().rev().enumerate() {
        let count = (kept + 1) as f64;
        let delta = value - tail_mean;
        tail_mean += delta / count;
        tail_squares += delta * (value - tail_mean);
        let criterion = tail_squares / (count * count);
        if kept + 1 >= BATCHES_LEFT_MIN && criterion <= best.0 {
            best = (criterion, discarded);
        }
    }
    if !best.0.is_finite() {
        return Err(NoEstimate::Overflow { what: "the warm-up criterion" });
    }
    Ok(WarmUp {
        discard_requests: best.1 * BATCH_REQUESTS,
        discard_batches: best.1 as u32,
        batches: means.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleRng;

    /// The definition, in quadratic time.
    fn by_definition(requests: &[f64]) -> usize {
        let means: Vec<f64> =
            requests.chunks_exact(5).map(|c| c.iter().sum::<f64>() / 5.0).collect();
        let criterion = |d: usize| {
            let tail = &means[d..];
            let count = tail.len() as f64;
            let centre = tail.iter().sum::<f64>() / count;
            tail.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (count * count)
        };
        (0..=means.len() - 5).min_by(|&a, &b| criterion(a).total_cmp(&criterion(b))).unwrap()
    }

    fn noisy(warm_up_requests: usize, total: usize, seed: u64) -> Vec<f64> {
        let mut rng = ScheduleRng::new(seed);
        (0..total)
            .map(|i| if i < warm_up_requests { 3.0 } else { 1.0 } + 0.1 * rng.uniform())
            .collect()
    }

    #[test]
    fn finds_the_cut_of_the_definition() {
        for seed in 1..=20 {
            let series = noisy(37, 503, seed);
            let actual = warm_up(&series).unwrap();
            assert_eq!(actual.discard_batches as usize, by_definition(&series), "seed {seed}");
        }
    }

    #[test]
    fn cuts_a_step_at_the_batch_that_contains_its_end() {
        let actual = warm_up(&noisy(37, 503, 1)).unwrap();
        assert!((8..=20).contains(&actual.discard_batches), "{actual:?}");
        assert_eq!(actual.discard_requests, actual.discard_batches as usize * 5);
        assert_eq!(actual.batches, 100);
        assert!(actual.settled());
    }

    #[test]
    fn a_series_that_settles_late_is_rejected() {
        let actual = warm_up(&noisy(320, 500, 2)).unwrap();
        assert!(actual.discard_batches >= 64 && !actual.settled(), "{actual:?}");
        let exactly_half = WarmUp { discard_requests: 250, discard_batches: 50, batches: 100 };
        assert!(exactly_half.settled());
    }

    #[test]
    fn a_cut_leaves_at_least_five_batches() {
        // The last 25 requests are equal: no cut is better, and shorter tails are not considered.
        let mut series = noisy(0, 475, 3);
        series.extend([1.0; 25]);
        assert_eq!(warm_up(&series).unwrap().discard_batches, 95);
        // Equal over four batches only: too short to be considered.
        let mut shorter = noisy(0, 480, 3);
        shorter.extend([1.0; 20]);
        assert!(warm_up(&shorter).unwrap().discard_batches <= 95);
    }

    #[test]
    fn identical_requests_need_no_warm_up() {
        let actual = warm_up(&[0.1; 60]).unwrap();
        assert_eq!((actual.discard_requests, actual.batches), (0, 12));
        // One odd batch in front, then equal values: everything after it is perfect.
        let mut series = vec![0.1; 60];
        series[2] = 9.0;
        assert_eq!(warm_up(&series).unwrap().discard_requests, 5);
        assert!(warm_up(&[0.1; 49]).is_err());
    }
}
