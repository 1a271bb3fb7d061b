//! `gpubench diff`, `history` and `compare` on records of the virtual GPU: drivers with planted
//! changes.

use std::path::Path;

use gpubench_compare::diff::{DiffRow, Report, Verdict};
use gpubench_compare::history::History;
use gpubench_record::Condition;

use super::support::{Nights, scale};
use crate::support::{Error, Finished, Lab, TestResult, finish, machine_text, with_changes};

/// Requests of 100 us: six open loops of 200 ms have enough for a p99. The mechanisms come first.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "six short blocks of two resources, with open loops long enough for a p99"
decides = false
axes = ["compute/sm", "bandwidth/dram"]
device_time = "60s"
service = "100us"
[blocks]
min = 6
max = 6
[cell]
warmup = "5ms"
closed = "30ms"
gap = "5ms"
open = "200ms"
[cell_min]
warmup = "5ms"
closed = "30ms"
gap = "5ms"
open = "200ms"
"#;

const SESSIONS: usize = 4;
const DRIVER: (&str, &str) = ("driver = \"615.00.virtual\"", "driver = \"620.00.virtual\"");

/// A folder with a side of sessions for each machine, all with one calibration.
struct Sides {
    lab: Lab,
}

impl Sides {
    /// Measures the side before, with rows of these mechanisms.
    fn new(mechanisms: &[&str]) -> Result<Self, Error> {
        let profile = format!("mechanisms = {mechanisms:?}\n{PROFILE}");
        let lab = Lab::on("hopper")?.profile(&profile)?;
        let sides = Self { lab };
        sides.measure("before", machine_text("hopper")?)?;
        Ok(sides)
    }

    /// Measures a side on another machine.
    fn side(&self, name: &str, changes: &[(&str, &str)], end: &str) -> Result<(), Error> {
        self.measure(name, &(with_changes(machine_text("hopper")?, changes)? + end))
    }

    fn measure(&self, name: &str, machine: &str) -> Result<(), Error> {
        let file = format!("{name}.toml");
        self.lab.write(&file, machine)?;
        let runs: Vec<_> = (1..=SESSIONS)
            .map(|seed| {
                let out = format!("{name}/{seed}");
                let mut command = self.lab.gpubench(["matrix", "--allow-reconfigure"]);
                command
                    .args(["--device", &format!("virtual:{file}")])
                    .args(["--profile", "short.toml", "--out", &out])
                    .args(["--seed", &seed.to_string()]);
                if (name, seed) != ("before", 1) {
                    command.args(["--calibration", "before/1"]);
                }
                command
            })
            .collect();
        for command in runs {
            finish(command)?.ended_with(0)?;
        }
        Ok(())
    }

    fn diff(&self, args: &[&str]) -> Result<Finished, Error> {
        finish(self.lab.gpubench(["diff"].iter().chain(args)))
    }

    /// The comparison of the side before with another one as JSON, with its exit status.
    fn report(&self, after: &str, more: &[&str], code: i32) -> Result<Report, Error> {
        let mut args = vec!["--vary=driver", "--format=json"];
        args.extend(more);
        args.extend(["before", "--", after]);
        let done = self.diff(&args)?.ended_with(code)?;
        Ok(serde_json::from_str(&done.stdout)?)
    }
}

/// `variant axis metric` of the primary rows with a verdict.
fn rows(report: &Report, verdict: Verdict) -> Vec<String> {
    let rows = report.rows.iter();
    rows.filter(|row| row.primary && row.verdict == verdict).map(name).collect()
}

fn name(row: &DiffRow) -> String {
    let key = &row.key;
    format!("{} {} {}", key.variant, key.axis, key.metric.as_str())
}

fn hints(report: &Report) -> Vec<&'static str> {
    let changed = report.rows.iter().filter(|row| row.primary);
    let mut hints: Vec<&str> = changed
        .filter(|row| matches!(row.verdict, Verdict::Regressed | Verdict::Improved))
        .map(|row| row.hint.map_or("none", |hint| hint.as_str()))
        .collect();
    hints.sort_unstable();
    hints.dedup();
    hints
}

/// The page of the newer record has the comparison with the older one.
fn page_has_the_comparison(sides: &Sides, variant: &str) -> TestResult {
    let args = ["report", "before/1", "leak/1", "--format", "html"];
    let page = finish(sides.lab.gpubench(args))?.ended_with(0)?.stdout;
    let (_, section) = page.split_once("Against a baseline").ok_or("no comparison")?;
    for figure in [variant, "bandwidth/dram", "615.00.virtual"] {
        assert!(section.contains(figure), "no {figure} in {section}");
    }
    Ok(())
}

