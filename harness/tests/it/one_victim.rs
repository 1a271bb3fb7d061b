//! One model of GPU has one victim: calibration does not follow the noise of a measurement, and on
//! the wall clock later runs use the calibration of the first.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gpubench_record::{Calibration, Condition, DeviceKind, Gate, GateState, RunRecord};

use crate::support::{Error, Lab, TestResult, finish, program, record, run_matrix};

/// Every victim of the default profile, alone, in cells that are long enough to run.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "the calibration of four victims"
decides = false
mechanisms = ["exclusive"]
axes = ["compute/sm", "bandwidth"]
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "20ms", gap = "5ms", open = "20ms" }
cell_min = { warmup = "10ms", closed = "20ms", gap = "5ms", open = "20ms" }
"#;

/// Some runs of the shortest kind.
const SHORT: &str =
    concat!("mechanisms = [\"exclusive\", \"time-slicing\"]\n", include_str!("data/short.toml"));

#[test]
fn every_seed_of_a_noisy_machine_has_the_same_victims() -> TestResult {
    const SEEDS: u64 = 20;
    let dir = tempfile::tempdir()?;
    let mut machine = gpubench_profiles::TURING.to_owned();
    // Five times the noise of the built-in machine.
    for (from, to) in [
        ("request = 0.004", "request = 0.02"),
        ("epoch = 0.003", "epoch = 0.015"),
        ("session = 0.002", "session = 0.01"),
    ] {
        assert!(machine.contains(from));
        machine = machine.replace(from, to);
    }
    let (next, found) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let work = || -> TestResult {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > SEEDS {
                return Ok(());
            }
            let (name, seed) = (format!("seed{seed}"), seed.to_string());
            run_matrix(dir.path(), &name, &machine, PROFILE, &["--seed", &seed])?.ended_with(0)?;
            let made = record(&dir.path().join(&name))?.calibration;
            std::fs::remove_dir_all(dir.path().join(&name))?;
            found.lock().map_err(|_| "a worker panicked")?.push(made);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("a worker panicked".into()))
        });
        joined.collect::<Result<Vec<()>, Error>>()
    })?;
    let found = found.into_inner()?;
    assert_eq!(found.len() as u64, SEEDS);
    let victims = found[0].basis.as_ref().ok_or("a basis")?.victims.clone();
    assert_eq!(victims, ["compute", "l2", "pcie", "stream"]);
    let hashes: BTreeSet<&str> = found.iter().map(|made| made.hash.as_str()).collect();
    assert_eq!(hashes.len(), 1, "{:?}", found.iter().map(specs).collect::<BTreeSet<_>>());
    // Rates are measured: the noise is in them.
    let rates = found.iter().map(|made| made.entries["compute"].service_ns);
    assert!(rates.collect::<BTreeSet<_>>().len() > 10);
    Ok(())
}

fn specs(made: &Calibration) -> String {
    let specs = made.entries.values().map(|entry| &entry.spec.params);
    format!("{:?}", specs.collect::<Vec<_>>())
}

fn on_the_wall_clock(lab: &Lab, out: &str, more: &[&str]) -> Result<RunRecord, Error> {
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", lab.machine(), "--"]);
    command.arg(program()).args(["matrix", "--profile", "short.toml", "--out", out]);
    command.args(more);
    finish(command)?.ended_with(0)?;
    lab.record(out)
}

fn kept_file(lab: &Lab) -> Result<PathBuf, Error> {
    let mut files = std::fs::read_dir(lab.path("state/gpubench/calibrations"))?;
    let file = files.next().ok_or("no file")??.path();
    assert!(files.next().is_none());
    Ok(file)
}

