//! Figures that are bounds, and what reports print beside a row.

use super::*;
use crate::session::Doubts;

/// The sessions with bounds on the first mechanism's retention, this far below and above.
fn with_bounds(mut side: Vec<Session>, down: f64, up: f64) -> Vec<Session> {
    for session in &mut side {
        let row = session.rows.get_mut(&key(0, Metric::Retention));
        if let Some(Row::Measured(series)) = row {
            series.bounds = Bounds { down, up };
        }
    }
    side
}

/// A starved victim that completes one request less in a window halves its rate, which is known to
/// a factor of three only.
#[test]
fn a_change_within_the_bounds_of_both_sides_is_no_verdict_and_says_why() {
    let mut rng = ScheduleRng::new(31);
    let sides = [0.0, 0.69]
        .map(|worse| side("s", World { sd: 0.001, worse, mechanisms: 1, ..WORLD }, &mut rng));
    let [before, after] = sides;
    assert_eq!(row(&compared(&before, &after), 0, Metric::Retention).verdict, Verdict::Regressed);
    let [before, after] = [before, after].map(|side| with_bounds(side, 1.1, 0.0));
    let report = compared(&before, &after);
    let found = row(&report, 0, Metric::Retention);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert!(found.reason.as_deref().is_some_and(|why| why.contains("starved")), "{found:?}");
    // A change beyond what the bounds leave open is one.
    let far = World { sd: 0.001, worse: 3.0, mechanisms: 1, ..WORLD };
    let far = with_bounds(side("far", far, &mut rng), 1.1, 0.0);
    assert_eq!(row(&compared(&before, &far), 0, Metric::Retention).verdict, Verdict::Regressed);
}

#[test]
fn bounds_of_both_sides_have_no_verdict_and_count_nowhere() {
    let mut rng = ScheduleRng::new(41);
    let [before, after] = [0.0, 0.69]
        .map(|worse| side("s", World { sd: 0.001, worse, mechanisms: 1, ..WORLD }, &mut rng));
    let bound = |mut side: Vec<Session>, metric: Metric| {
        for session in &mut side {
            if let Some(Row::Measured(series)) = session.rows.get_mut(&key(0, metric)) {
                series.is_bound = true;
            }
        }
        side
    };
    let of_both = [before.clone(), after.clone()].map(|side| bound(side, Metric::Retention));
    let report = compared(&of_both[0], &of_both[1]);
    let found = row(&report, 0, Metric::Retention);
    assert_eq!((found.verdict, found.primary, found.bounds), (Verdict::Inconclusive, false, true));
    assert!(found.reason.as_deref().is_some_and(|why| why.contains("starved")), "{found:?}");
    // A side that is a value is compared, within its bounds.
    let report = compared(&before, &of_both[1]);
    assert_eq!(row(&report, 0, Metric::Retention).verdict, Verdict::Regressed);
}

#[test]
fn what_reports_print_beside_a_row_stands_beside_it_in_the_comparison() {
    let mut rng = ScheduleRng::new(37);
    let world = World { sd: 0.001, ..WORLD };
    let mut sides = [side("a", world, &mut rng), side("b", world, &mut rng)];
    let doubts = |axis: &str, texts: &[&str]| Doubts {
        variant: "m0".to_owned(),
        axis: axis.to_owned(),
        victim: (axis != "jitter").then(|| "stream".to_owned()),
        aggressor: Some("dram-copy".to_owned()),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
    };
    let retention_of = "bandwidth/dram";
    sides[0][0].doubts = vec![doubts(retention_of, &["lateness in 3 cells", "too weak"])];
    sides[0][1].doubts = vec![doubts(retention_of, &["lateness in 5 cells"])];
    sides[1][2].doubts = vec![doubts(retention_of, &["too weak"]), doubts("jitter", &["coarse"])];
    let report = compared(&sides[0], &sides[1]);
    let found = |metric| {
        let doubts = row(&report, 0, metric).doubts.iter();
        doubts.map(|one| (one.text.as_str(), one.sessions)).collect::<Vec<_>>()
    };
    let of_retention = [("lateness in 3 cells", [2, 0]), ("too weak", [1, 1])];
    assert_eq!(found(Metric::Retention), of_retention);
    assert_eq!(found(Metric::Jitter), [("coarse", [0, 1])]);
    assert_eq!(found(Metric::P99), [("coarse", [0, 1])]);
    assert_eq!(row(&report, 0, Metric::Guarantee).doubts.len(), 2);
    assert!(row(&report, 1, Metric::Retention).doubts.is_empty());
}

