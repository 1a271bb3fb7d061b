//! How often nights without a change fail: sides of four sessions, and one against a baseline.

use gpubench_record::ExitCode;
use gpubench_stats::ScheduleRng;

use super::super::{Options, Report, diff};
use super::{WORLD, World, compared, side};
use crate::history::Baseline;

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
fn without_a_change_fewer_than_one_night_in_twenty_fails() {
    let mut rng = ScheduleRng::new(3);
    let failed =
        failures(400, || compared(&side("a", NOISY, &mut rng), &side("b", NOISY, &mut rng)));
    assert!(failed < 0.05, "{failed}");
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
