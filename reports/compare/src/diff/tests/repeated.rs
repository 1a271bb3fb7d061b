//! Repeated cells widen the rows of their variant and victim, and hide no planted change.

use super::*;

/// Sessions of 0.2 % between them whose repeated cells of each mechanism differ by 0.1 %.
pub(super) fn with_repeats(world: World, name: &str, rng: &mut ScheduleRng) -> Vec<Session> {
    let mut side = side(name, world, rng);
    for session in &mut side {
        for mechanism in 0..world.mechanisms {
            let logs = (0..8).map(|_| 0.001 * normal(rng)).collect();
            session.repeats.insert(format!("m{mechanism} stream"), logs);
        }
    }
    side
}

/// In the last session the repeated cells of this mechanism differ from the first ones by so much.
fn odd_repeat(mut side: Vec<Session>, mechanism: u32, by: f64) -> Vec<Session> {
    if let Some(session) = side.last_mut() {
        for log in session.repeats.get_mut(&format!("m{mechanism} stream")).into_iter().flatten() {
            *log += by;
        }
    }
    side
}

/// And its rows are off by as much.
fn odd(mut side: Vec<Session>, mechanism: u32, by: f64) -> Vec<Session> {
    side = odd_repeat(side, mechanism, by);
    if let Some(session) = side.last_mut() {
        let rows = session.rows.iter_mut();
        let own = rows.filter(|(key, _)| key.variant == format!("m{mechanism}"));
        for row in own.map(|(_, row)| row) {
            if let Row::Measured(series) = row {
                series.blocks.iter_mut().for_each(|log| *log += by);
            }
        }
    }
    side
}

const QUIET: World = World { sd: 0.002, ..WORLD };
/// How many of so many comparisons find the planted loss, and how many find anything else.
fn found(of: u32, sessions: u32, worse: f64, odd_by: f64, seed: u64) -> [u32; 2] {
    let mut rng = ScheduleRng::new(seed);
    let world = World { sessions, ..QUIET };
    let mut counts = [0; 2];
    for _ in 0..of {
        let before = with_repeats(world, "a", &mut rng);
        let after = with_repeats(World { worse, ..world }, "b", &mut rng);
        let report = compared(&odd_repeat(before, 0, odd_by), &after);
        let is_change = |row: &&DiffRow| {
            row.primary && matches!(row.verdict, Verdict::Regressed | Verdict::Improved)
        };
        let planted = |row: &DiffRow| row.key == key(0, Metric::Retention);
        counts[0] += u32::from(report.rows.iter().filter(is_change).any(planted));
        let others = report.rows.iter().filter(is_change);
        counts[1] += u32::from(others.filter(|row| row.key.variant != "m0").count() > 0);
    }
    counts
}

#[test]
fn a_planted_loss_is_found_with_and_without_an_odd_session() {
    let of = replicates(100, 30);
    for (sessions, worse) in [(3, 0.0513), (4, 0.0513), (6, 0.0513), (6, 0.105), (6, 0.223)] {
        for by in [0.0, 0.012] {
            let [planted, others] = found(of, sessions, worse, by, 1);
            assert!(
                100 * planted >= 95 * of,
                "{planted} of {of}: {sessions} sessions, {worse}, odd by {by}"
            );
            assert_eq!(others, 0, "{sessions} sessions, {worse}, odd by {by}");
        }
    }
}

#[test]
fn a_loss_below_the_margin_is_none_whatever_differs_from_itself() {
    for by in [0.0, 0.012, 0.03] {
        assert_eq!(found(replicates(100, 30), 6, 0.02, by, 2)[0], 0, "odd by {by}");
    }
}

