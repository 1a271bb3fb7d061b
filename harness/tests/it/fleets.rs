//! Labels of runs, baselines and removal of nights, and the outlier of a fleet, by the command
//! line. One run is measured; the other records are copies of it with facts and rates of their own.

use std::collections::BTreeSet;

use gpubench_compare::diff::Report;
use gpubench_compare::outliers;
use gpubench_record::{Condition, Spread};
use serde_json::Value;

use super::support::{Nights, scale};
use crate::support::{Error, Lab, TestResult, finish};

#[test]
fn labels_baselines_old_nights_and_outliers_work_from_end_to_end() -> TestResult {
    let nights = Nights::new()?;
    let labels: Vec<(&str, &str)> = nights
        .run
        .provenance
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(labels, [("cluster", "a"), ("node", "n0"), ("pool", "b")]);
    assert_eq!(nights.run.plan.margins, Some(Default::default()));
    baselines(&nights)?;
    fleet(&nights)
}

fn baselines(nights: &Nights) -> TestResult {
    for night in 1..=12 {
        nights.copy(&format!("nights/n{night:02}"), |run| {
            run.provenance.started_at = format!("2026-01-{night:02}T00:00:00Z");
            scale(run, Condition::C, 1.0 + 0.001 * f64::from(night % 3));
            let pool = if night % 2 == 0 { "even" } else { "odd" };
            run.provenance.labels.insert("pool".to_owned(), pool.to_owned());
        })?;
    }
    nights.copy("tonight", |run| {
        run.provenance.started_at = "2026-02-01T00:00:00Z".to_owned();
        scale(run, Condition::C, 0.8);
    })?;
    let text = nights.run(&["history", "nights", "--by=pool"], 0)?.stdout;
    assert!(text.contains("pool even") && text.contains("pool odd"), "{text}");

    nights.run(&["history", "pin", "nights", "golden", "nights/absent"], 2)?;
    nights.run(&["history", "pin", "nights", "golden", "nights/n01", "nights/n02"], 0)?;
    let pins = nights.run(&["history", "pins", "nights"], 0)?.stdout;
    assert!(pins.starts_with("golden  ") && pins.ends_with("  n01 n02\n"), "{pins}");
    let against = |more: &[&str], code| -> Result<Report, Error> {
        let mut args = vec!["diff", "--against-history=nights", "--format=json"];
        args.extend(more);
        args.extend(["--", "tonight"]);
        Ok(serde_json::from_str(&nights.run(&args, code)?.stdout)?)
    };
    let all = against(&[], 30)?;
    assert_eq!(all.before.len(), 12);
    // Two sessions are too few to blame anything for a change.
    let pinned = against(&["--baseline=golden"], 10)?;
    let names: Vec<&str> = pinned.before.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["nights/n01", "nights/n02"]);
    assert_eq!(pinned.repetition.sessions, all.repetition.sessions);
    let unknown =
        nights.run(&["diff", "--against-history=nights", "--baseline=old", "--", "tonight"], 2)?;
    assert!(unknown.stderr.contains("unknown baseline \"old\" (known: golden)"));

    old_nights(nights)
}

fn old_nights(nights: &Nights) -> TestResult {
    let dry = nights.run(&["history", "prune", "nights", "--keep=9"], 0)?;
    assert!(dry.stdout.contains("would remove nights/n03"), "{}", dry.text());
    assert!(dry.stderr.contains("stays: nights/n01: a pinned baseline has it"));
    assert!(nights.lab.path("nights/n03").exists());
    nights.run(&["history", "prune", "nights", "--keep=9", "--yes"], 0)?;
    let left = std::fs::read_dir(nights.lab.path("nights"))?.flatten();
    let mut left: Vec<String> = left.map(|one| one.file_name().to_string_lossy().into()).collect();
    left.retain(|name| name.starts_with('n'));
    assert_eq!(left.len(), 11, "{left:?}");
    nights.run(&["history", "unpin", "nights", "golden"], 0)?;
    nights.run(&["history", "prune", "nights", "--before=2026-01-05T00:00:00Z", "--yes"], 0)?;
    assert!(!nights.lab.path("nights/n01").exists());
    Ok(())
}

fn fleet(nights: &Nights) -> TestResult {
    for node in 0..8 {
        nights.copy(&format!("fleet/g{node}"), |run| {
            run.device.uuid = format!("GPU-{node}");
            run.provenance.labels.insert("node".to_owned(), format!("node{node}"));
            scale(run, Condition::N, 1.0 + 0.0001 * f64::from(node));
            if node == 5 {
                scale(run, Condition::N, 0.96);
            }
        })?;
    }
    let args = ["outliers", "fleet", "--by=node", "--format=json"];
    let found = nights.run(&args, 30)?.stdout;
    let found: outliers::Report = serde_json::from_str(&found)?;
    assert!(found.has_virtual);
    let named: Vec<(&str, bool)> =
        found.groups[0].outliers.iter().map(|one| (one.device.as_str(), one.worse)).collect();
    assert!(!named.is_empty() && named.iter().all(|one| *one == ("node5", true)), "{named:?}");
    let text = nights.run(&["outliers", "fleet"], 30)?.stdout;
    assert!(text.contains("GPU-5") && text.contains("VIRTUAL GPU"), "{text}");
    let markdown = nights.run(&["outliers", "fleet", "--format=md"], 30)?.stdout;
    assert!(markdown.contains("| device | row |") && markdown.contains("| GPU-5 |"), "{markdown}");
    // Without it the others are quiet, and four are too few.
    std::fs::remove_dir_all(nights.lab.path("fleet/g5"))?;
    nights.run(&["outliers", "fleet"], 0)?;
    nights.run(&["outliers", "fleet/g0", "fleet/g1"], 10)?;
    Ok(())
}

