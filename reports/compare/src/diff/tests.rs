//! Whole comparisons of simulated sessions.
//!
//! A session has one value of its own for each row, and blocks around it. The generator is seeded:
//! every figure here is the same on every run.

mod alarms;
mod doses;
mod doubts;
mod power;

use std::collections::BTreeMap;

use gpubench_record::{DeviceKind, ExitCode};
use gpubench_stats::ScheduleRng;

use super::{DiffRow, FailOn, Options, Report, Verdict, diff};
use crate::session::{Bounds, Metric, Parts, Row, RowKey, Series, Session};

/// Rows of three metrics under nine mechanisms: a family of 27.
const MECHANISMS: u32 = 9;
const PRIMARY: [Metric; 3] = [Metric::Retention, Metric::P99, Metric::Jitter];

/// What a side is like.
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

fn session(name: String, world: World, rng: &mut ScheduleRng) -> Session {
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
                parts: Parts { native: Some(0.0), solo: Some(0.0), contended: Some(planted) },
            };
            rows.insert(key(mechanism, metric).into(), Row::Measured(series));
        }
    }
    Session {
        started_at: name.clone(),
        name,
        kind: DeviceKind::Virtual,
        facts: ["driver", "profile", "calibration", "device"]
            .map(|name| (name.to_owned(), "one".to_owned()))
            .into(),
        labels: BTreeMap::new(),
        margins: None,
        levels: BTreeMap::new(),
        rows,
        doubts: Vec::new(),
        repeats: BTreeMap::new(),
        work: BTreeMap::new(),
        losses: Vec::new(),
        is_doubtful: false,
    }
}

fn side(name: &str, world: World, rng: &mut ScheduleRng) -> Vec<Session> {
    (0..world.sessions).map(|n| session(format!("{name}{n}"), world, rng)).collect()
}

fn compared(before: &[Session], after: &[Session]) -> Report {
    diff(before, after, &Options::default()).unwrap()
}

fn row(report: &Report, mechanism: u32, metric: Metric) -> &DiffRow {
    let wanted = key(mechanism, metric);
    report.rows.iter().find(|row| row.key == wanted).unwrap()
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
        session.facts.insert("driver".to_owned(), "two".to_owned());
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

#[test]
fn virtual_sessions_are_never_compared_with_real_ones() {
    let mut rng = ScheduleRng::new(17);
    let before = side("a", WORLD, &mut rng);
    let mut real = before.clone();
    for session in &mut real {
        session.facts.insert("device".to_owned(), "real".to_owned());
    }
    let forced = Options { force: true, ..Options::default() };
    let report = diff(&before, &real, &forced).unwrap();
    assert_eq!(report.exit, 20);
    assert!(report.rows.is_empty());
    assert!(report.attribution.contains("device"), "{}", report.attribution);
}
