//! Fault trials: short runs with them, machines with planted defects, and rows of the records.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output};

use gpubench_record::{FaultResult, FaultTally, MatrixRow, MechanismRow, OutcomeKind, RunRecord};

use super::{Error, Lab, TestResult, finish, gpubench, record, run_matrix, text, wait_during};

/// The shortest profile with two victims beside the injector. Three MIG instances can have this
/// share.
pub const PROFILE: &str = concat!(
    "tenants = 3\nshare = \"1/4\"\n",
    include_str!("../data/short.toml"),
    "[faults]\ntrials = 1\n"
);
pub const TURING: &str = gpubench_profiles::TURING;
pub const HOPPER: &str = gpubench_profiles::HOPPER;

pub fn planted(machine: &str, defects: &[(&str, toml::Value)]) -> Result<String, Error> {
    let mut machine: toml::Table = machine.parse()?;
    let entry = machine.entry("defects".to_owned());
    let table = entry.or_insert_with(|| toml::Table::new().into());
    for (key, value) in defects {
        let table = table.as_table_mut().ok_or("defects is a table")?;
        table.insert((*key).to_owned(), value.clone());
    }
    Ok(machine.to_string())
}

pub fn without_ecc(machine: &str) -> String {
    machine.replace("scrub = false", "scrub = false\necc = false")
}

pub fn matrix(dir: &Path, name: &str, machine: &str, more: &[&str]) -> Result<RunRecord, Error> {
    let (code, stderr, record) = ended(dir, name, machine, more)?;
    if code != Some(0) {
        return Err(stderr.into());
    }
    Ok(record)
}

/// The status of a run, its standard error and its record.
pub fn ended(
    dir: &Path,
    name: &str,
    machine: &str,
    more: &[&str],
) -> Result<(Option<i32>, String, RunRecord), Error> {
    let done = run_matrix(dir, name, machine, PROFILE, more)?;
    let record = record(&dir.join(name)).map_err(|_| done.stderr.clone())?;
    Ok((done.code, done.stderr, record))
}

/// The trials of a mechanism by fault. All must be measured, leave nothing on the host and need no
/// recovery action.
pub fn trials<'a>(
    record: &'a RunRecord,
    mechanism: &str,
) -> Result<BTreeMap<&'a str, &'a FaultResult>, Error> {
    let mut found = BTreeMap::new();
    for trial in &record.fault_trials {
        if trial.planned.mechanism != mechanism {
            continue;
        }
        if !trial.outcome.is_measured() {
            return Err(format!("{}: {:?}", trial.planned.id, trial.outcome).into());
        }
        assert_eq!(trial.observed.left_behind, Some(vec![]), "{}", trial.planned.id);
        assert_eq!(trial.observed.recovery_action, [Some(0); 2], "{}", trial.planned.id);
        found.insert(trial.planned.fault.as_str(), trial);
    }
    Ok(found)
}

pub fn row<'a>(
    record: &'a RunRecord,
    mechanism: &str,
    fault: &str,
) -> Result<&'a MatrixRow, Error> {
    let found = record.matrix.iter().find(|row| {
        row.mechanism == mechanism && row.axis == "fault" && row.aggressor.as_deref() == Some(fault)
    });
    found.ok_or_else(|| format!("no row for {fault} under {mechanism}").into())
}

pub const TIME_SLICING: &str = "--mechanism=exclusive,time-slicing";

pub fn tally<'a>(
    record: &'a RunRecord,
    mechanism: &str,
    fault: &str,
) -> Result<&'a FaultTally, Error> {
    let mut tallies = record.fault_tallies.iter();
    let found = tallies.find(|one| one.mechanism == mechanism && one.fault == fault);
    found.ok_or_else(|| format!("no tally of {fault} under {mechanism}").into())
}

/// The output of `gpubench report` for these records.
pub fn report(dir: &Path, names: &[&str], format: &str) -> Result<String, Error> {
    let mut command = gpubench(["report", &format!("--format={format}")]);
    if matches!(format, "text" | "md") {
        command.arg("--full");
    }
    command.args(names.iter().map(|name| dir.join(name)));
    Ok(finish(command)?.ended_with(0)?.stdout)
}

// Runs that change device settings, their journals, MPS daemons, and rows of a record.

impl Lab {
    /// `matrix` of these mechanisms, allowed to change device settings.
    pub fn reconfigure(&self, mechanisms: &str, out: &str) -> Command {
        self.matrix(out, &["--allow-reconfigure", "--mechanism", mechanisms])
    }

    pub fn journal(&self) -> String {
        let Ok(entries) = std::fs::read_dir(self.path("state/gpubench")) else {
            return String::new();
        };
        let texts = entries.flatten().map(|entry| std::fs::read_to_string(entry.path()));
        texts.filter_map(Result::ok).collect()
    }

    /// Waits until the journal of a run contains this.
    pub fn wait_for_journal(&self, run: &mut Child, wanted: &str) -> TestResult {
        wait_during(run, wanted, || self.journal().contains(wanted))
    }
}

/// An error with the standard error of a command that did not end with status 0.
pub fn done(output: &Output) -> Result<(), String> {
    let (code, stderr) = (output.status.code(), text(&output.stderr));
    if code == Some(0) { Ok(()) } else { Err(format!("{code:?}: {stderr}")) }
}

pub fn mechanism_row<'a>(record: &'a RunRecord, name: &str) -> Result<&'a MechanismRow, String> {
    let mut rows = record.mechanisms.iter();
    rows.find(|row| row.name == name).ok_or_else(|| format!("{name} is not in the record"))
}

/// The outcome and reason of a mechanism, and whether any of its rows was measured.
pub fn outcome(record: &RunRecord, name: &str) -> Result<(OutcomeKind, String, bool), String> {
    let row = mechanism_row(record, name)?;
    let scored = record.matrix.iter().any(|row| row.mechanism == name && row.outcome.is_measured());
    let reason = row.outcome.reason.clone().unwrap_or_default();
    Ok((row.outcome.outcome, reason, scored))
}

/// Processes of MPS daemons whose pipe folders occur in this text.
pub fn daemons(named_in: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let read = |file: &str| text(&std::fs::read(entry.path().join(file)).unwrap_or_default());
        let environ = read("environ");
        let pipes = environ
            .split('\0')
            .find_map(|variable| variable.strip_prefix("CUDA_MPS_PIPE_DIRECTORY="));
        let ours = pipes.is_some_and(|pipes| !pipes.is_empty() && named_in.contains(pipes));
        if ours && read("cmdline").contains("nvidia-cuda-mps") {
            found.extend(pid);
        }
    }
    found
}

/// Sends a signal, named without `SIG`.
pub fn signal(pid: u32, name: &str) -> TestResult {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    assert!(sent.success(), "kill -s {name} {pid}");
    Ok(())
}

pub fn kill(pid: u32) -> std::io::Result<()> {
    Command::new("kill").args(["-9", &pid.to_string()]).status().map(|_| ())
}