// `doctor --calibrate` on a noisy virtual GPU: the file of the spread, and who reads it.

/// Cells of one victim, short and without open loops.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
axes = ["compute/sm"]
victims = ["compute"]
aggressors = ["fma-hog"]
device_time = "60s"
blocks = { min = 8, max = 8 }
cell = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
"#;

#[test]
fn sessions_add_up_in_a_file_that_plan_reads() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    let (device, profile) = (lab.device(), lab.arg("short.toml"));
    let run = |verb: &[&str]| -> Result<String, crate::support::Error> {
        let flags = ["--device", device.as_str(), "--profile", profile.as_str()];
        let done = finish(lab.gpubench(verb.iter().copied().chain(flags)))?;
        Ok(done.ended_with(0)?.stdout)
    };
    assert!(run(&["plan"])?.contains("2.0 % assumed"));
    let calibrate = ["doctor", "--calibrate", "--sessions", "2", "--format", "json"];
    let first: Spread = serde_json::from_str(&run(&calibrate)?)?;
    assert_eq!((first.version, first.sessions.len()), (1, 2));
    assert_eq!(first.kind, "virtual");
    let victim = first.victims.get("compute").ok_or("no victim")?;
    assert_eq!((victim.logs.len(), victim.between_blocks_df), (2, 14));
    assert!(victim.logs.iter().all(|session| session.len() == 8), "{victim:?}");
    // profiles/machines/hopper.toml plants noise of less than 1 % of a rate.
    assert!(victim.between_blocks > 1e-5 && victim.between_blocks < 0.02, "{victim:?}");
    assert!(victim.between_sessions.is_some() && victim.smallest_detectable > Some(0.0));
    // The second call adds its sessions and prints them as a table.
    let text = run(&calibrate[..4])?;
    assert!(text.contains("in 4 sessions") && text.contains("compute"), "{text}");
    let folder = lab.path("state").join("gpubench/spread");
    let files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    assert_eq!(files.len(), 1);
    let kept: Spread = serde_json::from_slice(&std::fs::read(files[0].path())?)?;
    assert_eq!(kept.sessions.len(), 4);
    assert_eq!(kept.victims["compute"].logs[..2], victim.logs[..]);
    assert!(run(&["plan"])?.contains("measured in 4 sessions"));
    Ok(())
}

/// Metric and basis of every measured row of a comparison.
fn bases(lab: &Lab, state: &str) -> Result<BTreeSet<(String, String)>, Error> {
    let flags = ["diff", "--advisory", "--format", "json", "one", "--", "two"];
    let mut command = lab.gpubench(flags);
    command.env("XDG_STATE_HOME", lab.path(state));
    let report: Value = serde_json::from_str(&finish(command)?.ended_with(0)?.stdout)?;
    let rows = report["rows"].as_array().ok_or("no rows")?;
    let of = |row: &Value| {
        let metric = row["metric"].as_str()?.to_owned();
        Some((metric, row["figures"]["basis"].as_str()?.to_owned()))
    };
    Ok(rows.iter().filter_map(of).collect())
}

#[test]
fn ten_kept_sessions_say_how_native_rates_of_single_sessions_differ() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    for out in ["one", "two"] {
        finish(lab.matrix(out, &["--mechanism", "time-slicing"]))?.ended_with(0)?;
    }
    let without = bases(&lab, "state")?;
    assert!(without.iter().all(|(_, basis)| basis == "blocks"), "{without:?}");
    let (device, profile) = (lab.device(), lab.arg("short.toml"));
    let calibrate =
        ["doctor", "--calibrate", "--sessions", "10", "--device", &device, "--profile", &profile];
    finish(lab.gpubench(calibrate))?.ended_with(0)?;
    let with = bases(&lab, "state")?;
    for (metric, basis) in &with {
        let known = metric == "native-rate";
        assert_eq!(basis == "known-spread", known, "{metric}: {basis}");
    }
    assert!(with.iter().any(|(metric, _)| metric == "native-rate"), "{with:?}");
    assert_eq!(bases(&lab, "elsewhere")?, without);
    // A record whose UUID is a path must not make the file at its end count as kept.
    let folder = lab.path("state").join("gpubench/spread");
    let kept = std::fs::read_dir(&folder)?.next().ok_or("no file")??.path();
    std::fs::copy(&kept, lab.path("state/x.json"))?;
    let uuid = kept.file_stem().and_then(std::ffi::OsStr::to_str);
    let uuid = uuid.ok_or("no name")?;
    for out in ["one", "two"] {
        let path = lab.path(out).join("record.json");
        let text = std::fs::read_to_string(&path)?;
        assert!(text.contains(uuid));
        std::fs::write(&path, text.replace(uuid, "../../x"))?;
        std::fs::remove_file(lab.path(out).join("checksums.b3"))?;
    }
    assert_eq!(bases(&lab, "state")?, without);
    Ok(())
}
