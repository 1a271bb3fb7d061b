//! Properties that hold for every input: containment, order independence, scaling, monotonicity.

use gpubench_stats::proportion::clopper_pearson;
use gpubench_stats::ratio;
use gpubench_stats::ratio::RatioSet;
use gpubench_stats::two_sample::{benjamini_hochberg, holm, welch};
use gpubench_stats::{Confidence, Estimate, LogRatio, ScheduleRng, Sorted, poisson_schedule_ns};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Rates and durations as they occur: six orders of magnitude.
fn positive() -> impl Strategy<Value = f64> {
    1e-3..1e3_f64
}

fn pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
    vec((positive(), positive()), 2..24)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

fn split(pairs: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    pairs.iter().copied().unzip()
}

fn ratio(a: &[f64], b: &[f64]) -> Estimate {
    LogRatio::paired(a, b).unwrap().interval(Confidence::P95).unwrap()
}

proptest! {
    // One seed, so that a run repeats; no failure files: a failure is reported with its input,
    // which becomes a test of its own.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn swapping_the_conditions_gives_the_reciprocal(pairs in pairs()) {
        let (a, b) = split(&pairs);
        let (there, back) = (ratio(&a, &b), ratio(&b, &a));
        prop_assert!(there.contains(there.value));
        prop_assert!(near(there.value, 1.0 / back.value), "{there:?} {back:?}");
        prop_assert!(near(there.lo, 1.0 / back.hi), "{there:?} {back:?}");
        prop_assert!(near(there.hi, 1.0 / back.lo), "{there:?} {back:?}");
    }

    #[test]
    fn a_ratio_depends_on_neither_the_unit_nor_the_order_of_blocks(
        pairs in pairs(), unit in positive(), seed: u64
    ) {
        let (a, b) = split(&pairs);
        let scaled = |v: &[f64]| v.iter().map(|x| x * unit).collect::<Vec<f64>>();
        let (plain, other) = (ratio(&a, &b), ratio(&scaled(&a), &scaled(&b)));
        prop_assert!(near(plain.lo, other.lo) && near(plain.hi, other.hi), "{plain:?} {other:?}");

        let mut shuffled = pairs.clone();
        ScheduleRng::new(seed).shuffle(&mut shuffled);
        let (a, b) = split(&shuffled);
        // Not nearly equal but equal: reports of one record must not differ.
        prop_assert_eq!(ratio(&a, &b), plain);
    }

    #[test]
    fn a_ratio_with_itself_is_exactly_one(values in vec(positive(), 2..24)) {
        let actual = ratio(&values, &values);
        prop_assert_eq!((actual.lo, actual.value, actual.hi), (1.0, 1.0, 1.0));
    }

    #[test]
    fn more_confidence_never_narrows_an_interval(pairs in pairs()) {
        let (a, b) = split(&pairs);
        let logs = LogRatio::paired(&a, &b).unwrap();
        let narrow = logs.interval(Confidence::P90).unwrap();
        let wide = logs.interval(Confidence::P95).unwrap();
        prop_assert!(wide.lo <= narrow.lo && narrow.hi <= wide.hi);
    }

    #[test]
    fn p_and_interval_agree_about_zero(values in vec(-1.0..1.0_f64, 2..24)) {
        let effect = LogRatio::from_logs(values).unwrap().effect().unwrap();
        let p = effect.two_sided_p().unwrap();
        let interval = effect.interval(Confidence::P95).unwrap();
        // Away from the very edge, where rounding decides.
        prop_assume!((p - 0.05).abs() > 1e-9);
        prop_assert_eq!(p < 0.05, !interval.contains(0.0));
    }

    #[test]
    fn welch_mirrors_and_scales(
        a in vec(-1.0..1.0_f64, 2..12), b in vec(-1.0..1.0_f64, 2..12), unit in positive()
    ) {
        let (there, back) = (welch(&a, &b).unwrap(), welch(&b, &a).unwrap());
        prop_assert_eq!((there.value, there.se, there.df), (-back.value, back.se, back.df));
        let scaled = |v: &[f64]| v.iter().map(|x| x * unit).collect::<Vec<f64>>();
        let other = welch(&scaled(&a), &scaled(&b)).unwrap();
        prop_assert!(near(there.se * unit, other.se) && near(there.df, other.df));
        let min_df = (a.len().min(b.len()) - 1) as f64;
        let max_df = (a.len() + b.len() - 2) as f64;
        prop_assert!(min_df - 1e-9 <= there.df && there.df <= max_df + 1e-9);
    }

    #[test]
    fn quantiles_rise_with_p_and_stay_inside(
        values in vec(-1e6..1e6_f64, 1..200), p in 0.0..=1.0_f64, q in 0.0..=1.0_f64
    ) {
        let sorted = Sorted::new(values).unwrap();
        let (low, high) = (p.min(q), p.max(q));
        // Halfway between neighbours the formula changes sides, which may cost a last digit.
        let (lower, upper) = (sorted.linear(low).unwrap(), sorted.linear(high).unwrap());
        prop_assert!(lower <= upper + 1e-15 * upper.abs().max(sorted.max() - sorted.min()));
        prop_assert!(sorted.nearest_rank(low).unwrap() <= sorted.nearest_rank(high).unwrap());
        let at = sorted.linear(p).unwrap();
        prop_assert!(sorted.min() <= at && at <= sorted.max());
        let nearest = sorted.nearest_rank(p).unwrap();
        prop_assert!(sorted.values().contains(&nearest));
        let share = sorted.values().iter().filter(|&&v| v <= nearest).count() as f64;
        prop_assert!(share >= p * f64::from(sorted.count()) - 1e-9);
    }

    #[test]
    fn order_intervals_contain_their_quantile(
        values in vec(-1e6..1e6_f64, 40..400), p in 0.1..0.9_f64
    ) {
        let sorted = Sorted::new(values).unwrap();
        let wide = sorted.order_interval(p, Confidence::P95).unwrap();
        let narrow = sorted.order_interval(p, Confidence::P90).unwrap();
        prop_assert_eq!(narrow.value, sorted.linear(p).unwrap());
        for end in [wide.lo, narrow.lo, narrow.hi, wide.hi] {
            prop_assert!(sorted.values().contains(&end), "{}", end);
        }
        prop_assert!(wide.lo <= narrow.lo && narrow.lo <= narrow.value);
        prop_assert!(narrow.value <= narrow.hi && narrow.hi <= wide.hi);
    }

    #[test]
    fn proportions_mirror_and_contain(n in 1..400_u32, share in 0.0..=1.0_f64) {
        let k = (share * f64::from(n)) as u32;
        let actual = clopper_pearson(k, n, Confidence::P95).unwrap();
        let other = clopper_pearson(n - k, n, Confidence::P95).unwrap();
        prop_assert!(actual.contains(actual.value));
        prop_assert!(near(actual.lo, 1.0 - other.hi) && near(actual.hi, 1.0 - other.lo));
        if k < n {
            let more = clopper_pearson(k + 1, n, Confidence::P95).unwrap();
            prop_assert!(more.lo > actual.lo);
        }
    }

    #[test]
    fn a_fieller_set_contains_its_estimate_and_mirrors(pairs in pairs()) {
        let (x, y) = split(&pairs);
        let negative: Vec<f64> = x.iter().map(|v| -v).collect();
        let set = ratio::paired(&x, &y, Confidence::P95).unwrap();
        let mirrored = ratio::paired(&negative, &y, Confidence::P95).unwrap();
        match (set, mirrored) {
            (RatioSet::Bounded(a), RatioSet::Bounded(b)) => {
                prop_assert!(a.contains(a.value));
                prop_assert!(near(a.lo, -b.hi) && near(a.hi, -b.lo), "{a:?} {b:?}");
            }
            (RatioSet::Outside { value, below, above, .. }, RatioSet::Outside { .. }) => {
                prop_assert!(below < above && (value <= below || above <= value), "{set:?}");
            }
            (RatioSet::Everything { .. }, RatioSet::Everything { .. }) => {}
            other => prop_assert!(false, "not mirrored: {other:?}"),
        }
    }

    #[test]
    fn adjusted_p_values_are_ordered_by_strictness(p in vec(0.0..=1.0_f64, 1..30)) {
        let (loose, step) = (benjamini_hochberg(&p).unwrap(), holm(&p).unwrap());
        for row in 0..p.len() {
            let bonferroni = (p[row] * p.len() as f64).min(1.0);
            prop_assert!(p[row] <= loose[row] + 1e-15);
            prop_assert!(loose[row] <= step[row] + 1e-12 && step[row] <= bonferroni + 1e-12);
        }
    }

    #[test]
    fn a_longer_schedule_begins_with_the_shorter_one(
        rate_per_s in 1.0..1e5_f64, ms in 0..50_u64, seed: u64
    ) {
        let short = poisson_schedule_ns(rate_per_s, ms * 1_000_000, seed).unwrap();
        let long = poisson_schedule_ns(rate_per_s, 2 * ms * 1_000_000, seed).unwrap();
        prop_assert!(long.starts_with(&short));
        prop_assert!(long.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
