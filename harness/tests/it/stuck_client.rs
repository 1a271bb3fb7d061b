//! A client of an MPS server that is stuck, to its end: the daemon is asked to end it, it is told
//! to end, it is killed; and all that was set up for it goes as if nothing had happened.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::machine::BUILT_IN;
use gpubench_virtual_gpu::session::ENV;
use crate::support::mechanism::{PATIENCE, TestResult, daemons, device_that_stays, text};

type Error = Box<dyn std::error::Error>;

/// Signals.
const KILL: i32 = 9;
const TERM: i32 = 15;
/// Bit of `TERM` among the signals that wait for a process (proc_pid_status(5)).
const TERM_WAITS: u64 = 1 << (TERM - 1);

/// Stands in front of the daemon's command. Where a client must end, it writes down what the
/// client does at that moment and which signals wait for it, and afterwards whether it is there: in
/// a file for each client, since clients are ended at the same time.
const LISTENER: &str = r#"#!/bin/sh
[ $# = 0 ] || exec "$STAND_IN" "$@"
read -r line
case "$line" in
terminate_client*)
    client=${line##* }
    asked="$HERE/asked/$client"
    echo "$line" >> "$asked"
    grep -E '^(State|ShdPnd):' "/proc/$client/status" >> "$asked"
    printf '%s\n' "$line" | "$STAND_IN"
    status=$?
    echo "answered $status" >> "$asked"
    grep -E '^State:' "/proc/$client/status" >> "$asked"
    exit $status
esac
printf '%s\n' "$line" | "$STAND_IN"
"#;

/// What [`Stage::state`] tells.
type Left = (usize, usize, usize, bool);

/// A device that outlives a run, in folders of its own.
struct Stage {
    device: Device,
    environment: Vec<(String, String)>,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Result<Self, Error> {
        let dir = tempfile::tempdir()?;
        let hopper = BUILT_IN.iter().find(|(name, _)| *name == "hopper");
        let file = dir.path().join("machine.toml");
        std::fs::write(&file, hopper.ok_or("no hopper")?.1)?;
        std::fs::write(dir.path().join("short.toml"), include_str!("data/short.toml"))?;
        std::fs::create_dir(dir.path().join("run"))?;
        let program = Path::new(env!("CARGO_BIN_EXE_gpubench"));
        let environment = device_that_stays(program, &file, &dir.path().join("cache"))?;
        let folder = environment.iter().find(|(name, _)| name == ENV);
        let device = Device::open(Path::new(&folder.ok_or("no device")?.1))?;
        let mut stage = Self {
            device,
            environment,
            dir,
        };
        stage.place_listener()?;
        Ok(stage)
    }

    fn place_listener(&mut self) -> Result<(), Error> {
        let script = self.path("bin").join("nvidia-cuda-mps-control");
        std::fs::create_dir(self.path("bin"))?;
        std::fs::create_dir(self.path("asked"))?;
        std::fs::write(&script, LISTENER)?;
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755))?;
        let here = self.dir.path().display().to_string();
        let path = self.environment.iter_mut().find(|(name, _)| name == "PATH");
        let (_, path) = path.ok_or("no PATH")?;
        let commands = path.split(':').next().unwrap_or_default();
        let stand_in = format!("{commands}/nvidia-cuda-mps-control");
        *path = format!("{here}/bin:{path}");
        for (name, value) in [("HERE", here), ("STAND_IN", stand_in)] {
            self.environment.push((name.to_owned(), value));
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn matrix(&self) -> std::io::Result<Child> {
        Command::new(env!("CARGO_BIN_EXE_gpubench"))
            .args(["matrix", "--mechanism", "mps", "--profile"])
            .arg(self.path("short.toml"))
            .arg("--out")
            .arg(self.path("out"))
            .envs(self.environment.iter().cloned())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// What a run leaves in a folder: the journal's, and that of daemons.
    fn left_in(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path(name));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Daemons, servers and contexts on the device, and whether its settings are the driver's own.
    fn state(&self) -> Result<Left, Error> {
        self.device.reap_dead_processes()?;
        Ok(self.device.shared().read(|state| {
            let daemons = state.daemons.live().iter().filter(|row| row.live);
            let servers = state.servers.live().iter().filter(|row| row.live);
            let contexts = state.contexts.live().iter().filter(|row| row.live);
            let plain = state.compute_mode as u32 == 0 && state.slice_level == 0;
            (daemons.count(), servers.count(), contexts.count(), plain)
        })?)
    }

    /// Nothing of a run is left that had set up what its journal told of, nor of its victim.
    fn is_as_found(&self, found: Left, journal: &str, victim: u32) -> TestResult {
        assert!(journal.contains("mps-daemon"), "{journal}");
        assert_eq!(daemons(journal), Vec::<u32>::new());
        assert_eq!(self.left_in("state/gpubench"), Vec::<PathBuf>::new());
        assert_eq!(self.left_in("run"), Vec::<PathBuf>::new());
        assert_eq!(self.state()?, found);
        assert!(!Path::new(&format!("/proc/{victim}")).exists());
        Ok(())
    }

    /// The first client that the daemon was proved to have, which is the victim; and the folders of
    /// the daemon as the journal names them.
    fn victim(&self, run: &mut Child) -> Result<(u32, String), Error> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && run.try_wait()?.is_none() {
            let events = std::fs::read_to_string(self.path("out/events.jsonl"));
            let events = events.unwrap_or_default();
            let listed = events.split("the daemon lists all of [").nth(1);
            let first = listed.and_then(|pids| pids.split(',').next()?.parse().ok());
            if let Some(pid) = first {
                let journals = self.left_in("state/gpubench");
                let read = journals.iter().map(std::fs::read_to_string);
                return Ok((pid, read.filter_map(Result::ok).collect()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err("no client was proved".into())
    }
}

fn signal(pid: u32, name: &str) -> TestResult {
    let sent = Command::new("kill")
        .args([name, &pid.to_string()])
        .status()?;
    assert!(sent.success(), "{name} to {pid}");
    Ok(())
}

#[test]
fn a_client_that_does_not_go_is_ended_told_and_killed_in_this_order() -> TestResult {
    let stage = Stage::new()?;
    let found = stage.state()?;
    let mut run = stage.matrix()?;
    let (victim, journal) = stage.victim(&mut run)?;
    // In the client's process group, so that every signal to the group comes here too: what comes
    // first ends it, and can be read off its end.
    let group = i32::try_from(victim)?;
    let mut witness = Command::new("sleep")
        .arg("3600")
        .process_group(group)
        .spawn()?;
    signal(victim, "-STOP")?;
    let output = run.wait_with_output()?;
    let said = text(&output.stderr);
    let witnessed = witness.try_wait()?.and_then(|status| status.signal());
    if witnessed.is_none() {
        witness.kill()?;
        witness.wait()?;
    }

    // First the daemon, while nobody had told the client anything; it answered, and the client was
    // where it had been. Then SIGTERM to its group; and then what it could not hold back.
    assert_eq!(stage.left_in("asked").len(), 1, "{said}");
    let asked = std::fs::read_to_string(stage.path("asked").join(victim.to_string()))?;
    let lines: Vec<&str> = asked.lines().collect();
    let [command, before, waiting, answered, after] = lines[..] else {
        return Err(format!("not asked once: {asked}{said}").into());
    };
    assert!(command.ends_with(&format!(" {victim}")), "{asked}");
    let stopped = |line: &str| line.starts_with("State:\tT");
    assert!(stopped(before) && stopped(after), "{asked}");
    let waiting = waiting.rsplit('\t').next().unwrap_or_default();
    assert_eq!(u64::from_str_radix(waiting, 16)? & TERM_WAITS, 0, "{asked}");
    assert_eq!(answered, "answered 0");
    assert_eq!(witnessed, Some(TERM), "{said}");

    // The cell says what its victim died of, and the run that a cell failed.
    let record = std::fs::read(stage.path("out/record.json"))?;
    let record: RunRecord = serde_json::from_slice(&record)?;
    assert_eq!(output.status.code(), Some(4), "{said}");
    let failed: Vec<_> = record
        .cells
        .iter()
        .filter(|cell| cell.outcome.outcome == OutcomeKind::Failed)
        .collect();
    let [cell] = failed[..] else {
        return Err(format!("{} cells failed: {said}", failed.len()).into());
    };
    assert!(cell.cell.mechanism == "mps", "{cell:?}");
    let reason = cell.outcome.reason.clone().unwrap_or_default();
    let why = format!("and was stopped by the coordinator, killed by signal {KILL}");
    assert!(
        reason.contains("victim did not answer within") && reason.contains(&why),
        "{reason}"
    );
    // A fresh one takes its place, and what comes later is measured.
    let after = record
        .cells
        .iter()
        .filter(|other| other.cell.id > cell.cell.id);
    let mut served = after.filter(|other| other.cell.mechanism == "mps");
    let measured = served.any(|other| other.outcome.outcome != OutcomeKind::Failed);
    assert!(measured, "nothing ran after {}", cell.cell.id);

    stage.is_as_found(found, &journal, victim)
}

#[test]
fn the_clients_of_a_cell_that_the_user_gives_up_are_ended_by_their_daemon_first() -> TestResult {
    let stage = Stage::new()?;
    let found = stage.state()?;
    let mut run = stage.matrix()?;
    let (victim, journal) = stage.victim(&mut run)?;
    // The cell cannot end any more without the user.
    signal(victim, "-STOP")?;
    signal(run.id(), "-INT")?;
    let output = run.wait_with_output()?;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");

    let asked = stage.path("asked").join(victim.to_string());
    let asked = std::fs::read_to_string(asked).unwrap_or_default();
    let of_victim =
        |line: &&str| line.starts_with("terminate_client") && line.ends_with(&format!(" {victim}"));
    let mut lines = asked.lines().skip_while(|line| !of_victim(line));
    assert!(lines.next().is_some(), "{asked}{said}");
    let before = lines.next().unwrap_or_default();
    assert!(before.starts_with("State:\tT"), "killed before: {asked}");
    let waiting = lines.next().and_then(|line| line.rsplit('\t').next());
    let waiting = u64::from_str_radix(waiting.unwrap_or_default(), 16)?;
    assert_eq!(waiting & TERM_WAITS, 0, "told before: {asked}");

    let record = std::fs::read(stage.path("out/record.json"))?;
    let record: RunRecord = serde_json::from_slice(&record)?;
    assert!(!record.complete);
    stage.is_as_found(found, &journal, victim)
}