#[test]
fn planted_changes_of_a_driver_have_their_exit_status_row_and_hint() -> TestResult {
    let sides = Sides::new(&["exclusive", "mps", "mig"])?;
    // A bandwidth that one mechanism no longer protects.
    sides.side("leak", &[DRIVER], "\n[defects]\nmig_dram_leak = 0.5\n")?;
    let report = sides.report("leak", &[], 30)?;
    let mig = "mig[3g+3g] bandwidth/dram retention";
    assert_eq!(rows(&report, Verdict::Regressed), [mig]);
    assert_eq!(hints(&report), ["interference"]);
    assert_eq!(report.family.rows, 8);
    let text = sides.diff(&["--vary=driver", "before", "--", "leak"])?.ended_with(30)?.stdout;
    assert!(text.contains("driver 615.00.virtual -> 620.00.virtual"), "{text}");
    assert!(text.contains("REGRESSED") && text.contains("VIRTUAL GPU"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    // The other way round it is an improvement.
    let back = sides.diff(&["--vary=driver", "--format=json", "leak", "--", "before"])?;
    let back: Report = serde_json::from_str(&back.stdout)?;
    assert_eq!(rows(&back, Verdict::Improved), [mig]);
    assert_ne!(back.exit, 30);

    // One session a side: the same row differs, and nothing is attributed.
    let one = sides.diff(&["--vary=driver", "--format=json", "before/1", "--", "leak/1"])?;
    let one: Report = serde_json::from_str(&one.ended_with(10)?.stdout)?;
    assert!(one.attribution.contains("not attributable"), "{}", one.attribution);
    let row = one.rows.iter().find(|row| name(row) == mig).ok_or("no row")?;
    let reason = row.reason.as_deref().ok_or("no reason")?;
    assert!(reason.starts_with("the sessions differ; not attributable"), "{reason}");

    page_has_the_comparison(&sides, &row.key.variant)?;

    // Sides that cannot be compared.
    let refused = sides.diff(&["before", "--", "leak"])?.ended_with(20)?;
    assert!(refused.stdout.contains("differs, and must not: driver"), "{}", refused.stdout);
    let seeds = sides.diff(&["--vary=driver", "before", "--", "leak/1"])?.ended_with(20)?;
    assert!(seeds.stdout.contains("must not: profile"), "{}", seeds.stdout);
    let advisory = ["--vary=driver", "--advisory", "before", "--", "leak"];
    sides.diff(&advisory)?.ended_with(0)?;
    sides.diff(&["--vary=colour", "before", "--", "leak"])?.ended_with(2)?;
    formats(&sides)
}

/// Every format is well formed and has the regression.
fn formats(sides: &Sides) -> TestResult {
    for (format, wanted) in [
        ("md", "| REGRESSED\\* | mig\\[3g+3g\\] |"),
        ("html", "<td class=\"regressed\">REGRESSED"),
        ("junit", "failures=\"1\""),
        ("json", "\"verdict\": \"regressed\""),
    ] {
        let format = format!("--format={format}");
        let args = ["--vary=driver", &format, "--output=out", "before", "--", "leak"];
        sides.diff(&args)?.ended_with(30)?;
        let text = std::fs::read_to_string(sides.lab.path("out"))?;
        assert!(text.contains(wanted), "{format}: {text}");
        assert!(text.contains("VIRTUAL GPU") || format.ends_with("json"), "{format}");
    }
    Ok(())
}

#[test]
fn changes_of_the_whole_device_are_no_matter_of_isolation() -> TestResult {
    // What changes the whole device changes the rows of any mechanism; MIG has the fewest cells.
    let sides = Sides::new(&["exclusive", "mig"])?;
    sides.side("equal", &[DRIVER], "")?;
    let report = sides.report("equal", &[], 0)?;
    assert_eq!(report.counts.unchanged, 4, "{report:?}");

    let clock = "\n[circumstances]\napplication_sm_clock_mhz = 1485\n";
    sides.side("clock", &[DRIVER], clock)?;
    let report = sides.report("clock", &[], 30)?;
    assert_eq!(hints(&report), ["clock"], "{report:?}");

    // Each launch takes longer, and DRAM is slower: native cells lose as much as contended ones.
    let slower = [
        DRIVER,
        ("launch_latency_ns = 1800", "launch_latency_ns = 41800"),
        ("dram_gb_per_s = 3350.0", "dram_gb_per_s = 2600.0"),
        ("sm_dram_gb_per_s = 64.0", "sm_dram_gb_per_s = 48.0"),
    ];
    sides.side("all", &slower, "")?;
    let report = sides.report("all", &[], 30)?;
    assert_eq!(hints(&report), ["device-wide"], "{report:?}");
    history(&sides)
}

/// The sessions of the test above as a history, and side by side.
fn history(sides: &Sides) -> TestResult {
    let declare = ["history", "declare", "before", "new cooler", "--at=2999-01-01T00:00:00Z"];
    finish(sides.lab.gpubench(declare))?.ended_with(0)?;
    let done = finish(sides.lab.gpubench(["history", "before", "equal"]))?.ended_with(0)?;
    let sessions = format!("{} sessions", 2 * SESSIONS);
    assert!(done.stdout.contains(&sessions), "{}", done.stdout);
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 120 || !line.contains(' ')));
    // Ten nights are needed.
    let done = sides.diff(&["--against-history=before", "--", "equal/1"])?.ended_with(20)?;
    assert!(done.stderr.contains("no segment of the history has 10 sessions"), "{}", done.stderr);
    let done = finish(sides.lab.gpubench(["compare", "before/1", "all/1"]))?.ended_with(0)?;
    assert!(done.stdout.contains("no verdict"), "{}", done.stdout);
    assert!(!done.stdout.to_lowercase().contains("regress"), "{}", done.stdout);
    Ok(())
}

