//! Coverage of the intervals, by simulation, and their bounds.

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
    for (seed, (n, correlation)) in SEEDS.into_iter().zip([(600, 0.8), (600, 0.5), (200, 0.6)]) {
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
