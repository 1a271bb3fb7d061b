//! Mechanisms from outside, on the virtual GPU: each is set up, proved and undone again, also when
//! the run is killed or its daemon dies.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpubench_record::{OutcomeKind, RunRecord};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The shortest run that goes through everything: six blocks of one resource.
const SHORT: &str = include_str!("short.toml");
/// Longest wait for something that a run does on its way.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run's folders: its own state, its own output.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> std::io::Result<Self> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("short.toml"), SHORT)?;
        Ok(Self(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn gpubench(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
        command
            .args(args)
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn matrix(&self, mechanisms: &str, out: &str) -> Command {
        let (profile, out) = (self.path("short.toml"), self.path(out));
        let mut command = self.gpubench(&["matrix", "--device", "virtual:hopper"]);
        command.arg("--profile").arg(profile).arg("--out").arg(out);
        command.args(["--allow-reconfigure", "--mechanism", mechanisms]);
        command
    }

    fn record(&self, out: &str) -> Result<RunRecord, Box<dyn std::error::Error>> {
        let bytes = std::fs::read(self.path(out).join("record.json"))?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Everything in the journals.
    fn journal(&self) -> String {
        let Ok(entries) = std::fs::read_dir(self.path("state").join("gpubench")) else {
            return String::new();
        };
        let read = entries
            .flatten()
            .map(|entry| std::fs::read_to_string(entry.path()));
        read.filter_map(Result::ok).collect()
    }

    /// Waits until the journal of a run says this.
    fn wait_for(&self, run: &mut Child, text: &str) -> TestResult {
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(output: &Output) -> Result<(), String> {
    let (code, said) = (output.status.code(), text(&output.stderr));
    if code == Some(0) {
        Ok(())
    } else {
        Err(format!("{code:?}: {said}"))
    }
}

/// Processes of MPS daemons in folders that this text names.
fn daemons(named_in: &str) -> Vec<u32> {
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

fn kill(pid: u32) -> std::io::Result<()> {
    Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .map(|_| ())
}

#[test]
fn each_is_proved_and_leaves_nothing() -> TestResult {
    let place = Place::new()?;
    let all = ["mps", "mps-quota", "mig", "hami"];
    let output = place.matrix(&all.join(","), "out").output()?;
    done(&output)?;
    let record = place.record("out")?;
    for name in all {
        let row = record.mechanisms.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| format!("{name} is not in the record"))?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        assert!(!row.proof.is_empty(), "{name} is not proved");
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
    }
    let evidence = |name: &str| {
        let row = record.mechanisms.iter().find(|row| row.name == name);
        let proofs = row.map(|row| row.proof.as_slice()).unwrap_or_default();
        let hardware = proofs.iter().any(|proof| proof.hardware);
        (hardware, proofs.iter().any(|proof| proof.limiter))
    };
    assert_eq!(evidence("mig"), (true, false));
    assert_eq!(evidence("mps-quota"), (false, true));
    assert_eq!(evidence("hami"), (false, true));
    assert_eq!(evidence("mps"), (false, false));
    assert_eq!(place.journal(), "");
    Ok(())
}

#[test]
fn a_killed_run_is_cleaned_up_after() -> TestResult {
    let place = Place::new()?;
    let mut run = place.matrix("mig-mps", "killed").spawn()?;
    // The unprotected form has a daemon too, for the whole device, and comes first.
    place.wait_for(&mut run, "\"device\":\"MIG-")?;
    let left = place.journal();
    let begin = Instant::now();
    while daemons(&left).is_empty() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill()?;
    run.wait()?;
    assert!(left.contains("mig-instance"), "{left}");
    let refused = place.matrix("mps", "refused").output()?;
    assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("gpubench cleanup"));
    let cleaned = place.gpubench(&["cleanup"]).output()?;
    done(&cleaned)?;
    let said = text(&cleaned.stdout);
    for change in [
        "MIG mode off to on",
        "MIG instance 7g.80gb",
        "MPS daemon in",
    ] {
        assert!(said.contains(change), "{said}");
    }
    assert_eq!(daemons(&left), Vec::<u32>::new(), "a daemon lives on");
    assert_eq!(place.journal(), "");
    let again = place.gpubench(&["cleanup"]).output()?;
    assert_eq!(text(&again.stdout), "nothing to clean up\n");
    done(&place.matrix("mps", "after").output()?)?;
    Ok(())
}

#[test]
fn a_daemon_that_dies_is_told_and_nothing_is_scored() -> TestResult {
    let place = Place::new()?;
    let mut run = place.matrix("mps", "out").spawn()?;
    place.wait_for(&mut run, "mps-daemon")?;
    let journal = place.journal();
    wait_for_cell(&place.path("out"), "\"variant\":\"mps\"")?;
    for pid in daemons(&journal) {
        kill(pid)?;
    }
    let output = run.wait_with_output()?;
    let record = place.record("out")?;
    let row = record.mechanisms.iter().find(|row| row.name == "mps");
    let row = row.ok_or("mps is not in the record")?;
    assert_eq!(
        row.outcome.outcome,
        OutcomeKind::Failed,
        "{}",
        text(&output.stderr)
    );
    let reason = row.outcome.reason.clone().unwrap_or_default();
    assert!(
        reason.contains("not in force") || reason.contains("set up"),
        "{reason}"
    );
    assert_eq!(place.journal(), "");
    Ok(())
}

/// Waits until a proof of this variant is written down.
fn wait_for_cell(out: &Path, wanted: &str) -> TestResult {
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