// `gpubench diff` on damaged records.

/// A record cut at any byte is refused with its name, or its loss is named.
#[test]
fn a_cut_record_is_refused_or_its_loss_is_named() -> TestResult {
    let lab = Lab::on("turing")?;
    for seed in ["1", "2"] {
        let out = format!("nights/{seed}");
        let more = ["--mechanism=exclusive,time-slicing", "--seed", seed];
        finish(lab.matrix(&out, &more))?.ended_with(0)?;
    }
    let whole = std::fs::read(lab.path("nights/2/record.json"))?;
    let diff = |args: &[&str]| finish(lab.gpubench(["diff", "--vary=profile"].iter().chain(args)));
    for share in [0, 1, 50, 99] {
        let cut = &whole[..whole.len() * share / 100];
        std::fs::write(lab.path("nights/2/record.json"), cut)?;
        // Named by itself it is an error; in a folder it is left out by name.
        let done = diff(&["nights/1", "--", "nights/2"])?.ended_with(2)?;
        assert!(done.stderr.contains("nights/2"), "{}", done.stderr);
        let done = diff(&["nights/1", "--", "nights"])?;
        assert!(done.stderr.contains("left out") && done.stderr.contains("nights/2"));
    }
    // Without record.json the events are scored, and the file is not written.
    std::fs::remove_file(lab.path("nights/2/record.json"))?;
    let done = diff(&["--vary=calibration", "nights/1", "--", "nights/2"])?.ended_with(10)?;
    assert!(!done.stdout.is_empty());
    assert!(!Path::new(&lab.path("nights/2/record.json")).exists());
    // Of torn samples the rest is judged, and every verb names the loss.
    let samples = lab.path("nights/2/samples.parquet");
    let bytes = std::fs::read(&samples)?;
    std::fs::write(&samples, &bytes[..bytes.len() / 2])?;
    let loss = "samples.parquet is torn: its first ";
    let done = diff(&["--format=json", "nights/1", "--", "nights/2"])?;
    assert!(done.stdout.contains(loss), "{}", done.stdout);
    let done = finish(lab.gpubench(["compare", "nights/1", "nights/2"]))?.ended_with(0)?;
    assert!(done.stderr.contains(loss), "{}", done.stderr);
    let done = finish(lab.gpubench(["report", "nights/2"]))?.ended_with(0)?;
    assert!(done.stdout.contains(loss), "{}", done.stdout);
    Ok(())
}

#[test]
fn two_sides_that_cannot_be_read_are_both_named() -> TestResult {
    let args = ["diff", "no-before", "--", "no-after"];
    let refused = finish(Lab::on("hopper")?.gpubench(args))?.ended_with(2)?;
    assert_eq!(refused.stdout, "");
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    for side in ["no-before", "no-after"] {
        assert!(refused.stderr.contains(side), "{}", refused.stderr);
    }
    Ok(())
}

// `gpubench diff` as a gate: each exit status, what --fail-on and --force change, and an expected
// change that is declared.

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
