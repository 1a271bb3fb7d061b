//! `doctor --calibrate` on a noisy virtual GPU: the file of the spread, and who reads it.

use std::collections::BTreeSet;

use gpubench_record::Spread;
use serde_json::Value;

use crate::support::{Error, Lab, TestResult, finish};

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
    assert!(run(&["plan", "--full"])?.contains("2.0 % assumed"));
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
fn kept_sessions_say_how_rates_and_ratios_of_single_sessions_differ() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    for out in ["one", "two"] {
        finish(lab.matrix(out, &["--mechanism", "time-slicing"]))?.ended_with(0)?;
    }
    let without = bases(&lab, "state")?;
    assert!(without.iter().all(|(_, basis)| basis == "blocks"), "{without:?}");
    let (device, profile) = (lab.device(), lab.arg("short.toml"));
    let calibrate =
        ["doctor", "--calibrate", "--sessions", "3", "--device", &device, "--profile", &profile];
    finish(lab.gpubench(calibrate))?.ended_with(0)?;
    let with = bases(&lab, "state")?;
    // The sessions have neither aggressors nor latencies that can be trusted.
    let is_rate = |metric: &str| !["p50", "p99", "jitter", "aggressor-rate"].contains(&metric);
    let rates = || with.iter().filter(|(metric, _)| is_rate(metric));
    assert!(rates().all(|(_, basis)| basis == "known-spread"), "{with:?}");
    for metric in ["native-rate", "retention", "guarantee"] {
        assert!(with.iter().any(|(known, _)| known == metric), "{metric} of {with:?}");
    }
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
