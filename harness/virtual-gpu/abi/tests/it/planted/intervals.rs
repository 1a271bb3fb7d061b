//! Comparison with a planted value: within one percent without noise; with noise, in 95 % intervals
//! as often as their level says.

/// Number of seeds, and values per interval.
pub const SEEDS: usize = 200;
pub const EACH: usize = 8;
/// Two-sided 95 % quantile of Student's t with seven degrees of freedom.
const T_7: f64 = 2.364_624;

/// Within one percent.
pub fn near(found: f64, want: f64, what: &str) {
    assert!((found / want - 1.0).abs() < 0.01, "{what}: {found} is not {want}");
}

/// The value lies in 92 to 98 % of the seeds' Student intervals.
pub fn covered(values: &[f64], want: f64, what: &str) {
    let n = EACH as f64;
    let holds = |seed: &&[f64]| {
        let mean = seed.iter().sum::<f64>() / n;
        let variance = seed.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
        assert!(variance > 0.0, "{what}: no noise in {seed:?}");
        (mean - want).abs() <= T_7 * (variance / n).sqrt()
    };
    assert_eq!(values.len(), EACH * SEEDS, "{what}");
    let held = values.chunks_exact(EACH).filter(holds).count();
    assert!(
        (SEEDS * 92..=SEEDS * 98).contains(&(held * 100)),
        "{what}: {want} is in {held} of {SEEDS} intervals"
    );
}

/// The probability lies in the seeds' Clopper-Pearson intervals. Those contain it in at least 95 %
/// of runs (Clopper, Pearson, Biometrika 26, 1934), so of 200 runs in at least 184 with a
/// probability of at least 0.97. All trials together lie within three standard errors of it.
pub fn covered_chance(counts: &[u64], of: u64, chance: f64, what: &str) {
    assert_eq!(counts.len(), SEEDS, "{what}");
    let holds = |&&count: &&u64| {
        let (lo, hi) = clopper_pearson(count, of);
        (lo..=hi).contains(&chance)
    };
    let held = counts.iter().filter(holds).count();
    assert!(held >= 184, "{what}: {chance} is in {held} of {SEEDS} intervals");
    let trials = of as f64 * SEEDS as f64;
    let share = counts.iter().sum::<u64>() as f64 / trials;
    let error = (chance * (1.0 - chance) / trials).sqrt();
    assert!((share - chance).abs() < 3.0 * error, "{what}: {share} is not {chance}");
}

/// Two-sided 95 % interval of a proportion, by bisection.
fn clopper_pearson(count: u64, of: u64) -> (f64, f64) {
    const TAIL: f64 = 0.025;
    // The probability of `count` or fewer falls as `chance` grows.
    let at_most = |count: u64, chance: f64| -> f64 {
        let mut term = (1.0 - chance).powi(of as i32);
        let mut sum = term;
        for k in 1..=count {
            term *= (of - k + 1) as f64 / k as f64 * chance / (1.0 - chance);
            sum += term;
        }
        sum
    };
    let chance_at = |count: u64, probability: f64| -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if at_most(count, middle) > probability {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    };
    let low = count.checked_sub(1).map_or(0.0, |below| chance_at(below, 1.0 - TAIL));
    let high = if count == of { 1.0 } else { chance_at(count, TAIL) };
    (low, high)
}

#[test]
fn the_interval_of_a_proportion_is_the_published_one() {
    // 0, 4 and 20 of 20: 0 to 0.1684, 0.0573 to 0.4366, 0.8316 to 1 (tables of the method).
    for (count, low, high) in [(0, 0.0, 0.1684), (4, 0.0573, 0.4366), (20, 0.8316, 1.0)] {
        let (found_low, found_high) = clopper_pearson(count, 20);
        assert!(
            (found_low - low).abs() < 1e-4 && (found_high - high).abs() < 1e-4,
            "{count}: {found_low} to {found_high}"
        );
    }
}
