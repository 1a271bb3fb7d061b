//! Simulated coverage: a 95 % interval contains the true value in about 95 of 100 replicates.
//!
//! Seeds are fixed, so the result is deterministic. With 3000 replicates the accepted bands are
//! five standard errors (0.4 %) from the nominal rate: they find defects such as a normal quantile
//! in place of Student's (11 % false alarms at 6 blocks). The golden values beside each formula
//! find smaller ones, such as a divisor of n in place of n - 1 (7 % at 6 blocks).

use gpubench_stats::two_sample::{new_against_baseline, welch};
use gpubench_stats::{Confidence, Effect, LogRatio, ScheduleRng};

const SEEDS: [u64; 3] = [20_260_101, 20_260_102, 20_260_103];
const REPLICATES: u32 = 3000;
const FALSE_POSITIVES: std::ops::RangeInclusive<f64> = 0.03..=0.07;
const COVERAGE: std::ops::RangeInclusive<f64> = 0.93..=0.97;

/// Standard normal by Box and Muller.
fn normal(rng: &mut ScheduleRng) -> f64 {
    let angle = std::f64::consts::TAU * rng.uniform();
    (2.0 * rng.exponential()).sqrt() * angle.cos()
}

/// One block: two cells that share the block's disturbance and differ by the true ratio.
fn block(rng: &mut ScheduleRng, truth: f64) -> (f64, f64) {
    let shared = 0.05 * normal(rng);
    let cell = |rng: &mut ScheduleRng| 1000.0 * (shared + 0.02 * normal(rng)).exp();
    (truth * cell(rng), cell(rng))
}

/// The share of replicates for which `holds` is true.
fn rate(seed: u64, mut holds: impl FnMut(&mut ScheduleRng) -> bool) -> f64 {
    let mut rng = ScheduleRng::new(seed);
    let count = (0..REPLICATES).filter(|_| holds(&mut rng)).count();
    count as f64 / f64::from(REPLICATES)
}

fn paired(rng: &mut ScheduleRng, blocks: usize, truth: f64) -> LogRatio {
    let (a, b): (Vec<f64>, Vec<f64>) = (0..blocks).map(|_| block(rng, truth)).unzip();
    LogRatio::paired(&a, &b).unwrap()
}

#[test]
fn equal_conditions_differ_significantly_in_one_of_twenty() {
    for (seed, blocks) in SEEDS.into_iter().zip([6, 8, 20]) {
        let false_positives = rate(seed, |rng| {
            let interval = paired(rng, blocks, 1.0).interval(Confidence::P95).unwrap();
            !interval.contains(1.0)
        });
        assert!(
            FALSE_POSITIVES.contains(&false_positives),
            "seed {seed}, {blocks} blocks: {false_positives}"
        );
    }
}

#[test]
fn intervals_contain_the_true_ratio() {
    for ((seed, blocks), truth) in SEEDS.into_iter().zip([6, 8, 20]).zip([0.5, 0.95, 1.1]) {
        let coverage = rate(seed, |rng| {
            paired(rng, blocks, truth).interval(Confidence::P95).unwrap().contains(truth)
        });
        assert!(COVERAGE.contains(&coverage), "seed {seed}, {blocks} blocks: {coverage}");
    }
}

#[test]
fn equal_sessions_differ_significantly_in_one_of_twenty() {
    let night = |rng: &mut ScheduleRng| 0.01 * normal(rng);
    let excludes_zero = |effect: Effect| !effect.interval(Confidence::P95).unwrap().contains(0.0);
    for seed in SEEDS {
        let of_welch = rate(seed, |rng| {
            let nights = |rng: &mut ScheduleRng| (0..4).map(|_| night(rng)).collect::<Vec<f64>>();
            let (a, b) = (nights(rng), nights(rng));
            excludes_zero(welch(&a, &b).unwrap())
        });
        let of_prediction = rate(seed, |rng| {
            let baseline: Vec<f64> = (0..10).map(|_| night(rng)).collect();
            excludes_zero(new_against_baseline(&baseline, &[night(rng)]).unwrap())
        });
        assert!(FALSE_POSITIVES.contains(&of_welch), "seed {seed}: {of_welch}");
        assert!(FALSE_POSITIVES.contains(&of_prediction), "seed {seed}: {of_prediction}");
    }
}

#[test]
fn equivalence_is_shown_falsely_in_at_most_one_of_twenty() {
    // The truth lies exactly on the margin, the hardest case of "no change".
    for seed in SEEDS {
        let false_shown = rate(seed, |rng| {
            let effect = paired(rng, 8, 0.03_f64.exp()).effect().unwrap();
            let interval = effect.interval(Confidence::P90).unwrap();
            -0.03 < interval.lo && interval.hi < 0.03
        });
        assert!((0.03..=0.07).contains(&false_shown), "seed {seed}: {false_shown}");
    }
}
