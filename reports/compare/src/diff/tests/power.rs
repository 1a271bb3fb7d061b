//! Planted changes are found as often as the printed smallest detectable change says.

use gpubench_record::Margins;
use gpubench_stats::power::Test;
use gpubench_stats::{Confidence, ScheduleRng};

use super::super::{Verdict, margin_of};
use super::{PRIMARY, World, compared, row, side};
use crate::session::Metric;

const REPLICATES: u32 = 1000;

#[test]
fn planted_changes_are_found_with_the_power_that_is_promised() {
    // One mechanism, so three rows: the family is that of the plan, whatever its size.
    for (sessions, worse, sd) in [
        (4, 0.05, 0.02),
        (4, 0.10, 0.015),
        (8, 0.05, 0.03),
        (8, 0.10, 0.03),
        // At the margin of the 99th percentile.
        (8, 0.11, 0.01),
    ] {
        let world = World { sessions, mechanisms: 1, sd, worse: 0.0 };
        let mut found = [0_u32; 3];
        let mut promised = [0.0; 3];
        let mut rng = ScheduleRng::new(u64::from(sessions));
        for _ in 0..REPLICATES {
            let before = side("a", world, &mut rng);
            let after = side("b", World { worse, ..world }, &mut rng);
            let report = compared(&before, &after);
            for (at, metric) in PRIMARY.into_iter().enumerate() {
                let row = row(&report, 0, metric);
                found[at] += u32::from(row.verdict == Verdict::Regressed);
                // Welch's degrees of freedom follow from the two deviations: 3 to 6 for 4 + 4
                // sessions. The promise is that of the printed ones, by the true spread.
                let test =
                    Test { df: row.figures.as_ref().unwrap().df, ..test(sessions, sd, metric) };
                promised[at] += test.power(worse).unwrap() / f64::from(REPLICATES);
            }
        }
        for (at, metric) in PRIMARY.into_iter().enumerate() {
            let (actual, promised) = (f64::from(found[at]) / f64::from(REPLICATES), promised[at]);
            assert!(
                (actual - promised).abs() < 0.05,
                "{metric:?}, {sessions} sessions, {worse}: {actual}, promised {promised}"
            );
        }
    }
}

/// The test of one row by the true spread.
fn test(sessions: u32, sd: f64, metric: Metric) -> Test {
    let n = f64::from(sessions);
    Test {
        se: sd * (2.0 / n).sqrt(),
        df: 2.0 * n - 2.0,
        confidence: Confidence::simultaneous(0.05, 3).unwrap(),
        margin: margin_of(Margins::default(), metric, 0.0),
    }
}

#[test]
fn the_printed_detectable_change_is_found_in_four_of_five_comparisons() {
    for sessions in [4, 8] {
        let world = World { sessions, mechanisms: 1, sd: 0.02, worse: 0.0 };
        let mut rng = ScheduleRng::new(7);
        // What a reader sees: the median of what single comparisons print.
        let mut printed: Vec<f64> = (0..200)
            .map(|_| {
                let report = compared(&side("a", world, &mut rng), &side("b", world, &mut rng));
                let figures = row(&report, 0, Metric::Retention).figures.as_ref();
                figures.unwrap().detectable.unwrap().ln_1p()
            })
            .collect();
        printed.sort_by(f64::total_cmp);
        let power = test(sessions, world.sd, Metric::Retention).power(printed[100]).unwrap();
        assert!((power - 0.8).abs() < 0.08, "{sessions} sessions: {power}");
    }
}

#[test]
fn changes_below_the_margin_are_no_regression() {
    for (sessions, worse) in [(4, 0.01), (4, 0.02), (8, 0.01), (8, 0.02)] {
        let world = World { sessions, mechanisms: 1, sd: 0.003, worse: 0.0 };
        let mut rng = ScheduleRng::new(11);
        for _ in 0..REPLICATES {
            let before = side("a", world, &mut rng);
            let report = compared(&before, &side("b", World { worse, ..world }, &mut rng));
            for metric in PRIMARY {
                let verdict = row(&report, 0, metric).verdict;
                assert!(
                    matches!(verdict, Verdict::Unchanged | Verdict::Inconclusive),
                    "{verdict:?} for {worse}"
                );
            }
        }
    }
}
