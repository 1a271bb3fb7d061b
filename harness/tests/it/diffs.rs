//! `gpubench diff`, `history` and `compare` on records of the virtual GPU: drivers with planted
//! changes.

use std::path::Path;

use gpubench_compare::diff::{DiffRow, Report, Verdict};
use gpubench_record::Condition;

use super::support::{Nights, scale};
use crate::support::{Error, Finished, Lab, TestResult, finish, machine_text, whole, with_changes};

/// Requests of 100 us: six open loops of 200 ms have enough for a p99. The mechanisms come first.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "six short blocks of two resources, with open loops long enough for a p99"
decides = false
axes = ["compute/sm", "bandwidth/dram"]
device_time = "60s"
service = "100us"
blocks = { min = 6, max = 6 }
cell = { warmup = "5ms", closed = "30ms", gap = "5ms", open = "200ms" }
cell_min = { warmup = "5ms", closed = "30ms", gap = "5ms", open = "200ms" }
"#;

/// The fewest a side that a change is attributed from.
const SESSIONS: usize = 3;
/// The side whose sessions have seeds of their own.
const OTHER_SEEDS: &str = "other-seeds";
const DRIVER: (&str, &str) = ("driver = \"615.00.virtual\"", "driver = \"620.00.virtual\"");

/// A folder with a side of sessions for each machine, all with one calibration.
struct Sides {
    lab: Lab,
}

impl Sides {
    /// Measures the side before, with rows of these mechanisms.
    fn new(mechanisms: &[&str]) -> Result<Self, Error> {
        Self::of(&format!("mechanisms = {mechanisms:?}\n{PROFILE}"))
    }