/// Pairs of sides with a planted cause: each changed row names it, with what was measured of it.
#[test]
fn each_planted_cause_is_named_with_its_figures() {
    use crate::diff::hint::Hint;
    let mut rng = ScheduleRng::new(43);
    let alone =
        RowKey { victim: "dram-copy".to_owned(), aggressor: None, ..key(0, Metric::AggressorRate) };
    // By how much the row gets worse, the costs of its parts, the clock, and the aggressor's rate.
    let mut planted = |worse: f64, [native, solo]: [f64; 2], clock: f64, rate: f64| {
        let mut side = side("s", World { sd: 0.001, worse, mechanisms: 1, ..WORLD }, &mut rng);
        for session in &mut side {
            for row in session.rows.values_mut() {
                let Row::Measured(series) = row else { continue };
                (series.ln_clock, series.ln_power) = (Some(7.5 + clock), Some(6.0 + 2.0 * clock));
                series.cycles = vec![if clock == 0.0 { -worse } else { 0.0 }; 3];
                series.parts = Parts {
                    native: Some(native),
                    solo: Some(solo),
                    contended: Some(worse.max(native)),
                };
            }
            let blocks = [-0.001, 0.0, 0.001].map(|x| rate + x).to_vec();
            let series = Series { blocks, ..Series::default() };
            session.rows.insert(alone.clone().into(), Row::Measured(series));
        }
        side
    };
    let before = planted(0.0, [0.0; 2], 0.0, 6.0);
    for (after, hint, words, figure) in [
        (planted(0.2, [0.0; 2], 0.0, 6.0), Hint::Interference, "interference", "native +0.0 %"),
        (planted(0.2, [0.2; 2], 0.0, 6.0), Hint::DeviceWide, "slower device", "native -18.1 %"),
        (planted(0.2, [0.2; 2], -0.2, 6.0), Hint::Clock, "clock", "clock -18.1 %"),
        (planted(-0.2, [0.0; 2], 0.0, 5.7), Hint::WeakerAggressor, "weaker", "alone -25.9 %"),
        (planted(0.2, [0.0; 2], 0.0, 6.3), Hint::StrongerAggressor, "stronger", "alone +35.0 %"),
    ] {
        let report = compared(&before, &after);
        let found = row(&report, 0, Metric::Retention);
        assert_eq!(found.hint, Some(hint), "{found:?}");
        let cause = found.cause().unwrap();
        assert!(cause.starts_with(words) && cause.contains(figure), "{cause}");
        let power = if hint == Hint::Clock { "power -33.0 %" } else { "power +0.0 %" };
        assert!(cause.contains(power), "{cause}");
        let own = report.rows.iter().find(|row| row.key == alone).unwrap();
        assert!(!own.primary, "it counts for no exit status");
        assert_eq!(own.verdict == Verdict::Unchanged, !cause.contains("er aggressor"));
    }
    // Parts that fit no pattern are named without a cause.
    let mixed = compared(&before, &planted(0.2, [0.1, 0.0], 0.0, 6.0));
    let cause = row(&mixed, 0, Metric::Retention).cause().unwrap();
    assert!(cause.starts_with("no single cause (") && cause.contains("native -9.5 %"), "{cause}");
}

/// A hint at the cause of a change stands only where a change was found.
#[test]
fn no_cause_is_named_where_no_difference_was_found() {
    let mut rng = ScheduleRng::new(47);
    let world = World { sessions: 1, sd: 0.2, ..WORLD };
    let mut large = 0;
    for _ in 0..20 {
        let report = compared(&side("a", world, &mut rng), &side("b", world, &mut rng));
        for row in &report.rows {
            let reason = row.reason.as_deref().unwrap_or_default();
            if reason.starts_with("no difference found") {
                assert_eq!(row.hint, None, "{reason}");
                let figures = row.figures.as_ref().map(|one| one.change.abs() > 0.05);
                large += u32::from(figures == Some(true));
            }
        }
    }
    assert!(large > 0, "no row changed by more than its margin");
}
