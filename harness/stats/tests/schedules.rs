//! Arrival schedules against the processes that they claim, by Kolmogorov-Smirnov tests.

use gpubench_stats::{Bursts, poisson_schedule_ns, schedule_ns};

const SECOND_NS: u64 = 1_000_000_000;
const SEEDS: u64 = 400;

/// The probability of a distance at least as large, for `n` values of the distribution:
/// Kolmogorov's limit with Stephens' correction for small n (JRSS B 32(1), 1970).
fn p_value(distance: f64, n: usize) -> f64 {
    let root = (n as f64).sqrt();
    let x = (root + 0.12 + 0.11 / root) * distance;
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * x * x).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

/// The largest distance between the values' distribution and the uniform one on 0 to 1.
fn distance(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let ends = values.iter().enumerate().map(|(at, value)| {
        let at = at as f64;
        (value - at / n).max((at + 1.0) / n - value)
    });
    ends.fold(0.0, f64::max)
}

/// The share of seeds whose test rejects at 5 %.
fn rejected(uniform: impl Fn(u64) -> Vec<f64>) -> f64 {
    let rejects = (0..SEEDS).filter(|&seed| {
        let values = uniform(seed);
        let n = values.len();
        p_value(distance(values), n) < 0.05
    });
    rejects.count() as f64 / SEEDS as f64
}

fn gaps_ns(arrivals_ns: &[u64]) -> Vec<f64> {
    let before = std::iter::once(&0).chain(arrivals_ns);
    let gaps = before.zip(arrivals_ns).map(|(before, at)| at - before);
    gaps.map(|gap| gap as f64).collect()
}

/// A test at 5 % rejects 20 of 400 with a deviation of 4.4, so between 0.018 and 0.083 in all but
/// one case in 300.
fn is_at_the_level(share: f64) -> bool {
    (0.018..=0.083).contains(&share)
}

#[test]
fn gaps_of_a_poisson_schedule_are_exponential() {
    for rate_per_s in [100.0, 250.0, 4_000.0] {
        // The first gaps: the last ones are cut off by the end of the schedule.
        let share = rejected(|seed| {
            let duration_ns = (400.0 / rate_per_s * SECOND_NS as f64) as u64;
            let all = poisson_schedule_ns(rate_per_s, duration_ns, seed).expect("a schedule");
            let gaps = gaps_ns(&all);
            let first = gaps.iter().take(300);
            first.map(|gap| 1.0 - (-gap * rate_per_s / 1e9).exp()).collect()
        });
        assert!(is_at_the_level(share), "{rate_per_s} per s: {share}");
    }
}

#[test]
fn the_test_rejects_other_schedules() {
    // Equal distances, and bursts.
    let even = rejected(|_| vec![1.0 - (-1.0_f64).exp(); 300]);
    assert!(even > 0.99, "{even}");
    let bursts = Some(Bursts { requests: 10.0, peak: 4.0 });
    let share = rejected(|seed| {
        let all = schedule_ns(300.0, SECOND_NS, seed, bursts).expect("a schedule");
        let gaps = gaps_ns(&all);
        gaps.iter().map(|gap| 1.0 - (-gap * 300.0 / 1e9).exp()).collect()
    });
    assert!(share > 0.9, "{share}");
}
