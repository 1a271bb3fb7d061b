//! Intervals for a quantile of a series whose neighbours depend on each other: windows of one run,
//! launches one after the other.
//!
//! The number of values below a quantile then varies `D` times as much as the binomial of
//! independent values, so the ranks that bracket the quantile are those of `n / D` values (the
//! design effect by batch means, [`crate::design_effect`]). `D` is itself an estimate, from few
//! batches: the normal quantile behind binomial ranks is widened to Student's with a degree less
//! than there are batches (Law, "Simulation Modeling and Analysis", ch. 9).

use statrs::function::beta::beta_reg;

use crate::confidence::Confidence;
use crate::design_effect::{BATCHES_DEFAULT, DesignEffect, design_effect};
use crate::estimate::{Estimate, NoEstimate, require_open_unit, require_series};
use crate::order_rank::smallest_n_for_upper_bound;
use crate::quantile::Sorted;
use crate::student_t;

/// Fewest batches that a variance is made from (Schmeiser 1982: 10 to 30 serve best).
pub const BATCHES_MIN: u32 = 10;
/// Fewest values: a batch of one shows no dependence.
pub const VALUES_MIN: u32 = 2 * BATCHES_MIN;

/// How much neighbours depend on each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// By how much the variance of a share of the values exceeds that of independent values, with
    /// what not knowing it exactly adds; never less than 1.
    pub d: f64,
}

impl Dependence {
    /// Values that do not depend on each other.
    pub const NONE: Self = Self { d: 1.0 };

    /// As the series itself shows it, for the indicator "above the p quantile"; for that of the
    /// median where too few values lie beyond the quantile. `None` of a series that is too short.
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
        // Nearly all values are one and the same, and so is every quantile among them.
        let Some((found, batches)) = shown(series, p, batches)? else {
            return Ok(Some(Self::NONE));
        };
        let tail = 1.0 - confidence.alpha() / 2.0;
        let degrees = f64::from(batches - 1);
        let widened = student_t::quantile(tail, degrees)? / normal_quantile(tail)?;
        Ok(Some(Self {
            d: (found.d * widened * widened).max(1.0),
        }))
    }

    /// That of means over `length` neighbours each: what reaches over less than a mean's length
    /// stays within it. Exact for an autoregression of the first order whose memory is shorter than
    /// a mean, whose neighbouring means correlate by `(D^2 - 1) / (4 D length)`; never more than
    /// that of the series itself.
    #[must_use]
    pub fn of_means(self, length: u32) -> Self {
        let length = f64::from(length.max(1));
        let between = (self.d * self.d - 1.0) / (2.0 * self.d * length);
        Self {
            d: (1.0 + between).min(self.d),
        }
    }
}

/// The design effect, with the batches that it rests on. Values that tie at the quantile may leave
/// too few above it for so many batches; then those below tell, or fewer batches do.
fn shown(series: &[f64], p: f64, batches: u32) -> Result<Option<(DesignEffect, u32)>, NoEstimate> {
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

/// Degrees at which Student's distribution is normal for every purpose here.
const DEGREES_MANY: f64 = 1e9;

fn normal_quantile(p: f64) -> Result<f64, NoEstimate> {
    student_t::quantile(p, DEGREES_MANY)
}

/// The `p` quantile (linear) of a series in its order, with an interval that knows how much its
/// neighbours depend on each other; `n` counts values. A series that is too short to show it is
/// taken for independent.
///
/// # Errors
/// As [`Sorted::order_interval`]: also where what the series says does not suffice for a bound.
pub fn interval(series: &[f64], p: f64, confidence: Confidence) -> Result<Estimate, NoEstimate> {
    let shown = Dependence::of(series, p, confidence)?;
    interval_with(series, p, shown.unwrap_or(Dependence::NONE), confidence)
}

/// The same where it is known how much neighbours depend on each other.
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
            what: "values, for as much as their neighbours say",
            have: effective.floor() as u64,
            need: u64::from(need),
        });
    };
    // Ranks among so many effective values as ranks among all, rounded outwards.
    let scale = f64::from(n) / effective;
    let among_all = |rank: f64| ((rank * scale).floor() as u32).clamp(1, n) as usize;
    let values = sorted.values();
    let (lo, hi) = (
        values[outwards(among_all(below), rank_by_normal(n, p, dependence, tail)?) - 1],
        values[values.len()
            - outwards(
                among_all(above),
                rank_by_normal(n, 1.0 - p, dependence, tail)?,
            )],
    );
    Estimate::new(sorted.linear(p)?, lo, hi, n)
}

/// The rank that lies further out: with few effective values the binomial is coarse, and the ranks
/// that the normal approximation of the share gives are the safer ones.
fn outwards(binomial: usize, normal: usize) -> usize {
    binomial.min(normal).max(1)
}

fn rank_by_normal(n: u32, p: f64, dependence: Dependence, tail: f64) -> Result<usize, NoEstimate> {
    let n = f64::from(n);
    let spread = (dependence.d * p * (1.0 - p) / n).sqrt();
    let share = p - normal_quantile(1.0 - tail)? * spread;
    Ok((share * n).floor().max(0.0) as usize)
}

