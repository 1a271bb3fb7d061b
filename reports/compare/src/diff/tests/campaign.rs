//! Many simulated comparisons: changes are found and equality is shown as often as Student's t, and
//! that of Welch where the sides spread differently, allows, and equal drivers rarely have another
//! verdict.

use gpubench_stats::student_t::{two_sided_p, two_sided_quantile};
use gpubench_stats::two_sample::variance_ratio_p;

use super::repeated::with_repeats;
use super::*;

const SIZES: [u32; 3] = [3, 4, 6];
/// Rows of a family, all of retention.
const ROWS: u32 = 27;

/// Rows of retention alone, all lower by `loss`.
fn retentions(name: &str, world: World, loss: f64, rng: &mut ScheduleRng) -> Vec<Session> {
    let mut side = side(name, World { mechanisms: ROWS, ..world }, rng);
    for session in &mut side {
        session.rows.retain(|key, _| key.metric == Metric::Retention);
        for row in session.rows.values_mut() {
            if let Row::Measured(series) = row {
                series.blocks.iter_mut().for_each(|log| *log += (-loss).ln_1p());
            }
        }
    }
    side
}

/// P(Z > z) of the normal distribution.
fn upper_normal(z: f64) -> f64 {
    let beyond = two_sided_p(z, 1e9).unwrap() / 2.0;
    if z < 0.0 { 1.0 - beyond } else { beyond }
}

fn family() -> Confidence {
    Confidence::simultaneous(0.05, ROWS).unwrap()
}

/// Half-widths of the intervals of the family and of equivalence between so many sessions a side
/// of deviation 1: with Student's degrees of freedom, or Welch's where an F test says that they
/// differ.
fn half_widths(sessions: u32, is_student: bool) -> Vec<[f64; 2]> {
    let (n, mut rng) = (f64::from(sessions), ScheduleRng::new(u64::from(sessions)));
    let of_a_side = |rng: &mut ScheduleRng| {
        (1..sessions).map(|_| normal(rng).powi(2)).sum::<f64>() / (n - 1.0) / n
    };
    let draw = |_| {
        let [one, two] = [(); 2].map(|()| of_a_side(&mut rng));
        let welch = (one + two).powi(2) / (one.powi(2) + two.powi(2)) * (n - 1.0);
        let ratio = one.max(two) / one.min(two);
        let differ = 2.0 * variance_ratio_p(ratio, n - 1.0, n - 1.0).unwrap() < 0.10;
        let df = if differ && !is_student { welch } else { 2.0 * n - 2.0 };
        [family(), Confidence::P90].map(|confidence| {
            two_sided_quantile(confidence.alpha(), df).unwrap() * (one + two).sqrt()
        })
    };
    (0..4000).map(draw).collect()
}

/// The shares of rows that are found and that are shown to be equal, for a change by `effect`. The
/// estimate is normal and does not depend on the half-widths.
fn allowed(half_widths: &[[f64; 2]], test: Test, sd: f64, effect: f64) -> [f64; 2] {
    let above = |bound: f64| upper_normal((bound - effect) / test.se);
    let mut shares = [0.0; 2];
    for [of_family, of_equivalence] in half_widths {
        let room = (test.margin - of_equivalence * sd).max(0.0);
        shares[0] += above((of_family * sd).max(test.margin));
        shares[1] += above(-room) - above(room);
    }
    shares.map(|sum| sum / half_widths.len() as f64)
}

#[test]
#[expect(clippy::print_stdout, reason = "the shares are the result")]
fn changes_are_found_and_equality_is_shown_as_often_as_the_rule_allows() {
    let mut rng = ScheduleRng::new(1);
    println!("sessions, spread, loss: % of rows found and equal | by the rule | by Student's t");
    let families = replicates(75, 25);
    let cases = [0.005, 0.01, 0.02].map(|sd| [0.0, 0.05, 0.10, 0.20].map(|loss| (sd, loss)));
    for sessions in SIZES {
        let drawn = [false, true].map(|is_student| half_widths(sessions, is_student));
        for (sd, loss) in cases.into_iter().flatten() {
            let (mut rows, world) = ([0; 2], World { sessions, sd, ..WORLD });
            for _ in 0..families {
                let before = retentions("a", world, 0.0, &mut rng);
                let report = compared(&before, &retentions("b", world, loss, &mut rng));
                assert_eq!(report.family.rows, ROWS);
                rows[0] += report.counts.regressed;
                rows[1] += report.counts.unchanged;
            }
            let found = rows.map(|rows| f64::from(rows) / f64::from(ROWS * families));
            let effect = -(-loss).ln_1p();
            let test = Test { confidence: family(), ..test(sessions, sd, Metric::Retention) };
            let [rule, student] = [0, 1].map(|at| allowed(&drawn[at], test, sd, effect));
            let percent = |shares: [f64; 2]| shares.map(|share| (1e3 * share).round() / 10.0);
            println!(
                "{sessions} + {sessions}, {sd}, {loss}: {:?} | {:?} | {:?}",
                percent(found),
                percent(rule),
                percent(student)
            );
            // The noncentral t, integrated in another way.
            assert!((student[0] - test.power(effect).unwrap()).abs() < 0.02);
            for (found, rule) in found.into_iter().zip(rule) {
                assert!((found - rule).abs() <= 0.05, "{found}, allowed {rule}");
            }
        }
    }
}

/// Beside a spread of 5 % the margins hide no false verdict; at 0.2 % rows are shown to be equal.
#[test]
#[expect(clippy::print_stdout, reason = "the shares are the result")]
fn equal_drivers_rarely_have_another_verdict() {
    let mut rng = ScheduleRng::new(2);
    let number_of = replicates(1000, 250);
    for (sizes, sd) in [([3; 3], 0.002), (SIZES, 0.05)] {
        let [mut rows, mut equal, mut changed, mut comparisons] = [0; 4];
        for number in 0..number_of as usize {
            let world = World { sessions: sizes[number % 3], sd, ..WORLD };
            let before = with_repeats(world, "a", &mut rng);
            let counts = compared(&before, &with_repeats(world, "b", &mut rng)).counts;
            let changes = counts.regressed + counts.improved;
            rows += 3 * MECHANISMS;
            equal += counts.unchanged;
            changed += changes;
            comparisons += u32::from(changes > 0);
        }
        println!(
            "{sd}: {rows} rows, {equal} equal, {changed} changed in {comparisons} of {number_of}"
        );
        assert!(100 * changed <= rows && 20 * comparisons <= number_of);
        assert!(sd > 0.002 || 10 * equal >= 9 * rows);
    }
}
