//! Runs that change device settings, their journals, MPS daemons, and rows of a record.

use std::process::{Child, Command, Output};

use gpubench_record::{MechanismRow, OutcomeKind, RunRecord};

use super::{Lab, TestResult, text, wait_during};

impl Lab {
    /// `matrix` of these mechanisms, allowed to change device settings.
    pub fn reconfigure(&self, mechanisms: &str, out: &str) -> Command {
        self.matrix(out, &["--allow-reconfigure", "--mechanism", mechanisms])
    }

    /// The text of all journals.
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

/// A mechanism's row of a record.
pub fn row<'a>(record: &'a RunRecord, name: &str) -> Result<&'a MechanismRow, String> {
    let mut rows = record.mechanisms.iter();
    rows.find(|row| row.name == name).ok_or_else(|| format!("{name} is not in the record"))
}

/// The outcome and reason of a mechanism, and whether any of its rows was measured.
pub fn outcome(record: &RunRecord, name: &str) -> Result<(OutcomeKind, String, bool), String> {
    let row = row(record, name)?;
    let scored = record.matrix.iter().any(|row| row.mechanism == name && row.outcome.is_measured());
    let reason = row.outcome.reason.clone().unwrap_or_default();
    Ok((row.outcome.outcome, reason, scored))
}

/// Processes of MPS daemons whose pipe folders occur in this text.
pub fn daemons(named_in: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
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
