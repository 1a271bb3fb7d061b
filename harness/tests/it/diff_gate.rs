//! `gpubench diff` as a gate: each exit status, what --fail-on and --force change, and an expected
//! change that is declared.

use gpubench_compare::diff::Report;
use gpubench_compare::history::History;
use gpubench_record::Condition;

use crate::support::nights::{Nights, scale};
use crate::support::{Error, TestResult};

/// Two months: nights of January as they were, and of February with the rates under contention
/// times a factor.
fn month(nights: &Nights, month: u32, days: u32, factor: f64) -> TestResult {
    for day in 1..=days {
        let noise = 1.0 + 0.001 * f64::from(day % 3);
        let at = format!("2026-{month:02}-{day:02}T02:00:00Z");
        night(nights, &format!("nights/m{month}n{day:02}"), &at, factor * noise)?;
    }
    Ok(())
}

/// A night with the rates under contention times a factor.
fn night(nights: &Nights, name: &str, at: &str, factor: f64) -> TestResult {
    nights.copy(name, |run| {
        run.provenance.started_at = at.to_owned();
        scale(run, Condition::C, factor);
    })
}

const LATER: &str = "2026-03-01T02:00:00Z";

#[test]
fn a_gate_ends_as_the_flags_say_and_a_declared_change_moves_its_baseline() -> TestResult {
    let nights = Nights::new()?;
    month(&nights, 1, 12, 1.0)?;
    for (name, factor) in [("equal", 1.0), ("worse", 0.8), ("better", 1.2)] {
        night(&nights, name, LATER, factor)?;
    }
    nights.copy("moved", |run| {
        run.provenance.started_at = LATER.to_owned();
        run.device.driver = "620.00.virtual".to_owned();
    })?;
    nights.forge("doubtful", |run| {
        run.provenance.started_at = LATER.to_owned();
        scale(run, Condition::C, 0.5);
        Ok(())
    })?;
    statuses(&nights)?;
    refusals(&nights)?;
    declared(&nights)
}

/// Each line of `diff` with its exit status.
fn statuses(nights: &Nights) -> TestResult {
    let history = "--against-history=nights";
    for (flags, after, code) in [
        (history, "equal", 0),
        (history, "worse", 30),
        (history, "better", 0),
        // The scores contradict the cells: worse than inconclusive, and less than a regression.
        ("nights/m1n01", "doubtful", 4),
        (history, "doubtful", 30),
        ("nights/m1n01", "equal", 10),
        ("nights/m1n01", "moved", 20),
        ("--against-history=nights --output=no/such/folder/x", "equal", 5),
        // A regression fails where it is named, and nothing else does.
        ("--against-history=nights --fail-on=regression", "worse", 30),
        ("--against-history=nights --fail-on=inconclusive,improved", "worse", 0),
        ("--against-history=nights --fail-on=improved", "better", 10),
        ("--against-history=nights --fail-on=regression,improved", "better", 10),
        ("--against-history=nights --fail-on=regression --fail-on=improved", "better", 10),
        ("--fail-on=regression nights/m1n01", "equal", 0),
        ("--advisory nights/m1n01", "equal", 0),
        // Sides that cannot be compared fail whatever is named, unless they are forced.
        ("--advisory nights/m1n01", "moved", 20),
        ("--fail-on=regression nights/m1n01", "moved", 20),
        ("--force nights/m1n01", "moved", 10),
        ("--force --fail-on=regression nights/m1n01", "moved", 0),
    ] {
        let mut args = vec!["diff"];
        args.extend(flags.split(' '));
        args.extend(["--", after]);
        let done = nights.run(&args, code);
        let done = done.map_err(|error| format!("{flags} -- {after}: {error}"))?;
        let is_forced = done.stdout.contains("differs, compared by force: driver");
        assert_eq!(is_forced, flags.contains("--force"), "{}", done.stdout);
    }
    Ok(())
}

/// Values that are not accepted: the error names them, and what is accepted.
fn refusals(nights: &Nights) -> TestResult {
    let verdicts = "regression, inconclusive, improved";
    for (flag, named) in [
        ("--fail-on=colour", ["'colour'", "--fail-on", verdicts]),
        ("--fail-on=", ["a value is required", "--fail-on", verdicts]),
        ("--fail-on=regression,", ["a value is required", "--fail-on", verdicts]),
        ("--advisory --fail-on=regression", ["cannot be used", "--advisory", "--fail-on"]),
        ("--force=yes", ["unexpected value", "'yes'", "--force"]),
    ] {
        let mut args = vec!["diff"];
        args.extend(flag.split(' '));
        args.extend(["nights/m1n01", "--", "equal"]);
        let done = nights.run(&args, 2)?;
        assert_eq!(done.stdout, "");
        for name in named {
            assert!(done.stderr.contains(name), "{flag}: no {name} in {}", done.stderr);
        }
    }
    Ok(())
}

/// What a night against the history ends with, and with how many sessions it is compared.
fn against(nights: &Nights, after: &str, code: i32) -> Result<usize, Error> {
    let args = ["diff", "--against-history=nights", "--format=json", "--", after];
    let report: Report = serde_json::from_str(&nights.run(&args, code)?.stdout)?;
    Ok(report.before.len())
}

/// Ten nights with a fifth less: undeclared they spoil the baseline, declared they are the new one.
fn declared(nights: &Nights) -> TestResult {
    month(nights, 2, 10, 0.8)?;
    night(nights, "same", LATER, 0.8)?;
    night(nights, "lower", LATER, 0.72)?;
    let history = || -> Result<History, Error> {
        let args = ["history", "nights", "--format=json"];
        Ok(serde_json::from_str(&nights.run(&args, 0)?.stdout)?)
    };
    for night in ["same", "lower"] {
        assert_eq!(against(nights, night, 10)?, 22, "{night}");
    }
    assert_eq!(history()?.alerts.len(), 1);
    nights.run(&["history", "declare", "nights", "power cap", "--at=2026-02-01T00:00:00Z"], 0)?;
    assert_eq!(against(nights, "same", 0)?, 10);
    assert_eq!(against(nights, "lower", 30)?, 10);
    let found = history()?;
    assert!(found.alerts.is_empty(), "{:?}", found.alerts);
    let mut events = found.series.iter().flat_map(|series| &series.events);
    assert!(events.all(|event| event.what == "power cap"), "{:?}", found.series);
    let page = nights.run(&["history", "nights", "--format=html"], 0)?.stdout;
    assert!(page.contains(">power cap</text>"), "{page}");
    // With nine nights after it the nights before it are the baseline still.
    std::fs::remove_dir_all(nights.lab.path("nights/m2n10"))?;
    assert_eq!(against(nights, "same", 30)?, 12);
    Ok(())
}