#[test]
fn a_later_run_on_the_wall_clock_uses_the_kept_calibration_and_finds_drift() -> TestResult {
    let lab = Lab::on("turing")?.profile(SHORT)?;
    let first = on_the_wall_clock(&lab, "first", &[])?.calibration;
    assert!(first.kept.is_empty() && !first.entries.is_empty(), "{first:?}");
    let again = on_the_wall_clock(&lab, "again", &[])?.calibration;
    assert_eq!(again.kept, first.entries.keys().cloned().collect::<Vec<_>>());
    let same = Calibration { kept: Vec::new(), ..again };
    assert_eq!(same, first);

    // As if the device had become slower since.
    let file = kept_file(&lab)?;
    let mut all: Vec<Calibration> = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let kept = all.first_mut().ok_or("a calibration")?;
    for entry in kept.entries.values_mut() {
        entry.service_ns = entry.service_ns * 2 / 3;
    }
    let (basis, binding) = (kept.basis.clone(), kept.binding.clone());
    *kept = Calibration {
        peaks: kept.peaks.clone(),
        ..Calibration::new(
            kept.entries.clone(),
            basis.ok_or("a basis")?,
            binding.ok_or("a binding")?,
        )
    };
    std::fs::write(&file, serde_json::to_string(&all)?)?;
    let drifted = on_the_wall_clock(&lab, "drifted", &[])?;
    assert_eq!(drifted.calibration.hash, first.hash);
    let native: Vec<_> = drifted
        .cells
        .iter()
        .filter(|cell| cell.cell.condition == Condition::N)
        .map(|cell| cell.gate_state(&Gate::ServiceDrift))
        .collect();
    assert!(!native.is_empty());
    // A busy host can leave a cell without the gate, but none can pass.
    assert!(native.contains(&Some(GateState::Failed)), "{native:?}");
    assert!(!native.contains(&Some(GateState::Passed)), "{native:?}");

    let new = on_the_wall_clock(&lab, "new", &["--recalibrate"])?.calibration;
    assert!(new.kept.is_empty() && !new.entries.is_empty());
    // A file that was changed by hand is not used.
    std::fs::write(
        &file,
        std::fs::read_to_string(&file)?.replace("\"blocks\":17", "\"blocks\":9"),
    )?;
    let after = on_the_wall_clock(&lab, "after", &[])?.calibration;
    assert!(after.kept.is_empty());
    // A file that was cut short is set aside, and a new one is made.
    std::fs::write(&file, "[{")?;
    let anew = on_the_wall_clock(&lab, "anew", &[])?.calibration;
    assert!(anew.kept.is_empty());
    assert_eq!(std::fs::read_to_string(file.with_extension("damaged"))?, "[{");
    let all: Vec<Calibration> = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    assert_eq!(all.len(), 1);
    Ok(())
}

// `matrix --calibration`: a calibration belongs to one device, its hash to a model of GPU.

const MECHANISMS: &str = "--mechanism=exclusive,time-slicing";

/// A folder with a run on a machine of this name, into `made`.
fn measured(name: &str) -> Result<Lab, Error> {
    let name = format!("name = \"{name}\"");
    let lab = Lab::changed("turing", &[("name = \"turing\"", &name)], "")?;
    finish(lab.matrix("made", &[MECHANISMS]))?.ended_with(0)?;
    Ok(lab)
}

#[test]
fn a_calibration_is_reused_on_its_own_device_only() -> TestResult {
    let (one, other) = (measured("one")?, measured("other")?);
    let (made, elsewhere) = (one.record("made")?, other.record("made")?);
    assert_eq!(made.calibration.hash, elsewhere.calibration.hash, "one model of GPU");
    let bound = made.calibration.binding.as_ref().ok_or("a binding")?;
    assert_eq!((&bound.uuid, bound.kind), (&made.device.uuid, DeviceKind::Virtual));
    assert_eq!(bound.peaks["memory_bytes_per_s"], 2.0 * 5001e6 * 256.0 / 8.0);
    // In virtual time nothing is kept.
    assert!(!one.path("state/gpubench/calibrations").exists());

    let reuse = |out: &str, path: &str| {
        let more = [MECHANISMS, "--calibration", path];
        finish(one.matrix(out, &more))
    };
    reuse("again", "made")?.ended_with(0)?;
    assert_eq!(one.record("again")?.calibration, made.calibration);

    let refused = |path: &str, said: &[&str]| -> TestResult {
        let done = reuse("refused", path)?.ended_with(2)?;
        let mut lines = done.stderr.lines();
        let line = lines.find(|line| line.contains("it belongs to"));
        let line = line.ok_or_else(|| done.stderr.clone())?;
        assert!(said.iter().all(|text| line.contains(text)), "{line}");
        Ok(())
    };
    let uuids = [made.device.uuid.as_str(), &elsewhere.device.uuid];
    refused(&other.arg("made"), &uuids)?;
    let mut real = made.calibration.clone();
    real.binding.iter_mut().for_each(|bound| bound.kind = DeviceKind::Real);
    one.write("real.json", &serde_json::to_string(&real)?)?;
    refused("real.json", &["(real, ", "(virtual, "])?;

    // Another driver may report another width of the same GPU: the run says so and goes on.
    let mut wider = made.calibration.clone();
    let bound = wider.binding.as_mut().ok_or("a binding")?;
    *bound.peaks.get_mut("memory_bytes_per_s").ok_or("a peak")? *= 2.0;
    one.write("wider.json", &serde_json::to_string(&wider)?)?;
    let done = reuse("of-wider", "wider.json")?.ended_with(0)?;
    assert!(done.text().contains("memory_bytes_per_s"), "{}", done.text());
    assert!(done.text().contains("; it is carried over"), "{}", done.text());

    // A calibration of an old record has no binding, and the run says so.
    let mut old = made.calibration;
    (old.basis, old.binding) = (None, None);
    // In format 1.0 the hash covered the entries.
    let entries = serde_json::to_string(&old.entries)?;
    old.hash = blake3::hash(entries.as_bytes()).to_hex().to_string();
    one.write("old.json", &serde_json::to_string(&old)?)?;
    let done = reuse("of-old", "old.json")?.ended_with(0)?;
    assert!(done.text().contains("the reused calibration has no binding"), "{}", done.text());
    assert_eq!(one.record("of-old")?.calibration, old);
    Ok(())
}