/// More than 8 deviations and half of the margin: named, left out, and both results are printed.
#[test]
fn an_odd_session_is_left_out_by_name_where_both_results_have_one_sign() {
    let mut rng = ScheduleRng::new(3);
    let world = World { sessions: 6, mechanisms: 1, ..QUIET };
    let mut left_out = 0;
    for _ in 0..20 {
        let before = with_repeats(world, "a", &mut rng);
        let after = with_repeats(World { worse: 0.06, ..world }, "b", &mut rng);
        let report = compared(&before, &odd(after, 0, 0.2));
        let found = row(&report, 0, Metric::Retention);
        if let (Verdict::Regressed, Some(reason)) = (found.verdict, &found.reason) {
            assert!(found.confirmed);
            assert_eq!(found.sessions, [6, 5]);
            assert!(reason.starts_with("without b5, whose repeated cell differs from"), "{reason}");
            assert!(reason.contains("; with it -"), "{reason}");
            left_out += 1;
        }
    }
    assert!(left_out >= 5, "{left_out} of 20");
}

/// An alarm of one mechanism says nothing about another.
#[test]
fn an_odd_session_of_one_mechanism_leaves_the_rows_of_others_as_they_are() {
    let mut rng = ScheduleRng::new(4);
    let before = with_repeats(QUIET, "a", &mut rng);
    let after = with_repeats(World { worse: 0.0513, ..QUIET }, "b", &mut rng);
    let rows = |report: Report| {
        let others = report.rows.into_iter().filter(|row| row.key.variant != "m5");
        others.map(|row| (row.verdict, row.figures.map(|f| [f.lo, f.hi]))).collect::<Vec<_>>()
    };
    let clean = rows(compared(&before, &after));
    assert_eq!(rows(compared(&odd(before, 5, 0.05), &after)), clean);
}

#[test]
fn a_night_against_ten_finds_a_loss() {
    let mut rng = ScheduleRng::new(5);
    let one = World { sessions: 1, ..QUIET };
    let mut found = 0;
    for _ in 0..60 {
        let history = with_repeats(World { sessions: 10, ..QUIET }, "a", &mut rng);
        let tonight = with_repeats(World { worse: 0.0513, ..one }, "b", &mut rng);
        let report = compared(&odd_repeat(history, 0, 0.012), &tonight);
        found += u32::from(row(&report, 0, Metric::Retention).verdict == Verdict::Regressed);
    }
    assert!(found >= 57, "{found} of 60");
}

/// How many of so many intervals hold the truth: those of 95 %, of a row that is not primary, and
/// those of 90 %, of equivalence. Repeated cells differ by this share of the spread between
/// sessions.
fn covered(of: u32, sessions: u32, share: f64, rng: &mut ScheduleRng) -> [u32; 2] {
    let world = World { sessions, mechanisms: 1, sd: 0.005, worse: 0.0 };
    let mut covered = [0; 2];
    for _ in 0..of {
        let sides = ["a", "b"].map(|name| {
            let mut side = with_repeats(world, name, rng);
            for session in &mut side {
                let offset = share * world.sd * normal(rng);
                session.repeats.values_mut().flatten().for_each(|log| *log += offset);
            }
            side
        });
        let report = compared(&sides[0], &sides[1]);
        let of = |metric| row(&report, 0, metric).figures.as_ref().unwrap();
        let (other, primary) = (of(Metric::Guarantee), of(Metric::Retention));
        covered[0] += u32::from(other.lo <= 0.0 && 0.0 <= other.hi);
        let [lo, hi] = [primary.equivalence_lo, primary.equivalence_hi];
        covered[1] += u32::from(lo <= 0.0 && 0.0 <= hi);
    }
    covered
}

#[test]
#[expect(clippy::print_stdout, reason = "the counts are the result")]
fn the_interval_of_a_row_holds_the_truth_as_often_as_it_says() {
    let mut rng = ScheduleRng::new(6);
    let of = 1000;
    for (sessions, most) in [(3, [0.98, 0.94]), (4, [0.97, 0.93]), (6, [0.97, 0.93])] {
        for share in [0.0, 0.5, 1.0] {
            let found = covered(of, sessions, share, &mut rng);
            println!("{sessions} + {sessions}, repeated cells of {share}: {found:?} of {of}");
            let [of_95, of_90] = found.map(|count| f64::from(count) / f64::from(of));
            assert!((0.93..=most[0]).contains(&of_95) && (0.87..=most[1]).contains(&of_90));
        }
    }
}