/// The greatest rank, of `n` values that need be no whole number, above which the quantile lies
/// but for the tail; `None` where not even the least value is that low.
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

    /// Windows whose share follows that of the window before: an autoregression of the first order
    /// around 0.5, with a spread of 0.05.
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

    fn new(series: &[f64]) -> Result<Estimate, NoEstimate> {
        interval(series, 0.5, Confidence::P95)
    }

    /// Windows taken for independent.
    fn old(series: &[f64]) -> Result<Estimate, NoEstimate> {
        Sorted::new(series.to_vec())?.order_interval(0.5, Confidence::P95)
    }

    /// In which part of all series the interval holds the true median.
    fn coverage(of: Interval, seed: u64, n: usize, correlation: f64) -> f64 {
        let mut rng = ScheduleRng::new(seed);
        let holds = |_: &usize| {
            of(&windows(&mut rng, n, correlation))
                .unwrap()
                .contains(0.5)
        };
        let held = (0..REPLICATES).filter(holds).count();
        held as f64 / REPLICATES as f64
    }

    #[test]
    fn intervals_of_windows_that_follow_each_other_hold_the_truth() {
        for (seed, (n, correlation)) in SEEDS.into_iter().zip([(600, 0.8), (600, 0.5), (200, 0.6)])
        {
            let covered = coverage(new, seed, n, correlation);
            assert!(
                (0.92..=0.985).contains(&covered),
                "{n} windows, {correlation}: {covered}"
            );
            // Independence claims what is not there.
            let claimed = coverage(old, seed, n, correlation);
            assert!(claimed < 0.85, "{n} windows, {correlation}: {claimed}");
        }
    }

    #[test]
    fn long_windows_know_from_the_short_ones_of_which_they_are_made() {
        let mut rng = ScheduleRng::new(13);
        let (mut claimed, mut held) = (0, 0);
        for _ in 0..REPLICATES {
            let fine = windows(&mut rng, 600, 0.8);
            let means: Vec<f64> = fine
                .chunks(100)
                .map(|c| c.iter().sum::<f64>() / 100.0)
                .collect();
            let shown = Dependence::of(&fine, 0.5, Confidence::P95)
                .unwrap()
                .unwrap();
            let long = shown.of_means(100);
            // Where the short ones depend too much, six long ones claim nothing.
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
    fn independent_windows_keep_their_intervals() {
        let covered = coverage(new, 10, 600, 0.0);
        assert!((0.94..=0.985).contains(&covered), "{covered}");
        let width = |of: Interval| {
            let mut rng = ScheduleRng::new(11);
            let all = (0..50).map(|_| of(&windows(&mut rng, 600, 0.0)).unwrap().half_width());
            all.sum::<f64>()
        };
        let wider = width(new) / width(old);
        assert!((1.0..1.25).contains(&wider), "{wider}");
    }

    #[test]
    fn values_that_tie_at_the_quantile_hide_no_dependence() {
        let steps: Vec<f64> = (0..26).map(|k| f64::from(k / 2)).collect();
        let d = Dependence::of(&steps, 0.5, Confidence::P95)
            .unwrap()
            .unwrap()
            .d;
        assert!(d > 2.0, "{d}");
    }

    #[test]
    fn means_over_many_neighbours_depend_less() {
        let fine = Dependence { d: 9.0 };
        // A correlation of 0.8 between neighbours; means of 100 correlate by 0.022.
        assert!((fine.of_means(100).d - 1.044).abs() < 0.001);
        assert_eq!(fine.of_means(1).d, (80.0_f64 / 18.0 + 1.0).min(9.0));
        assert_eq!(Dependence::NONE.of_means(7), Dependence::NONE);
    }

    #[test]
    fn what_is_too_little_has_no_interval_and_what_never_changes_has_no_width() {
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let with = |d| interval_with(&six, 0.5, Dependence { d }, Confidence::P95);
        assert_eq!(with(1.0).map(|e| (e.lo, e.hi)), Ok((1.0, 6.0)));
        // 5.32 independent values bracket a median with 95 %.
        assert_eq!(with(1.12).map(|e| (e.lo, e.hi)), Ok((1.0, 6.0)));
        assert!(matches!(
            with(1.14),
            Err(NoEstimate::TooFew { have: 5, .. })
        ));
        let still = interval(&[0.25; 100], 0.5, Confidence::P95).unwrap();
        assert_eq!((still.value, still.lo, still.hi), (0.25, 0.25, 0.25));
        assert_eq!(Dependence::of(&six, 0.5, Confidence::P95), Ok(None));
    }

    #[test]
    fn fractions_of_values_lie_between_whole_ones() {
        // Whole numbers give the ranks of `order_rank` (6 and 100, from SciPy).
        for (n, p, want) in [(20.0, 0.5, 6.0), (100.0, 0.9, 84.0), (6.0, 0.5, 1.0)] {
            let rank = lower_rank(n, p, 0.025).unwrap();
            assert!((want..want + 1.0).contains(&rank), "{n} {p}: {rank}");
        }
        assert_eq!(lower_rank(5.0, 0.5, 0.025), None);
    }
}