    fn of(profile: &str) -> Result<Self, Error> {
        let lab = Lab::on("hopper")?.profile(profile)?;
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
                let seed = if name == OTHER_SEEDS { seed + 10 } else { seed };
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

#[test]
fn planted_changes_of_a_driver_have_their_exit_status_row_and_hint() -> TestResult {
    // MIG has the fewest cells, and what changes the whole device changes any mechanism.
    let sides = Sides::new(&["exclusive", "mig"])?;
    // A bandwidth that one mechanism no longer protects.
    sides.side("leak", &[DRIVER], "\n[defects]\nmig_dram_leak = 0.5\n")?;
    let report = sides.report("leak", &[], 30)?;
    let mig = "mig[3g+3g] bandwidth/dram retention";
    assert_eq!(rows(&report, Verdict::Regressed), [mig]);
    assert_eq!(hints(&report), ["interference"]);
    assert_eq!(report.family.rows, 4);
    let text = sides.diff(&["--vary=driver", "before", "--", "leak"])?.ended_with(30)?.stdout;
    assert!(text.contains("driver 615.00.virtual -> 620.00.virtual"), "{text}");
    assert!(text.contains("REGRESSED") && text.contains("VIRTUAL GPU"), "{text}");

    // One session a side: the same row differs, and nothing is attributed.
    let one = sides.diff(&["--vary=driver", "--format=json", "before/1", "--", "leak/1"])?;
    let one: Report = serde_json::from_str(&one.ended_with(10)?.stdout)?;
    assert!(one.attribution.contains("not attributable"), "{}", one.attribution);
    let row = one.rows.iter().find(|row| name(row) == mig).ok_or("no row")?;
    let reason = row.reason.as_deref().ok_or("no reason")?;
    assert!(reason.starts_with("the sessions differ; not attributable"), "{reason}");

    // Other seeds are compared, and named; a driver that was not varied is refused.
    let seeds = sides.diff(&["before/1", "leak/2", "--vary=driver"])?.ended_with(10)?;
    assert!(seeds.stdout.contains("noted: seed 1 -> 2"), "{}", seeds.stdout);
    let text = seeds.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("if two sessions differ by less than"), "{text}");
    let driver = sides.diff(&["before", "--to", "leak"])?.ended_with(20)?;
    assert!(driver.stdout.contains("must not: driver"), "{}", driver.stdout);
    let one = sides.diff(&["--vary=driver", "before"])?.ended_with(2)?;
    assert!(one.stderr.contains("the side after is missing"), "{}", one.stderr);
    // Too few nights.
    sides.diff(&["--vary=colour", "before", "--", "leak"])?.ended_with(2)?;
    let done = sides.diff(&["--against-history=before", "--", "leak/1"])?.ended_with(20)?;
    assert!(done.stderr.contains("no segment of the history has 10 sessions"), "{}", done.stderr);

    // Two more sides of whole runs; the hints have tests of their own.
    if !whole() {
        return Ok(());
    }
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
    Ok(())
}

#[test]
fn a_longer_time_slice_is_found_as_jitter_and_other_seeds_are_no_change() -> TestResult {
    let profile = PROFILE
        .replace("\"bandwidth/dram\"", "\"jitter\"")
        .replace("100us", "1ms")
        .replace("device_time = \"60s\"", "device_time = \"200s\"")
        .replace("open = \"200ms\"", "open = \"30ms\"");
    let pairs = "jitter_pairs = [\"compute/sm\"]\naggressors = [\"fma-hog\"]";
    let sides = Sides::of(&format!("mechanisms = [\"time-slicing\"]\n{pairs}\n{profile}"))?;
    let jitter = "time-slicing[slice=default] jitter jitter";
    let is_jitter = |rows: Vec<String>| rows.iter().any(|row| row == jitter);
    sides.side(OTHER_SEEDS, &[DRIVER], "")?;
    let report = sides.report(OTHER_SEEDS, &[], 0)?;
    assert!(is_jitter(rows(&report, Verdict::Unchanged)), "{report:?}");
    sides.side("longer", &[DRIVER, ("slice_us = 2000", "slice_us = 2800")], "")?;
    let report = sides.report("longer", &[], 30)?;
    assert!(is_jitter(rows(&report, Verdict::Regressed)), "{report:?}");
    Ok(())
}

// `gpubench diff` on damaged records.

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
    let done = diff(&["--vary=calibration", "nights/1", "--", "nights/2"])?.ended_with(0)?;
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

// `gpubench diff` as a gate: each exit status, and what --fail-on and --force change.

/// A night with the rates under contention times a factor.
fn night(nights: &Nights, name: &str, at: &str, factor: f64) -> TestResult {
    nights.copy(name, |run| {
        run.provenance.started_at = at.to_owned();
        scale(run, Condition::C, factor);
    })
}

const LATER: &str = "2026-03-01T02:00:00Z";

#[test]
fn a_gate_ends_as_the_flags_say() -> TestResult {
    let nights = Nights::new()?;
    // Labels of flags replace those of the environment.
    let labels = &nights.run.provenance.labels;
    let labels: Vec<&str> = labels.iter().flat_map(|(key, value)| [key.as_str(), value]).collect();
    assert_eq!(labels, ["cluster", "a", "node", "n0", "pool", "b"]);
    assert_eq!(nights.run.plan.margins, Some(Default::default()));
    for day in 1..=12 {
        let noise = 1.0 + 0.001 * f64::from(day % 3);
        let at = format!("2026-01-{day:02}T02:00:00Z");
        night(&nights, &format!("nights/m1n{day:02}"), &at, noise)?;
    }
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
    // Both sides are scored from their cells by the rules of today.
    nights.forge("older/n1", |run| {
        run.scoring = "scoring-v2".to_owned();
        run.cells.iter_mut().for_each(|cell| cell.lone_ns.clear());
        Ok(())
    })?;
    nights.run(&["history", "pin", "older", "golden", "older/n1"], 0)?;
    statuses(&nights)?;
    refusals(&nights)
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
        // Two single sessions that agree are equal; that they differ is attributed to nothing.
        ("nights/m1n01", "equal", 0),
        ("nights/m1n01", "worse", 10),
        ("nights/m1n01", "moved", 20),
        ("--against-history=older --baseline=golden", "equal", 0),
        ("--against-history=older --baseline=golden", "worse", 10),
        ("--against-history=nights --output=no/such/folder/x", "equal", 5),
        // A regression fails where it is named, and nothing else does.
        ("--against-history=nights --fail-on=regression", "worse", 30),
        ("--against-history=nights --fail-on=inconclusive,improved", "worse", 0),
        ("--against-history=nights --fail-on=improved", "better", 10),
        ("--against-history=nights --fail-on=regression,improved", "better", 10),
        ("--against-history=nights --fail-on=regression --fail-on=improved", "better", 10),
        ("--fail-on=regression nights/m1n01", "equal", 0),
        ("--advisory nights/m1n01", "equal", 0),
        ("--advisory --against-history=nights", "worse", 0),
        // Sides that cannot be compared fail whatever is named, unless they are forced.
        ("--advisory nights/m1n01", "moved", 20),
        ("--fail-on=regression nights/m1n01", "moved", 20),
        ("--force nights/m1n01", "moved", 0),
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
