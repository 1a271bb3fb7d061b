//! A place for tests of mechanisms: folders of their own, a machine that can be bent, the shortest
//! runs, and the record that they leave.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpubench_record::{MechanismRow, OutcomeKind, RunRecord};

pub type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The shortest run that goes through everything: six blocks of one resource.
const SHORT: &str = include_str!("../data/short.toml");
/// Longest wait for something that a run does on its way.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A run's folders: its own state, its own output.
pub struct Place {
    dir: tempfile::TempDir,
    machine: String,
}

impl Place {
    /// On one of the built-in machines.
    pub fn new(machine: &str) -> std::io::Result<Self> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("short.toml"), SHORT)?;
        Ok(Self {
            dir,
            machine: machine.to_owned(),
        })
    }

    /// On a built-in machine with changes to its file: each text, which must be there, is replaced
    /// by another, and one is put at the end.
    pub fn bent(machine: &str, changes: &[(&str, &str)], end: &str) -> Result<Self, String> {
        let mut place = Self::new(machine).map_err(|error| error.to_string())?;
        let built_in = gpubench_virtual_gpu::machine::BUILT_IN.iter();
        let known = built_in.clone().find(|(name, _)| *name == machine);
        let mut text = known.ok_or("an unknown machine")?.1.to_owned();
        for (from, to) in changes {
            if !text.contains(from) {
                return Err(format!("{machine} says nothing like {from:?}"));
            }
            text = text.replacen(from, to, 1);
        }
        text.push_str(end);
        let file = place.path("machine.toml");
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        place.machine = file.display().to_string();
        Ok(place)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `--device` of its machine.
    pub fn device(&self) -> String {
        format!("virtual:{}", self.machine)
    }

    pub fn gpubench(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
        command
            .args(args)
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The main job on these mechanisms, with leave to change the device.
    pub fn matrix(&self, mechanisms: &str, out: &str) -> Command {
        let device = self.device();
        let mut command = self.gpubench(&["matrix", "--device", &device, "--allow-reconfigure"]);
        self.short(&mut command, mechanisms, out);
        command
    }

    /// Names profile, mechanisms and output of a run.
    pub fn short(&self, command: &mut Command, mechanisms: &str, out: &str) {
        command
            .arg("--profile")
            .arg(self.path("short.toml"))
            .arg("--out")
            .arg(self.path(out))
            .args(["--mechanism", mechanisms]);
    }

    pub fn record(&self, out: &str) -> Result<RunRecord, Box<dyn std::error::Error>> {
        let bytes = std::fs::read(self.path(out).join("record.json"))?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Everything in the journals.
    pub fn journal(&self) -> String {
        let Ok(entries) = std::fs::read_dir(self.path("state").join("gpubench")) else {
            return String::new();
        };
        let read = entries
            .flatten()
            .map(|entry| std::fs::read_to_string(entry.path()));
        read.filter_map(Result::ok).collect()
    }

    /// Waits until the journal of a run says this.
    pub fn wait_for(&self, run: &mut Child, text: &str) -> TestResult {
        let begin = Instant::now();
        while !self.journal().contains(text) {
            if begin.elapsed() > PATIENCE || run.try_wait()?.is_some() {
                return Err(format!("no {text} in the journal: {}", self.journal()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Makes a virtual device that stays when this program is gone, in a cache folder, and returns the
/// variables with which programs find it. The commands that stand in for the vendor's there are
/// `program`, which makes it.
pub fn device_that_stays(
    program: &Path,
    machine: &Path,
    cache: &Path,
) -> std::io::Result<Vec<(String, String)>> {
    let made = Command::new(program)
        .args(["virtual-gpu", "env", "--machine"])
        .arg(machine)
        .env("XDG_CACHE_HOME", cache)
        .output()?;
    let variable = |line: &str| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').to_owned()))
    };
    Ok(text(&made.stdout).lines().filter_map(variable).collect())
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether it ended well.
pub fn done(output: &Output) -> Result<(), String> {
    let (code, said) = (output.status.code(), text(&output.stderr));
    if code == Some(0) {
        Ok(())
    } else {
        Err(format!("{code:?}: {said}"))
    }
}

/// A mechanism's row of a record.
pub fn row<'a>(record: &'a RunRecord, name: &str) -> Result<&'a MechanismRow, String> {
    let mut rows = record.mechanisms.iter();
    rows.find(|row| row.name == name)
        .ok_or_else(|| format!("{name} is not in the record"))
}

/// A row with its outcome and reason, and whether anything of it was scored.
pub fn outcome(record: &RunRecord, name: &str) -> Result<(OutcomeKind, String, bool), String> {
    let row = row(record, name)?;
    let scored = record
        .matrix
        .iter()
        .any(|row| row.mechanism == name && row.outcome.is_measured());
    let reason = row.outcome.reason.clone().unwrap_or_default();
    Ok((row.outcome.outcome, reason, scored))
}

/// Processes of MPS daemons in folders that this text names.
pub fn daemons(named_in: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
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

pub fn kill(pid: u32) -> std::io::Result<()> {
    Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .map(|_| ())
}

/// Waits until a proof of this variant is written down.
pub fn wait_for_proof(out: &Path, wanted: &str) -> TestResult {
    let begin = Instant::now();
    loop {
        let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap_or_default();
        let proved = |line: &str| line.contains("\"event\":\"proved\"") && line.contains(wanted);
        if events.lines().any(proved) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("no proof with {wanted}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
