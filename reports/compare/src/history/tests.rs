//! Histories of simulated nights.

use std::sync::Arc;

use gpubench_record::Margins;
use gpubench_show::Look;
use gpubench_stats::ScheduleRng;

use super::{Acknowledged, Baseline, Declared, History, NoBaseline};
use crate::diff::{Options, Verdict, diff};
use crate::render::{self, Format};
use crate::session::{Metric, Row, RowKey, Series, Session};

/// The rows of a variant whose retention spreads this much between nights.
fn rows(variant: &str, centre: f64, sd: f64, rng: &mut ScheduleRng) -> [(RowKey, Row); 2] {
    let normal = (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos();
    let key = |metric| RowKey {
        variant: variant.to_owned(),
        axis: "bandwidth/dram".to_owned(),
        victim: "stream".to_owned(),
        aggressor: Some("dram-copy".to_owned()),
        dose: None,
        metric,
    };
    let row = |value: f64| {
        Row::Measured(Series {
            blocks: [-0.01, 0.0, 0.01].map(|x| x + value).to_vec(),
            ..Series::default()
        })
    };
    [(key(Metric::Retention), row(centre + sd * normal)), (key(Metric::Guarantee), row(centre))]
}

fn night(at: usize, driver: &str, centre: f64, rng: &mut ScheduleRng) -> Session {
    let facts = [("driver", driver), ("uuid", "GPU-1"), ("profile", "p")];
    Session {
        started_at: format!("2026-01-01T00:00:{at:03}"),
        facts: Arc::new(facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        rows: rows("mps", centre, 0.01, rng).map(|(key, row)| (key.into(), row)).into(),
        ..Session::empty(&format!("n{at:03}"))
    }
}

fn nights(count: usize, seed: u64, of: impl Fn(usize) -> (&'static str, f64)) -> Vec<Session> {
    let mut rng = ScheduleRng::new(seed);
    (0..count)
        .map(|at| {
            let (driver, centre) = of(at);
            night(at, driver, centre, &mut rng)
        })
        .collect()
}

fn history(sessions: &[Session], declared: &[Declared]) -> History {
    History::of(sessions, Vec::new(), declared, None).unwrap()
}

#[test]
fn a_step_is_located_and_raises_an_alert() {
    let sessions = nights(40, 1, |at| ("1", if at < 20 { -1.0 } else { -1.1 }));
    let found = history(&sessions, &[]);
    assert_eq!(found.series.len(), 1, "primary rows only");
    let series = &found.series[0];
    assert_eq!(series.nights.len(), 40);
    assert_eq!(series.changes.len(), 1);
    assert_eq!(series.changes[0].between, ["n019", "n020"]);
    assert!(series.changes[0].worse);
    assert!((series.changes[0].change + 0.095).abs() < 0.02);
    assert!(series.deviations[0].worse);
    assert!(found.alerts.iter().all(|one| one.rows[0].row == "mps bandwidth/dram retention"));
    assert_eq!(series.changes[0].looks, 31);
}

/// A step across an event has the verdict that `diff` gives on the nights of both segments.
#[test]
fn segments_are_compared_across_events_as_diff_compares_them() {
    let sessions = nights(40, 1, |at| if at < 20 { ("1", -1.0) } else { ("2", -1.1) });
    let found = history(&sessions, &[]);
    let crossing = &found.series[0].crossings[0];
    // The comparison and the drifts.
    let vary = Options { vary: vec!["driver".to_owned()], families: 2, ..Options::default() };
    let report = diff(&sessions[..20], &sessions[20..], &vary).unwrap();
    let row = report.rows.iter().find(|row| row.primary).unwrap();
    assert_eq!((crossing.verdict, &crossing.figures), (Verdict::Regressed, &row.figures));
    assert_eq!((&crossing.between[0][..], &crossing.between[1][..]), ("n019", "n020"));
    assert_eq!(found.alerts[0].between, crossing.between);
    let text = render::history(&found, Format::Text, render::Detail::Full, Look::PIPED).unwrap();
    assert!(text.contains("across n019 and n020: regressed, -9."), "{text}");
    // Without a step they are equal, other facts are named, and two single nights have no spread.
    let mut quiet = nights(40, 1, |at| (if at < 20 { "1" } else { "2" }, -1.0));
    quiet[20..].iter_mut().for_each(|one| {
        drop(Arc::make_mut(&mut one.facts).insert("cpu".to_owned(), "b".to_owned()))
    });
    quiet[..20].iter_mut().for_each(|one| {
        drop(Arc::make_mut(&mut one.facts).insert("cpu".to_owned(), "a".to_owned()))
    });
    let of = |nights: &[Session]| history(nights, &[]).series[0].crossings.clone();
    let equal = &of(&quiet)[0];
    assert_eq!(equal.verdict, Verdict::Unchanged);
    assert_eq!(equal.also_differs, ["cpu"]);
    assert!(of(&quiet[19..21]).is_empty());
    let mut starved = quiet.clone();
    for row in starved.iter_mut().flat_map(|night| night.rows.values_mut()) {
        if let Row::Measured(series) = row {
            (series.is_bound, series.blocks) = (true, vec![-1.0]);
        }
    }
    assert!(of(&starved).is_empty());
    quiet[20..].iter_mut().for_each(|one| {
        drop(Arc::make_mut(&mut one.facts).insert("ecc".to_owned(), "on".to_owned()))
    });
    quiet[..20].iter_mut().for_each(|one| {
        drop(Arc::make_mut(&mut one.facts).insert("ecc".to_owned(), "off".to_owned()))
    });
    assert_eq!(of(&quiet)[0].reason.as_deref(), Some("not comparable by: ecc"));
}

#[test]
fn a_change_of_the_printed_size_is_found_in_four_of_five_series() {
    for count in [18, 24, 40] {
        let quiet = |seed| nights(count, seed, |_| ("1", -1.0));
        let least = |seed| history(&quiet(seed), &[]).series[0].detectable.unwrap();
        let mut printed: Vec<f64> = (0..50).map(least).collect();
        printed.sort_by(f64::total_cmp);
        let step = printed[25].ln_1p();
        let is_found = |seed: &u64| {
            let of = |at: usize| ("1", if at < count / 2 { -1.0 } else { -1.0 - step });
            !history(&nights(count, *seed, of), &[]).series[0].changes.is_empty()
        };
        let found = (100..200_u64).filter(is_found).count();
        assert!((70..=90).contains(&found), "{count} nights, {step}: {found} of 100");
    }
    assert_eq!(history(&nights(17, 1, |_| ("1", -1.0)), &[]).series[0].detectable, None);
}

/// Each night is a look at all nights before it.
#[test]
fn looking_every_night_finds_no_change_in_quiet_series() {
    let is_found = |seed: &u64| {
        let all = nights(60, *seed, |_| ("1", -1.0));
        (10..=60).any(|tonight| {
            let mut night = all[..tonight].to_vec();
            night
                .iter_mut()
                .for_each(|one| one.margins = Some(Margins { ratio: 1e-6, ..Margins::default() }));
            !history(&night, &[]).series[0].changes.is_empty()
        })
    };
    let found = (0..60_u64).filter(is_found).count();
    assert!(found <= 3, "{found} of 60");
}

#[test]
fn an_event_cuts_the_series_so_that_its_step_is_no_change_point() {
    let sessions = nights(40, 1, |at| if at < 20 { ("1", -1.0) } else { ("2", -1.1) });
    let series = &history(&sessions, &[]).series[0];
    assert_eq!(series.events[0].what, "driver 1 -> 2");
    assert_eq!(series.events[0].session, "n020");
    assert_eq!((series.changes.len(), series.deviations.len()), (0, 0));
    assert_eq!(series.nights[39].segment, 1);
    // The same with a declared change.
    let sessions = nights(40, 1, |at| ("1", if at < 20 { -1.0 } else { -1.1 }));
    let declared =
        [Declared { at: sessions[20].started_at.clone(), what: "new cooler".to_owned() }];
    let series = &history(&sessions, &declared).series[0];
    assert_eq!(series.events[0].what, "new cooler");
    assert!(series.changes.is_empty());
}

#[test]
fn a_step_below_the_margin_is_no_change_point() {
    let sessions = nights(60, 2, |at| ("1", if at < 30 { -1.0 } else { -1.02 }));
    assert!(history(&sessions, &[]).series[0].changes.is_empty());
}

#[test]
fn a_changed_profile_is_an_event_and_profiles_that_alternate_have_series_of_their_own() {
    let of = |is_new: fn(usize) -> bool| {
        let mut sessions = nights(10, 3, |at| ("1", if is_new(at) { -1.2 } else { -1.0 }));
        for (at, session) in sessions.iter_mut().enumerate() {
            let (hash, closed) = if is_new(at) { ("q", "90 ms") } else { ("p", "60 ms") };
            Arc::make_mut(&mut session.facts).insert("profile".to_owned(), hash.to_owned());
            Arc::make_mut(&mut session.facts)
                .insert("profile cell.closed".to_owned(), closed.to_owned());
        }
        history(&sessions, &[])
    };
    let found = of(|at| at >= 5);
    let series = &found.series[0];
    assert_eq!((found.series.len(), series.nights.len()), (1, 10));
    assert_eq!(series.events[0].what, "profile cell.closed 60 ms -> 90 ms");
    assert_eq!(series.crossings[0].verdict, Verdict::Regressed);
    let found = of(|at| at % 2 == 1);
    let lengths: Vec<usize> = found.series.iter().map(|one| one.nights.len()).collect();
    assert_eq!((lengths, found.exit), (vec![5, 5], 0));
}

#[test]
fn the_baseline_is_the_last_segment_that_is_long_enough() {
    let all = nights(21, 4, |at| (if at < 12 { "1" } else { "2" }, -1.0));
    let baseline = |tonight: usize| Baseline::of(&all[..tonight], &[], &all[tonight]);
    // Nine nights of the new driver: the old segment stays.
    let old = baseline(20).unwrap();
    assert_eq!(old.sessions.len(), 12);
    assert!(old.sessions.iter().all(|one| one.facts["driver"] == "1"));
    let repeatability = old.repeatability.values().next().unwrap();
    assert!(repeatability.change_q95 > 0.0 && repeatability.spread.sessions == 12);
    let all = nights(23, 4, |at| (if at < 12 { "1" } else { "2" }, -1.0));
    let new = Baseline::of(&all[..22], &[], &all[22]).unwrap();
    assert!(new.sessions.iter().all(|one| one.facts["driver"] == "2"));
    let error = Baseline::of(&all[..9], &[], &all[9]).unwrap_err();
    assert_eq!(error, NoBaseline::TooShort { longest: 9 });
}

#[test]
fn after_a_declared_change_nights_go_on_with_the_old_segment_until_the_new_one_has_ten() {
    let all = nights(24, 5, |_| ("1", -1.0));
    let declared = [Declared { at: all[12].started_at.clone(), what: "new cooler".to_owned() }];
    for tonight in 12..24 {
        let found = Baseline::of(&all[..tonight], &declared, &all[tonight]).unwrap();
        let names: Vec<&str> = found.sessions.iter().map(|one| one.name.as_str()).collect();
        let (first, last) = if tonight < 22 {
            ("n000", "n011".to_owned())
        } else {
            ("n012", format!("n{:03}", tonight - 1))
        };
        assert_eq!((names[0], names[names.len() - 1]), (first, last.as_str()));
    }
}

#[test]
fn pinned_sessions_are_the_baseline_and_the_last_thirty_nights_give_the_rate() {
    let all = nights(40, 6, |at| (if at < 12 { "1" } else { "2" }, -1.0));
    let found = Baseline::pinned(all[..3].to_vec(), &all[..39], &all[39]).unwrap();
    assert_eq!(found.sessions.len(), 3);
    assert_eq!(found.repeatability.values().next().unwrap().spread.sessions, 3);
    let nights: Vec<&str> = found.nights.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((nights.len(), nights[0], nights[29]), (30, "n009", "n038"));
}

#[test]
fn a_label_has_series_of_its_own() {
    let mut sessions = nights(6, 7, |_| ("1", -1.0));
    for (at, session) in sessions.iter_mut().enumerate().take(4) {
        let pool = if at % 2 == 0 { "b" } else { "a" };
        session.labels.insert("pool".to_owned(), pool.to_owned());
    }
    let found = History::of(&sessions, Vec::new(), &[], Some("pool")).unwrap();
    let labels: Vec<&str> =
        found.series.iter().map(|one| one.identity["label pool"].as_str()).collect();
    assert_eq!(labels, ["a", "b", "none"]);
    assert!(found.series.iter().all(|one| one.nights.len() == 2));
}

/// Five GPUs over thirteen nights.
fn fleet(seed: u64, of: impl Fn(usize, usize) -> Option<(&'static str, f64)>) -> History {
    let mut rng = ScheduleRng::new(seed);
    let mut sessions = Vec::new();
    for at in 0..13 {
        for gpu in 0..5 {
            let planned = of(gpu, at);
            let (driver, centre) = planned.unwrap_or(("1", 0.0));
            let mut one = night(at, driver, centre, &mut rng);
            one.name = format!("n{at}-{gpu}");
            one.started_at += &format!("-{gpu}");
            Arc::make_mut(&mut one.facts).insert("uuid".to_owned(), format!("g{gpu}"));
            sessions.extend(planned.map(|_| one));
        }
    }
    history(&sessions, &[])
}

/// The spread between nights is 1 %, so a drift is twice that of nights with 0.5 %.
#[test]
fn fleets_are_red_when_they_should_be_and_quiet_else() {
    let driver = |at: usize, new: usize| if at < new { "1" } else { "2" };
    type Of = Box<dyn Fn(usize, usize) -> Option<(&'static str, f64)>>;
    let cases: [(&str, Of, u8, [usize; 2]); 6] = [
        ("harmless", Box::new(move |_, at| Some((driver(at, 8), -1.0))), 30, [0, 10]),
        (
            "leak",
            Box::new(move |_, at| Some((driver(at, 8), if at < 8 { -1.0 } else { -1.2 }))),
            30,
            [100, 100],
        ),
        (
            // Five nights before it: no GPU alone says anything.
            "first morning",
            Box::new(move |_, at| {
                (at >= 7).then(|| (driver(at, 12), if at < 12 { -1.0 } else { -1.2 }))
            }),
            30,
            [95, 100],
        ),
        ("drift", Box::new(|_, at| Some(("1", -1.0 - 0.004 * at as f64))), 30, [95, 100]),
        (
            "one drifts",
            Box::new(|gpu, at| Some(("1", -1.0 - if gpu == 2 { 0.004 * at as f64 } else { 0.0 }))),
            30,
            [90, 100],
        ),
        ("missing", Box::new(|gpu, at| (gpu != 3 || at < 10).then_some(("1", -1.0))), 3, [90, 100]),
    ];
    for (name, of, exit, [least, most]) in cases {
        let found = (0..100).filter(|seed| fleet(*seed, &of).exit == exit).count();
        assert!((least..=most).contains(&found), "{name}: {found} of 100 end with {exit}");
    }
    let missing = fleet(1, |gpu, at| (gpu != 3 || at < 10).then_some(("1", -1.0))).missing;
    assert_eq!((missing.len(), &missing[0].gpu[..], missing[0].missed), (1, "g3", 3));
}

/// Three nights of a driver and three of the next, 20 rows with 0.5 % between nights. A row loses
/// 5 % or none does.
#[test]
fn a_loss_among_twenty_rows_is_red_and_identical_drivers_are_rarely() {
    let exit = |seed: u64, loss: f64| {
        let mut rng = ScheduleRng::new(seed);
        let wide = |at: usize| {
            let mut one = night(at, if at < 3 { "1" } else { "2" }, 0.0, &mut rng);
            let of = |row: usize| {
                let lost = if at >= 3 && row == 7 { (-loss).ln_1p() } else { 0.0 };
                rows(&format!("mps[{row}]"), lost - 0.2, 0.005, &mut rng)
            };
            one.rows = (0..20).flat_map(of).map(|(key, row)| (key.into(), row)).collect();
            one
        };
        history(&(0..6).map(wide).collect::<Vec<_>>(), &[]).exit
    };
    let red = |loss| (0..400).filter(|seed| exit(*seed, loss) == 30).count();
    let [identical, lost] = [0.0, 0.05].map(red);
    // 5 % of 400, and two standard deviations of that.
    assert!(identical <= 28, "{identical} of 400 identical pairs are red");
    assert!(lost >= 360, "{lost} of 400 losses are found");
}

#[test]
fn an_acknowledged_regression_stands_no_more_and_another_row_or_a_later_one_does() {
    let leak = || fleet(1, |_, at| Some(if at < 8 { ("1", -1.0) } else { ("2", -1.2) }));
    let by = |at: &str, row: &str| {
        let (at, what) = (at.to_owned(), "known".to_owned());
        [Acknowledged { at, what, rows: [row.to_owned()].into() }]
    };
    let row = "mps bandwidth/dram retention";
    assert_eq!(leak().acknowledged(&by("2026-02-01T00:00:00Z", row)).exit, 0);
    assert_eq!(leak().acknowledged(&by("2026-02-01T00:00:00Z", "mig bandwidth/dram")).exit, 30);
    assert_eq!(leak().acknowledged(&by("2026-01-01T00:00:00", row)).exit, 30);
}

/// Without an event, a loss in nights that are too few for a search is named, and nothing else.
#[test]
fn a_loss_in_few_nights_is_named_and_quiet_nights_are_not() {
    let open = |count, lost| {
        let of = |at| ("1", if at < count - lost { -1.0 } else { -1.2 });
        let found = history(&nights(count, 3, of), &[]);
        let detail = render::Detail::Full;
        let text = render::history(&found, Format::Text, detail, Look::PIPED).unwrap();
        let verdict = match (found.exit, found.undecided.is_empty()) {
            // From eight nights on a drift has a test of its own.
            (30, _) => "REGRESSED",
            (_, false) => "UNDECIDED",
            (_, true) => "no regression stands",
        };
        assert!(text.starts_with(verdict), "{lost} of {count}: {text}");
        found.undecided.first().map(|row| row.change)
    };
    for (count, lost) in [(2, 1), (5, 1), (5, 4), (9, 3), (12, 1), (12, 4), (40, 2)] {
        let change = open(count, lost).unwrap_or_default();
        assert!((change + 0.18).abs() < 0.04, "{lost} of {count}: {change}");
    }
    for count in [1, 2, 5, 9, 12, 40] {
        assert_eq!(open(count, 0), None, "{count} quiet nights");
    }
    let series = (0..1000).map(|seed| 2 + (seed % 18) as usize).zip(0..1000);
    let false_ones = series
        .filter(|(count, seed)| {
            let quiet = nights(*count, *seed, |_| ("1", -1.0));
            !history(&quiet, &[]).undecided.is_empty()
        })
        .count();
    // The nights spread by 1 %, and the margin is 5 %.
    assert!(false_ones <= 5, "{false_ones} of 1000");
}

/// Parts of a search have five nights; the change is where the values change.
#[test]
fn a_change_is_placed_where_the_values_change_not_where_a_part_of_the_search_ends() {
    let found = history(&nights(24, 2, |at| ("1", if at < 20 { -1.0 } else { -1.3 })), &[]);
    let [change] = found.series[0].changes.as_slice() else { panic!("{:?}", found.series[0]) };
    assert_eq!(change.between, ["n019", "n020"]);
    assert!((change.change + 0.26).abs() < 0.02, "{change:?}");
}
