//! The main job from outside, on the virtual GPU: what it prints, what it leaves, how it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Error, TestResult, binary, program};
use gpubench_record::{Condition, OutcomeKind, RunRecord};

/// The shortest run that goes through everything: six blocks of one resource.
const SHORT: &str = concat!(
    "mechanisms = [\"exclusive\", \"time-slicing\"]\n",
    include_str!("data/short.toml")
);

fn short_profile(dir: &Path) -> std::io::Result<PathBuf> {
    let path = dir.join("short.toml");
    std::fs::write(&path, SHORT)?;
    Ok(path)
}

fn gpubench(args: &[&str]) -> Command {
    let mut command = binary();
    command
        .args(args)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    command
}

fn matrix(dir: &Path, out: &str, more: &[&str]) -> Result<Output, Error> {
    let profile = short_profile(dir)?;
    let out = dir.join(out);
    let (profile, out) = (profile.display().to_string(), out.display().to_string());
    let mut args = vec![
        "matrix",
        "--device",
        "virtual:turing",
        "--profile",
        &profile,
        "--out",
        &out,
    ];
    args.extend(more);
    Ok(gpubench(&args).output()?)
}

fn record(dir: &Path) -> Result<RunRecord, Error> {
    Ok(serde_json::from_slice(&std::fs::read(
        dir.join("record.json"),
    )?)?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Threads that keep every processor busy until dropped.
struct Load(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Load {
    fn start() -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..4 {
            let stop = std::sync::Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn one_seed_gives_the_same_bytes_and_the_same_matrix() -> TestResult {
    let dir = tempfile::tempdir()?;
    for out in ["a", "b"] {
        // The second run shares its processors with loops that never rest.
        let _load = (out == "b").then(Load::start);
        let done = matrix(dir.path(), out, &["--seed", "5"])?;
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        assert!(
            text(&done.stdout).contains("VIRTUAL GPU"),
            "{}",
            text(&done.stdout)
        );
    }
    for file in ["samples.parquet", "telemetry.parquet", "latencies.hlog"] {
        let read = |out: &str| std::fs::read(dir.path().join(out).join(file));
        assert!(read("a")? == read("b")?, "{file} differs");
    }
    let (a, b) = (
        record(&dir.path().join("a"))?,
        record(&dir.path().join("b"))?,
    );
    assert_eq!(
        serde_json::to_string(&a.matrix)?,
        serde_json::to_string(&b.matrix)?
    );
    assert_eq!(a.cells, b.cells);
    assert!(a.complete && !a.matrix.is_empty());
    let other = matrix(dir.path(), "c", &["--seed", "6"])?;
    assert_eq!(other.status.code(), Some(0), "{}", text(&other.stderr));
    let c = record(&dir.path().join("c"))?;
    assert_ne!(a.cells, c.cells, "another seed gives other samples");
    Ok(())
}

#[test]
fn time_slicing_takes_what_the_machine_file_says() -> TestResult {
    let dir = tempfile::tempdir()?;
    let done = matrix(dir.path(), "out", &[])?;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let record = record(&dir.path().join("out"))?;
    // What only a context can tell is in the record, though its first event comes before any.
    assert_eq!((record.device.sm_count, record.device.l2_kib), (40, 4_096));
    let row = record
        .matrix
        .iter()
        .find(|row| row.mechanism == "time-slicing" && row.sub_axis.as_deref() == Some("sm"))
        .ok_or("no row for time-slicing on compute/sm")?;
    let retention = row.retention.as_ref().ok_or("no retention")?;
    // The victim's request of about 1 ms ends within its turn, and the next one waits for two
    // switches of 50 us and one turn of 2 ms: it keeps about 1 of 3.1.
    let service_ms = record.calibration.entries["compute"].service_ns as f64 / 1e6;
    let expected = service_ms / (service_ms + 2.0 + 0.1);
    assert!(
        (retention.value / expected - 1.0).abs() < 0.02,
        "{} is not about {expected}",
        retention.value
    );
    let cells = |condition| {
        record
            .cells
            .iter()
            .filter(move |cell| cell.cell.condition == condition)
    };
    assert_eq!(cells(Condition::C).count(), 6);
    // Alone it gets nearly all that the device has, so that it is no weak neighbour.
    let peak = &record.calibration.peaks["fma-hog"];
    let share = peak.alone_per_s / peak.peak_per_s;
    assert!((0.95..=1.01).contains(&share), "{peak:?}");
    let rated = 40.0 * 64.0 * 2.0 * 1_590e6;
    assert!(
        (peak.peak_per_s / rated - 1.0).abs() < 0.05,
        "{peak:?} of {rated}"
    );
    let unknown = row.warnings.iter().find(|text| text.contains("peak"));
    assert_eq!(unknown, None);
    for cell in &record.cells {
        assert_eq!(
            cell.outcome.outcome,
            OutcomeKind::Measured,
            "{}: {:?}",
            cell.cell.id,
            cell.outcome
        );
    }
    Ok(())
}

#[test]
fn the_binary_needs_nothing_beside_it() -> TestResult {
    let dir = tempfile::tempdir()?;
    let copy = dir.path().join("elsewhere");
    std::fs::copy(program(), &copy)?;
    let profile = short_profile(dir.path())?;
    let done = Command::new(&copy)
        .args([
            "matrix",
            "--device",
            "virtual:turing",
            "--out",
            "out",
            "--profile",
        ])
        .arg(profile)
        .current_dir(dir.path())
        .env_remove("LD_LIBRARY_PATH")
        .output()?;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(dir.path().join("out/report.html").is_file());
    Ok(())
}

/// Starts a run and waits until its first cells have ended.
fn started(dir: &Path) -> Result<std::process::Child, Error> {
    let profile = short_profile(dir)?.display().to_string();
    let out = dir.join("out").display().to_string();
    let child = gpubench(&[
        "matrix",
        "--device",
        "virtual:turing",
        "--profile",
        &profile,
        "--out",
        &out,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()?;
    let events = dir.join("out/events.jsonl");
    wait_for(|| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"cell-ended\"").count() >= 2
    })?;
    Ok(child)
}

fn wait_for(mut condition: impl FnMut() -> bool) -> TestResult {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > Duration::from_secs(120) {
            return Err("waited in vain".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Process ids of the tenants that a run's events name.
fn tenants(dir: &Path) -> Result<Vec<u32>, Error> {
    let text = std::fs::read_to_string(dir.join("out/events.jsonl"))?;
    let mut out = Vec::new();
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if event["event"] == "tenant-started"
            && let Some(pid) = event["pid"].as_u64()
        {
            out.push(u32::try_from(pid)?);
        }
    }
    Ok(out)
}

fn signal(pid: u32, name: &str) -> TestResult {
    let done = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()?;
    assert!(done.success(), "kill -s {name} {pid}");
    Ok(())
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn an_interrupt_stops_the_tenants_and_leaves_a_readable_record() -> TestResult {
    let dir = tempfile::tempdir()?;
    let child = started(dir.path())?;
    let pids = tenants(dir.path())?;
    signal(child.id(), "INT")?;
    let done = child.wait_with_output()?;
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    assert!(
        pids.iter().all(|&pid| !alive(pid)),
        "a tenant was left behind"
    );
    let record = record(&dir.path().join("out"))?;
    assert!(!record.complete && record.cells.len() >= 2);
    assert!(dir.path().join("out/samples.parquet").is_file());
    Ok(())
}

#[test]
fn a_killed_coordinator_leaves_everything_until_then_readable_and_no_tenant() -> TestResult {
    let dir = tempfile::tempdir()?;
    let mut child = started(dir.path())?;
    let pids = tenants(dir.path())?;
    child.kill()?;
    child.wait()?;
    wait_for(|| pids.iter().all(|&pid| !alive(pid)))?;
    let out = dir.path().join("out").display().to_string();
    let done = gpubench(&["report", &out, "--format", "json"]).output()?;
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let record: RunRecord = serde_json::from_slice(&done.stdout)?;
    assert!(!record.complete, "a crash is not a finished run");
    assert!(record.cells.len() >= 2, "{} cells", record.cells.len());
    assert!(
        record.cells.iter().any(|cell| cell.outcome.is_measured()),
        "cells are judged"
    );
    let out = dir.path().join("out");
    let kept: RunRecord = serde_json::from_slice(&std::fs::read(out.join("record.json"))?)?;
    assert!(!kept.complete && kept.incomplete_reason.is_some());
    assert!(out.join("samples.parquet").is_file() && !out.join("cells").exists());
    Ok(())
}

#[test]
fn a_killed_tenant_fails_its_cell_and_the_run_goes_on() -> TestResult {
    let dir = tempfile::tempdir()?;
    let child = started(dir.path())?;
    let victim = *tenants(dir.path())?.first().ok_or("no tenant")?;
    signal(victim, "KILL")?;
    let done = child.wait_with_output()?;
    assert_eq!(done.status.code(), Some(4), "{}", text(&done.stderr));
    let record = record(&dir.path().join("out"))?;
    assert!(record.complete, "the other cells ran");
    let failed: Vec<_> = record
        .cells
        .iter()
        .filter(|cell| cell.outcome.outcome == OutcomeKind::Failed)
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let death = failed[0]
        .tenant_results
        .iter()
        .find_map(|tenant| tenant.death.clone());
    let reason = format!("{death:?} {:?}", failed[0].outcome.reason);
    assert!(reason.contains("killed by signal 9"), "{reason}");
    Ok(())
}

#[test]
fn a_hog_that_is_killed_half_way_gives_no_score() -> TestResult {
    let dir = tempfile::tempdir()?;
    let child = started(dir.path())?;
    let hog = *tenants(dir.path())?.get(1).ok_or("no neighbour")?;
    // A contended cell is under way most of the time; wait for one to begin.
    let events = dir.path().join("out/events.jsonl");
    wait_for(|| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        let of_cells =
            |line: &&str| line.contains("\"cell-began\"") || line.contains("\"cell-ended\"");
        text.lines()
            .rfind(of_cells)
            .is_some_and(|line| line.contains("\"cell-began\"") && line.contains("-C-"))
    })?;
    signal(hog, "KILL")?;
    let done = child.wait_with_output()?;
    let code = done.status.code();
    assert!(
        code == Some(0) || code == Some(4),
        "{code:?}: {}",
        text(&done.stderr)
    );
    let record = record(&dir.path().join("out"))?;
    assert!(record.complete, "the other cells ran");
    let touched: Vec<_> = record
        .cells
        .iter()
        .filter(|cell| {
            cell.tenant_results
                .iter()
                .any(|tenant| tenant.death.is_some())
                || cell.outcome.outcome == OutcomeKind::Failed
        })
        .collect();
    assert_eq!(touched.len(), 1, "{touched:?}");
    assert!(!touched[0].outcome.is_measured(), "{:?}", touched[0]);
    let died_in_it = touched[0]
        .tenant_results
        .iter()
        .any(|tenant| tenant.death.is_some());
    if died_in_it {
        assert_eq!(
            touched[0].outcome.outcome,
            OutcomeKind::Inconclusive,
            "{:?}",
            touched[0]
        );
        assert_eq!(
            code,
            Some(0),
            "a dead aggressor fails nothing: {}",
            text(&done.stderr)
        );
    }
    Ok(())
}

#[test]
fn a_full_disk_is_told_and_loses_nothing_that_was_measured() -> TestResult {
    let dir = tempfile::tempdir()?;
    let profile = short_profile(dir.path())?;
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk)?;
    // A file system of two megabytes, in a mount namespace that goes with the command.
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {disk} && {program} matrix --device virtual \
         --profile {profile} --out {disk}/out; status=$?; cp {disk}/out/events.jsonl {kept}; \
         exit $status",
        disk = disk.display(),
        program = program().display(),
        profile = profile.display(),
        kept = dir.path().join("events.jsonl").display(),
    );
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()?;
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(5), "{said}");
    assert!(
        said.contains("no space left") || said.contains("No space left"),
        "{said}"
    );
    let events = std::fs::read_to_string(dir.path().join("events.jsonl"))?;
    assert!(events.lines().count() >= 2, "{events}");
    Ok(())
}

#[test]
fn without_a_driver_the_answer_is_one_line_and_status_three() -> TestResult {
    let dir = tempfile::tempdir()?;
    // The loader looks here first, and a file that is no library ends its search: the drivers of
    // this host, if it has any, are out of reach.
    let libraries = dir.path().join("lib");
    std::fs::create_dir(&libraries)?;
    for name in ["libnvidia-ml.so.1", "libcuda.so", "libcuda.so.1"] {
        std::fs::write(libraries.join(name), b"no library")?;
    }
    let out = dir.path().join("out").display().to_string();
    let mut command = gpubench(&["matrix", "--out", &out]);
    let done = command.env("LD_LIBRARY_PATH", &libraries).output()?;
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("error: "))
            .count(),
        1,
        "{said}"
    );
    assert!(said.contains("no NVIDIA driver found"), "{said}");
    assert!(said.contains("--device virtual"), "{said}");
    assert!(!said.contains("panic"), "{said}");
    assert!(!Path::new(&out).exists(), "nothing was begun");
    Ok(())
}

#[test]
fn an_unwritable_folder_is_told_before_anything_runs() -> TestResult {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("file");
    std::fs::write(&file, b"in the way")?;
    let done = matrix(dir.path(), "file/out", &[])?;
    assert_eq!(done.status.code(), Some(5), "{}", text(&done.stderr));
    assert!(
        text(&done.stderr).contains("file/out"),
        "{}",
        text(&done.stderr)
    );
    Ok(())
}
