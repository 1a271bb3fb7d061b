//! Whole comparisons of simulated sessions.
//!
//! A session has one value of its own for each row, and blocks around it. The generator is seeded:
//! every figure here is the same on every run.

mod campaign;
mod doubts;
mod repeated;

use std::collections::BTreeMap;
use std::sync::Arc;

use gpubench_record::{ExitCode, Margins};
use gpubench_stats::power::Test;
use gpubench_stats::{Confidence, ScheduleRng};

use gpubench_show::Look;

use super::{DiffRow, FailOn, Options, Report, Verdict, diff, margin_of};
use crate::history::Baseline;
use crate::render::{self, Detail, Format};
use crate::session::{Bounds, Dose, Metric, Parts, Row, RowKey, Series, Session};

/// Rows of three metrics under nine mechanisms: a family of 27.
const MECHANISMS: u32 = 9;
const PRIMARY: [Metric; 3] = [Metric::Retention, Metric::P99, Metric::Jitter];

#[derive(Clone, Copy)]
struct World {
    sessions: u32,
    mechanisms: u32,
    /// Standard deviation between sessions, on the scale of the blocks.
    sd: f64,
    /// How much worse the first mechanism is, on the same scale.
    worse: f64,
}

fn normal(rng: &mut ScheduleRng) -> f64 {
    // Box and Muller.
    (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

fn key(mechanism: u32, metric: Metric) -> RowKey {
    RowKey {
        variant: format!("m{mechanism}"),
        axis: "bandwidth/dram".to_owned(),
        victim: "stream".to_owned(),
        aggressor: Some("dram-copy".to_owned()),
        dose: None,
        metric,
    }
}

fn session(name: &str, world: World, rng: &mut ScheduleRng) -> Session {
    let mut rows = BTreeMap::new();
    for mechanism in 0..world.mechanisms {
        for metric in PRIMARY.into_iter().chain([Metric::Guarantee]) {
            let planted = if mechanism == 0 { world.worse } else { 0.0 };
            let centre = planted * metric.worse() + world.sd * normal(rng);
            let series = Series {
                blocks: [-0.01, 0.005, 0.005].map(|x| x + centre).to_vec(),
                bounds: Bounds::default(),
                is_bound: false,
                cycles: Vec::new(),
                ln_clock: None,
                ln_power: None,
                parts: Parts { native: Some(0.0), solo: Some(0.0), contended: Some(planted) },
            };
            rows.insert(key(mechanism, metric).into(), Row::Measured(series));
        }
    }
    Session {
        facts: Arc::new(
            ["driver", "profile", "calibration", "device"]
                .map(|name| (name.to_owned(), "one".to_owned()))
                .into(),
        ),
        rows,
        ..Session::empty(name)
    }
}

fn side(name: &str, world: World, rng: &mut ScheduleRng) -> Vec<Session> {
    (0..world.sessions).map(|n| session(&format!("{name}{n}"), world, rng)).collect()
}

fn compared(before: &[Session], after: &[Session]) -> Report {
    diff(before, after, &Options::default()).unwrap()
}

fn row(report: &Report, mechanism: u32, metric: Metric) -> &DiffRow {
    let wanted = key(mechanism, metric);
    report.rows.iter().find(|row| row.key == wanted).unwrap()
}

/// So many of a simulated campaign; all of them in `bash ci/long.sh statistics`.
fn replicates(whole: u32, quick: u32) -> u32 {
    if std::env::var_os("GPUBENCH_WHOLE").is_some() { whole } else { quick }
}

const WORLD: World = World { sessions: 4, mechanisms: MECHANISMS, sd: 0.01, worse: 0.0 };

#[test]
fn swapping_the_sides_mirrors_every_verdict() {
    let mut rng = ScheduleRng::new(5);
    for (sessions, worse) in [(1, 0.2), (2, 0.2), (4, 0.2), (4, 0.0), (11, 0.02)] {
        let world = World { sessions, ..WORLD };
        for other in [sessions, 1] {
            let before = side("a", world, &mut rng);
            let after = side("b", World { sessions: other, worse, ..world }, &mut rng);
            let (there, back) = (compared(&before, &after), compared(&after, &before));
            assert_eq!(there.rows.len(), back.rows.len());
            for (one, two) in there.rows.iter().zip(&back.rows) {
                let mirrored = match one.verdict {
                    Verdict::Regressed => Verdict::Improved,
                    Verdict::Improved => Verdict::Regressed,
                    same => same,
                };
                assert_eq!(two.verdict, mirrored, "{one:?}");
                assert_eq!((one.confirmed, one.hint), (two.confirmed, two.hint));
            }
        }
    }
}

#[test]
fn a_side_against_itself_is_no_regression() {
    for sessions in [1, 2, 4, 12] {
        for seed in 0..50 {
            let mut rng = ScheduleRng::new(seed);
            let one = side("a", World { sessions, sd: 0.1, ..WORLD }, &mut rng);
            let report = compared(&one, &one);
            assert_eq!(report.counts.regressed + report.counts.improved, 0);
            assert_ne!(report.exit_code(), ExitCode::Regression);
        }
    }
}

#[test]
fn a_row_that_one_side_lacks_changes_no_other_row() {
    let mut rng = ScheduleRng::new(9);
    let before = side("a", WORLD, &mut rng);
    let after = side("b", World { worse: 0.2, ..WORLD }, &mut rng);
    let whole = compared(&before, &after);
    for (row, verdict) in [
        (None, Verdict::NotMeasured),
        (Some(Row::Invalid("no proof".to_owned())), Verdict::Invalid),
        (Some(Row::NotMeasured("waived".to_owned())), Verdict::NotMeasured),
    ] {
        let mut partial = after.clone();
        for metric in PRIMARY {
            for session in &mut partial {
                session.rows.remove(&key(3, metric));
                session.rows.extend(row.clone().map(|row| (key(3, metric).into(), row)));
            }
        }
        let found = compared(&before, &partial);
        assert_eq!(found.family, whole.family);
        assert_eq!(found.counts.lost, 3);
        for (one, two) in whole.rows.iter().zip(&found.rows) {
            if one.key.variant == "m3" && one.primary {
                assert_eq!((two.verdict, &two.figures), (verdict, &None));
                assert!(two.reason.is_some());
            } else {
                // An adjusted p value may rise where the lost row was a stronger one.
                assert_eq!((one.verdict, one.confirmed), (two.verdict, two.confirmed));
                let ends = |row: &DiffRow| row.figures.as_ref().map(|f| (f.change, f.lo, f.hi));
                assert_eq!(ends(one), ends(two));
            }
        }
    }
}

#[test]
fn each_exit_status_has_its_comparison() {
    let mut rng = ScheduleRng::new(13);
    let world = World { sd: 0.001, ..WORLD };
    let before = side("a", world, &mut rng);
    let equal = side("b", world, &mut rng);
    let slower = side("c", World { worse: 0.3, ..world }, &mut rng);
    let noisy = side("d", World { sd: 0.1, ..world }, &mut rng);
    let mut other = equal.clone();
    for session in &mut other {
        Arc::make_mut(&mut session.facts).insert("driver".to_owned(), "two".to_owned());
    }
    let code = |before: &[Session], after: &[Session], options: &Options| {
        diff(before, after, options).unwrap().exit
    };
    let options = Options::default();
    assert_eq!(code(&before, &equal, &options), 0);
    assert_eq!(code(&before, &slower, &options), 30);
    assert_eq!(code(&before, &noisy, &options), 10);
    assert_eq!(code(&before, &other, &options), 20);
    let varied = Options { vary: vec!["driver".to_owned()], ..Options::default() };
    assert_eq!(code(&before, &other, &varied), 0);
    let forced = Options { force: true, ..Options::default() };
    assert_eq!(code(&before, &other, &forced), 0);
    let fail_on = |regression, inconclusive, improved| Options {
        fail_on: FailOn { regression, inconclusive, improved },
        ..Options::default()
    };
    assert_eq!(code(&before, &noisy, &fail_on(true, false, false)), 0);
    assert_eq!(code(&before, &slower, &fail_on(false, false, false)), 0);
    assert_eq!(code(&slower, &before, &fail_on(true, true, false)), 0);
    assert_eq!(code(&slower, &before, &fail_on(true, true, true)), 10);
    // A row that only one side measured is no success.
    let mut partial = equal;
    for session in &mut partial {
        session.rows.remove(&key(2, Metric::P99));
    }
    assert_eq!(code(&before, &partial, &options), 10);
}

/// A script knows rows that differ from open ones, which have the same exit status.
#[test]
fn each_conclusion_has_its_comparison_and_its_first_line() {
    use super::Conclusion::{Equal, Improvement, NotAttributable, NotComparable, Open, Regression};
    let mut rng = ScheduleRng::new(43);
    let world = World { sd: 0.001, mechanisms: 1, ..WORLD };
    let of = |worse, sd, rng: &mut ScheduleRng| side("s", World { sd, worse, ..world }, rng);
    let before = of(0.0, 0.001, &mut rng);
    let [equal, worse] = [0.0, 0.3].map(|by| of(by, 0.001, &mut rng));
    let noisy = of(0.0, 0.2, &mut rng);
    let mut other = equal.clone();
    Arc::make_mut(&mut other[0].facts).insert("driver".to_owned(), "two".to_owned());
    for (before, after, conclusion, exit, first) in [
        (
            &before[..],
            &other[..],
            NotComparable,
            20,
            "not comparable: driver differs; on purpose: --vary driver",
        ),
        (
            &before,
            &worse,
            Regression,
            30,
            "REGRESSED: 3 of 3 primary rows, 1 secondary row. exit 30",
        ),
        (
            &before,
            &noisy,
            Open,
            10,
            "inconclusive: no regression shown, 3 of 3 primary rows are open. exit 10",
        ),
        (
            &worse,
            &before,
            Improvement,
            0,
            "improved: 3 of 3 primary rows, 1 secondary row; no regression in 3 of 3 ",
        ),
        (&before, &equal, Equal, 0, "no regression in 3 of 3 primary rows. exit 0"),
        // One session a side.
        (
            &before[..1],
            &worse[..1],
            NotAttributable,
            10,
            "inconclusive: 3 rows differ, cause not attributable. exit 10",
        ),
        (
            &before[..1],
            &equal[..1],
            Equal,
            0,
            "no regression in 3 of 3 primary rows between these two sessions. exit 0",
        ),
    ] {
        let report = compared(before, after);
        assert_eq!((report.conclusion, report.exit), (conclusion, exit), "{report:?}");
        let text = render::diff(&report, Format::Text, Detail::Changes, Look::PIPED).unwrap();
        assert!(text.starts_with(first), "{text}");
        let has_star = matches!(conclusion, Regression | Improvement);
        assert_eq!(text.contains("\n* the whole interval"), has_star, "{text}");
        assert_eq!(report.counts.differing, if conclusion == NotAttributable { 3 } else { 0 });
    }
}

/// A copy is the same record; another session of the same GPU is not.
#[test]
fn a_record_on_both_sides_is_named() {
    let mut rng = ScheduleRng::new(44);
    let (before, after) = (side("s", WORLD, &mut rng), side("t", WORLD, &mut rng));
    let mut copy = before[..1].to_vec();
    copy[0].name = "copy".to_owned();
    for (before, after, named) in [
        (&before[..1], &before[..1], true),
        (&before[..1], &copy[..], true),
        (&before[..1], &before[1..2], false),
        (&before[..], &after[..], false),
    ] {
        let report = compared(before, after);
        let wanted = format!("the same record is on both sides: {};", before[0].name);
        assert_eq!(report.attribution.starts_with(&wanted), named, "{}", report.attribution);
    }
}

#[test]
fn virtual_sessions_are_never_compared_with_real_ones() {
    let mut rng = ScheduleRng::new(17);
    let before = side("a", WORLD, &mut rng);
    let mut real = before.clone();
    for session in &mut real {
        Arc::make_mut(&mut session.facts).insert("device".to_owned(), "real".to_owned());
    }
    let forced = Options { force: true, ..Options::default() };
    let report = diff(&before, &real, &forced).unwrap();
    assert_eq!(report.exit, 20);
    assert!(report.rows.is_empty());
    assert!(report.attribution.contains("device"), "{}", report.attribution);
}

// How often nights without a change fail.

/// A spread beside which the margins are small, so that they hide no alarm.
const NOISY: World = World { sd: 0.05, ..WORLD };

/// The share of nights that fail, of `nights`.
fn failures(nights: u32, mut night: impl FnMut() -> Report) -> f64 {
    let mut failed = 0;
    for _ in 0..nights {
        let report = night();
        assert_eq!(report.family.rows, 27);
        failed += u32::from(report.exit_code() == ExitCode::Regression);
    }
    f64::from(failed) / f64::from(nights)
}

/// A night after `sessions` nights, as `diff --against-history` compares it.
fn tonight(sessions: u32, worse: f64, rng: &mut ScheduleRng) -> Report {
    let before = World { sessions, ..NOISY };
    let history = side("a", before, rng);
    let sessions = 1;
    let after = side("b", World { sessions, worse, ..NOISY }, rng);
    let baseline = Baseline::of(&history, &[], &after[0]).unwrap();
    let options =
        Options { history: baseline.repeatability, nights: baseline.nights, ..Options::default() };
    diff(&baseline.sessions, &after, &options).unwrap()
}

#[test]
fn one_night_against_a_baseline_fails_as_rarely_and_finds_a_change() {
    for sessions in [10, 20] {
        let mut rng = ScheduleRng::new(u64::from(sessions));
        let quiet = failures(300, || tonight(sessions, 0.0, &mut rng));
        // Half of the 5 % that the intervals of the family allow for: those of rows that got worse.
        assert!((0.01..0.05).contains(&quiet), "1 against {sessions}: {quiet}");
        let found = failures(20, || tonight(sessions, 0.5, &mut rng));
        assert!(found > 0.9, "1 against {sessions}: {found} of the changes");
    }
}

// Rows of doses below 1: secondary, and planned by some runs of a rotation only.

fn dose_key(dose: f64) -> RowKey {
    RowKey { dose: Some(Dose(dose)), ..key(0, Metric::DoseRetention) }
}

/// The sessions with these doses of the first mechanism too.
fn with_doses(mut side: Vec<Session>, doses: &[f64]) -> Vec<Session> {
    for session in &mut side {
        let row = session.rows[&key(0, Metric::Retention)].clone();
        let rows = doses.iter().map(|dose| (dose_key(*dose).into(), row.clone()));
        session.rows.extend(rows);
    }
    side
}

#[test]
fn a_dose_that_one_side_lacks_is_not_planned_and_fails_nothing() {
    let mut rng = ScheduleRng::new(23);
    let world = World { sd: 0.001, ..WORLD };
    let sides = [side("a", world, &mut rng), side("b", world, &mut rng)];
    let whole = compared(&sides[0], &sides[1]);
    let [before, after] = sides;
    let before = with_doses(before, &[0.25, 0.5]);
    let after = with_doses(after, &[0.5, 0.75]);
    let report = compared(&before, &after);
    let found = |dose: f64| {
        let wanted = dose_key(dose);
        report.rows.iter().find(|row| row.key == wanted).unwrap()
    };
    for (dose, reason) in [(0.25, "after: not planned"), (0.75, "before: not planned")] {
        let row = found(dose);
        assert_eq!((row.verdict, row.primary), (Verdict::NotMeasured, false));
        assert_eq!(row.reason.as_deref(), Some(reason));
    }
    assert_eq!(found(0.5).verdict, Verdict::Unchanged);
    assert_eq!(report.counts, whole.counts);
    assert_eq!((report.family, report.exit), (whole.family, whole.exit));
}

// Planted changes are found as often as the printed smallest detectable change says.

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
