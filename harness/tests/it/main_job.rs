//! `matrix` and `report` on the virtual GPU: output, files, exit status.

use std::process::{Child, Command, Stdio};

use gpubench_record::OutcomeKind;

use super::support::fault::signal;
use crate::support::{Error, Finished, Lab, TestResult, finish, program, wait_during};

const PROFILE: &str =
    concat!("mechanisms = [\"exclusive\", \"time-slicing\"]\n", include_str!("data/short.toml"));

fn turing() -> Result<Lab, Error> {
    Lab::on("turing")?.profile(PROFILE)
}

/// Threads that keep processors busy until dropped.
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
    let lab = turing()?;
    for out in ["a", "b"] {
        // During the second run, busy loops compete for the processors.
        let _load = (out == "b").then(Load::start);
        let run = finish(lab.matrix(out, &["--seed", "5"]))?.ended_with(0)?;
        assert!(run.stdout.contains("VIRTUAL GPU"), "{}", run.stdout);
    }
    for file in ["samples.parquet", "telemetry.parquet", "latencies.hlog"] {
        let read = |out: &str| std::fs::read(lab.path(out).join(file));
        assert!(read("a")? == read("b")?, "{file} differs");
    }
    let (a, b) = (lab.record("a")?, lab.record("b")?);
    assert_eq!(serde_json::to_string(&a.matrix)?, serde_json::to_string(&b.matrix)?);
    assert_eq!(a.cells, b.cells);
    assert!(a.complete && !a.matrix.is_empty());
    finish(lab.matrix("c", &["--seed", "6"]))?.ended_with(0)?;
    let c = lab.record("c")?;
    assert_ne!(a.cells, c.cells, "another seed must give other samples");
    Ok(())
}

#[test]
fn the_binary_needs_no_other_file() -> TestResult {
    let lab = turing()?;
    let copy = lab.path("elsewhere");
    std::fs::copy(program(), &copy)?;
    let mut command = Command::new(&copy);
    command
        .args(["matrix", "--device", "virtual:turing"])
        .args(["--profile", "short.toml", "--out", "out"])
        .current_dir(lab.path(""))
        .env_remove("LD_LIBRARY_PATH");
    finish(command)?.ended_with(0)?;
    assert!(lab.path("out/report.html").is_file());
    Ok(())
}

/// Starts a run and waits until two of its cells have ended.
fn started(lab: &Lab) -> Result<Child, Error> {
    let mut run = lab.matrix("out", &[]).spawn()?;
    wait_during(&mut run, "two cells", || events(lab).matches("\"cell-ended\"").count() >= 2)?;
    Ok(run)
}

fn events(lab: &Lab) -> String {
    std::fs::read_to_string(lab.path("out/events.jsonl")).unwrap_or_default()
}

/// Process ids of the tenants that a run's events name.
fn tenants(lab: &Lab) -> Result<Vec<u32>, Error> {
    let mut pids = Vec::new();
    for line in events(lab).lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if event["event"] == "tenant-started"
            && let Some(pid) = event["pid"].as_u64()
        {
            pids.push(u32::try_from(pid)?);
        }
    }
    Ok(pids)
}

#[test]
fn a_killed_tenant_fails_its_cell_and_the_run_goes_on() -> TestResult {
    let lab = turing()?;
    let run = started(&lab)?;
    let victim = *tenants(&lab)?.first().ok_or("no tenant")?;
    signal(victim, "KILL")?;
    Finished::from(run.wait_with_output()?).ended_with(4)?;
    let record = lab.record("out")?;
    assert!(record.complete, "the other cells did not run");
    let failed: Vec<_> =
        record.cells.iter().filter(|cell| cell.outcome.outcome == OutcomeKind::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let death = failed[0].tenant_results.iter().find_map(|tenant| tenant.death.clone());
    let reason = format!("{death:?} {:?}", failed[0].outcome.reason);
    assert!(reason.contains("killed by signal 9"), "{reason}");
    Ok(())
}

#[test]
fn an_aggressor_killed_in_a_cell_gives_no_score() -> TestResult {
    // The signal may come when the cell has just ended; then no cell is affected.
    for _ in 0..8 {
        if an_aggressor_is_killed()? {
            return Ok(());
        }
    }
    Err("no signal came within a cell".into())
}

/// Kills the aggressor of a contended cell; `false` if the cell had ended by then.
fn an_aggressor_is_killed() -> Result<bool, Error> {
    let lab = turing()?;
    let mut run = started(&lab)?;
    let aggressor = *tenants(&lab)?.get(1).ok_or("no neighbour")?;
    // Most of the time a contended cell runs; wait until one begins.
    wait_during(&mut run, "a contended cell", || {
        let events = events(&lab);
        let is_of_cell =
            |line: &&str| line.contains("\"cell-began\"") || line.contains("\"cell-ended\"");
        let last = events.lines().rfind(is_of_cell);
        last.is_some_and(|line| line.contains("\"cell-began\"") && line.contains("-C-"))
    })?;
    signal(aggressor, "KILL")?;
    let run = Finished::from(run.wait_with_output()?);
    let (code, stderr) = (run.code, &run.stderr);
    assert!(code == Some(0) || code == Some(4), "{code:?}: {stderr}");
    let record = lab.record("out")?;
    assert!(record.complete, "the other cells did not run");
    let affected: Vec<_> = record
        .cells
        .iter()
        .filter(|cell| {
            cell.tenant_results.iter().any(|tenant| tenant.death.is_some())
                || cell.outcome.outcome == OutcomeKind::Failed
        })
        .collect();
    if affected.is_empty() {
        return Ok(false);
    }
    assert_eq!(affected.len(), 1, "{affected:?}");
    assert!(!affected[0].outcome.is_measured(), "{:?}", affected[0]);
    let affected = affected[0];
    let tenants = &affected.tenant_results;
    if tenants.iter().any(|tenant| tenant.death.is_some()) {
        let outcome = affected.outcome.outcome;
        assert_eq!(outcome, OutcomeKind::Inconclusive, "{affected:?}");
        assert_eq!(code, Some(0), "a dead aggressor fails no cell: {stderr}");
    }
    Ok(true)
}

#[test]
fn a_full_disk_is_reported_and_the_measured_cells_remain() -> TestResult {
    let lab = turing()?;
    let disk = lab.path("disk");
    std::fs::create_dir(&disk)?;
    // A file system of two megabytes, in a mount namespace that ends with the command.
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {disk} && {program} matrix --device virtual \
         --profile {profile} --out {disk}/out; status=$?; cp {disk}/out/events.jsonl {kept}; \
         exit $status",
        disk = disk.display(),
        program = program().display(),
        profile = lab.arg("short.toml"),
        kept = lab.arg("events.jsonl"),
    );
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .stdin(Stdio::null());
    let stderr = finish(command)?.ended_with(5)?.stderr;
    let named = stderr.contains("no space left") || stderr.contains("No space left");
    assert!(named, "{stderr}");
    let events = std::fs::read_to_string(lab.path("events.jsonl"))?;
    assert!(events.lines().count() >= 2, "{events}");
    Ok(())
}
