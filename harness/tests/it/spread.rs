//! `doctor --calibrate` on a noisy virtual GPU: the file of the spread, and who reads it.

use crate::support::{Lab, TestResult, finish};
use gpubench_record::Spread;

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
    let calibrate = [
        "doctor",
        "--calibrate",
        "--sessions",
        "2",
        "--format",
        "json",
    ];
    let first: Spread = serde_json::from_str(&run(&calibrate)?)?;
    assert_eq!((first.version, first.sessions.len()), (1, 2));
    assert_eq!(first.kind, "virtual");
    let victim = first.victims.get("compute").ok_or("no victim")?;
    assert_eq!((victim.logs.len(), victim.between_blocks_df), (2, 14));
    assert!(
        victim.logs.iter().all(|session| session.len() == 8),
        "{victim:?}"
    );
    // profiles/machines/hopper.toml plants noise of less than 1 % of a rate.
    assert!(
        victim.between_blocks > 1e-5 && victim.between_blocks < 0.02,
        "{victim:?}"
    );
    assert!(victim.between_sessions.is_some() && victim.smallest_detectable > Some(0.0));
    // The second call adds its sessions and prints them as a table.
    let text = run(&calibrate[..4])?;
    assert!(
        text.contains("in 4 sessions") && text.contains("compute"),
        "{text}"
    );
    let folder = lab.path("state").join("gpubench/spread");
    let files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    assert_eq!(files.len(), 1);
    let kept: Spread = serde_json::from_slice(&std::fs::read(files[0].path())?)?;
    assert_eq!(kept.sessions.len(), 4);
    assert_eq!(kept.victims["compute"].logs[..2], victim.logs[..]);
    assert!(run(&["plan"])?.contains("measured in 4 sessions"));
    Ok(())
}
