//! The guard process: whatever ends the coordinator, 3 s later nothing of the run is left, without
//! `cleanup`; its record renders, and the next run starts.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use super::support::fault::{daemons, signal};
use crate::support::guarded::{Guarded, guard_of, kill_both};
use crate::support::{Error, Finished, Lab, TestResult, finish, text, wait_during, wait_for};

/// Seeds of the instants of kills, for each mechanism.
const SEEDS: u64 = 4;
/// The instants: from the start of the process, or from the first change of the host.
const SPAN_MS: u64 = 2500;

/// A number from 0 to `below`, by a splitmix64 step.
fn drawn(seed: u64, below: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)) % below
}

/// Waits until the instant of a seed: half of the seeds count from the first change.
fn wait_for_instant(host: &Guarded, run: &mut Child, seed: u64) -> TestResult {
    if seed % 2 == 1 {
        // Runs that end before are killed too late, which the test accepts.
        let lab = &host.host.lab;
        let _ended = wait_during(run, "a change", || lab.journal().contains("\"change\""));
    }
    std::thread::sleep(Duration::from_millis(drawn(seed, SPAN_MS)));
    Ok(())
}

/// The record of an ended run renders if it began, and another run starts.
fn goes_on(host: &Guarded, mechanism: &str, what: &str) -> TestResult {
    let out = host.host.lab.path("out");
    // A record begins with its first whole event.
    let events = std::fs::read(out.join("events.jsonl")).unwrap_or_default();
    if events.contains(&b'\n') {
        let report = finish(host.gpubench(&["report", "out"]))?;
        assert_eq!(report.code, Some(0), "{what}: {}", report.stderr);
    }
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    let next = rehearse(host, mechanism)?;
    assert_eq!(next.code, Some(0), "{what}: {}", next.stderr);
    // Processes of dead runs can be those of another test.
    assert!(!next.stderr.contains("undone:"), "{what}: {}", next.stderr);
    host.is_clean(what)
}

/// Sets a mechanism up and undoes it.
fn rehearse(host: &Guarded, mechanism: &str) -> Result<Finished, Error> {
    finish(host.gpubench(&[
        "plan",
        "--rehearse",
        "--allow-reconfigure",
        "--profile",
        "short.toml",
        "--mechanism",
        mechanism,
    ]))
}

fn kill_at_instants(mechanism: &str) -> TestResult {
    let host = Guarded::new()?;
    for seed in 1..=SEEDS {
        let what = format!("{mechanism} killed at the instant of seed {seed}");
        let mut run = host.matrix(mechanism, "out").spawn()?;
        wait_for_instant(&host, &mut run, seed)?;
        let name = ["KILL", "ABRT"][usize::from(seed % 3 == 0)];
        if run.try_wait()?.is_none() {
            signal(run.id(), name)?;
        }
        // The output ends with the processes that hold it.
        run.wait_with_output()?;
        host.is_clean(&what)?;
        goes_on(&host, mechanism, &what)?;
    }
    Ok(())
}

#[test]
fn a_killed_run_of_mps_leaves_nothing() -> TestResult {
    kill_at_instants("mps")
}

#[test]
fn a_killed_run_of_mig_leaves_nothing() -> TestResult {
    kill_at_instants("mig")
}

#[test]
fn a_run_right_after_a_kill_waits_for_the_guard_process() -> TestResult {
    let host = Guarded::new()?;
    for mechanism in ["mig", "mps"] {
        let mut run = host.matrix(mechanism, "out").spawn()?;
        host.host.lab.wait_for_journal(&mut run, "\"change\"")?;
        run.kill()?;
        run.wait()?;
        // Whoever has the device first undoes what is left.
        let next = rehearse(&host, mechanism)?;
        assert_eq!(next.code, Some(0), "{mechanism}: {}", next.stderr);
        host.is_clean(mechanism)?;
        std::fs::remove_dir_all(host.host.lab.path("out"))?;
    }
    Ok(())
}

#[test]
fn a_virtual_gpu_of_a_killed_run_is_removed() -> TestResult {
    let host = Guarded::new()?;
    for seed in 1..=SEEDS {
        let mut run = host.gpubench(&["matrix", "--device", "virtual", "--profile", "short.toml"]);
        let mut run = run.args(["--mechanism", "mps", "--out", "out"]).spawn()?;
        wait_for_instant(&host, &mut run, seed)?;
        run.kill()?;
        run.wait_with_output()?;
        let what = format!("a virtual GPU at the instant of seed {seed}");
        host.is_clean(&what)?;
        goes_on(&host, "mps", &what)?;
    }
    Ok(())
}

#[test]
fn the_end_of_a_terminal_and_sigquit_end_a_run_in_order() -> TestResult {
    let host = Guarded::new()?;
    for name in ["HUP", "QUIT"] {
        let mut run = host.matrix("mps", "out").spawn()?;
        host.host.lab.wait_for_journal(&mut run, "mps-daemon")?;
        signal(run.id(), name)?;
        let ended = Finished::from(run.wait_with_output()?).ended_with(130)?;
        assert!(!ended.stderr.contains("panic"), "{name}: {}", ended.stderr);
        assert!(!host.host.lab.record("out")?.complete, "{name}");
        host.is_clean(name)?;
        goes_on(&host, "mps", name)?;
    }
    Ok(())
}

#[test]
fn a_run_under_nohup_ignores_the_end_of_its_terminal() -> TestResult {
    let host = Guarded::new()?;
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let run = host.matrix("mps", "out");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(host.host.lab.path("")).stdin(std::process::Stdio::null());
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut run = shell.spawn()?;
    host.host.lab.wait_for_journal(&mut run, "mps-daemon")?;
    signal(run.id(), "HUP")?;
    std::thread::sleep(Duration::from_millis(300));
    assert!(run.try_wait()?.is_none(), "it ended");
    signal(run.id(), "TERM")?;
    Finished::from(run.wait_with_output()?).ended_with(130)?;
    host.is_clean("nohup")
}

#[test]
fn a_guard_process_survives_signals_and_a_dead_one_is_started_again() -> TestResult {
    let host = Guarded::new()?;
    let mut run = host.matrix("mps", "out").spawn()?;
    host.host.lab.wait_for_journal(&mut run, "mps-daemon")?;
    let guard = guard_of(&run).ok_or("no guard process")?;
    let group = |pid: u32| -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Fields after the name in parentheses: state, parent, process group.
        Some(stat.rsplit(')').next()?.split_whitespace().nth(2)?.to_owned())
    };
    assert_ne!(group(guard), group(run.id()), "Ctrl-C reaches the guard process");
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        signal(guard, name)?;
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(guard_of(&run), Some(guard));
    for output in ["1", "2"] {
        let kept = std::fs::read_link(format!("/proc/{guard}/fd/{output}"))?;
        assert_eq!(kept.to_str(), Some("/dev/null"));
    }
    for name in ["KILL", "ABRT", "KILL"] {
        let first = guard_of(&run).ok_or("no guard process")?;
        signal(first, name)?;
        wait_for("another guard process", || guard_of(&run).is_some_and(|pid| pid != first))?;
    }
    run.kill()?;
    run.wait()?;
    host.is_clean("a run whose guard process was started again")
}

#[test]
fn what_a_run_left_that_died_with_its_guard_process_is_undone_by_the_next() -> TestResult {
    for mechanism in ["mps", "mig"] {
        let host = Guarded::new()?;
        let mut run = host.matrix(mechanism, "out").spawn()?;
        let wanted = if mechanism == "mps" { "mps-daemon" } else { "\"made\"" };
        host.host.lab.wait_for_journal(&mut run, wanted)?;
        let journal = host.host.lab.journal();
        if mechanism == "mps" {
            wait_for("a daemon", || !daemons(&journal).is_empty())?;
        }
        kill_both(&mut run)?;
        assert!(host.has_left()?, "{mechanism}: the guard process is not dead");
        let next = rehearse(&host, "mps")?.ended_with(0)?;
        let notes = next.stderr.lines().filter(|line| line.contains("what a dead run left: "));
        assert_eq!(notes.count(), 1, "{mechanism}: {}", next.stderr);
        host.is_clean(mechanism)?;
    }
    Ok(())
}

#[test]
fn a_stopped_coordinator_is_not_dead() -> TestResult {
    let host = Guarded::new()?;
    let mut run = host.matrix("mps", "out").spawn()?;
    host.host.lab.wait_for_journal(&mut run, "mps-daemon")?;
    let journal = host.host.lab.journal();
    wait_for("a daemon", || !daemons(&journal).is_empty())?;
    signal(run.id(), "STOP")?;
    std::thread::sleep(Duration::from_secs(3));
    assert!(!daemons(&journal).is_empty(), "the daemon was ended");
    signal(run.id(), "CONT")?;
    let ended = run.wait_with_output()?;
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(host.host.lab.record("out")?.complete);
    host.is_clean("a run that was stopped")
}

#[test]
fn what_a_users_program_started_ends_with_a_killed_run() -> TestResult {
    let host = Guarded::new()?;
    let program = "setsid sleep 1000 & (setsid sleep 1000 &) & while echo x; do sleep 0.01; done";
    let mut run = host.matrix("mps", "out");
    run.args(["--victim-cmd", program, "--victim-reports", "lines"]);
    let mut run = run.spawn()?;
    let sleepers = || {
        let of_run = crate::support::processes_with(&host.host.lab.arg("state"));
        of_run.iter().filter(|line| line.trim() == "sleep 1000").count()
    };
    wait_during(&mut run, "the program", || sleepers() == 2)?;
    run.kill()?;
    run.wait_with_output()?;
    host.is_clean("a run with a user's program")
}

// `gpubench cleanup` after a run that died together with its guard process: it undoes what is
// left, for the device that is named, and leaves no file behind.

/// The folders in which a run keeps files.
const FOLDERS: [(&str, &str); 4] = [
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
    ("XDG_RUNTIME_DIR", "run"),
    ("TMPDIR", "tmp"),
];

/// A lab whose runs keep all their files in it.
struct Host(Lab);

impl Host {
    fn new() -> Result<Self, Error> {
        let lab = Lab::on("hopper")?;
        for (_, folder) in FOLDERS {
            std::fs::create_dir(lab.path(folder))?;
        }
        Ok(Self(lab))
    }

    fn with_folders(&self, mut command: Command) -> Command {
        for (variable, folder) in FOLDERS {
            command.env(variable, self.0.path(folder));
        }
        command
    }

    fn gpubench(&self, args: &[&str]) -> Command {
        self.with_folders(self.0.gpubench(args))
    }

    /// A run of `mps` that died with its guard process while its daemon ran. Returns its journal.
    fn died(&self) -> Result<String, Error> {
        let mut run: Child = self.with_folders(self.0.reconfigure("mps", "out")).spawn()?;
        self.0.wait_for_journal(&mut run, "mps-daemon")?;
        let journal = self.0.journal();
        wait_for("a daemon", || !daemons(&journal).is_empty())?;
        kill_both(&mut run)?;
        Ok(journal)
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = FOLDERS.iter().flat_map(|(_, folder)| {
            let folder = self.0.path(folder);
            std::fs::read_dir(folder).into_iter().flatten().flatten()
        });
        // The state folder itself stays, with what is kept for later runs.
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| !path.ends_with("state/gpubench") || self.0.journal() != "").collect()
    }
}

#[test]
fn cleanup_of_the_virtual_device_undoes_what_is_left_and_leaves_no_file() -> TestResult {
    for device in ["virtual", "virtual:hopper"] {
        let host = Host::new()?;
        let journal = host.died()?;
        assert_ne!(host.left(), Vec::<PathBuf>::new());
        let cleaned = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(0)?;
        for part in ["undone: MPS daemon in", "undone: folder", "removed "] {
            assert!(cleaned.stdout.contains(part), "{device}: {}", cleaned.stdout);
        }
        assert_eq!(daemons(&journal), Vec::<u32>::new(), "{device}");
        assert_eq!(host.left(), Vec::<PathBuf>::new(), "{device}");
        let again = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(0)?;
        assert_eq!(again.stdout, "nothing to clean up\n", "{device}");
    }
    Ok(())
}

#[test]
fn cleanup_of_another_device_leaves_the_journal() -> TestResult {
    let host = Host::new()?;
    let journal = host.died()?;
    finish(host.gpubench(&["cleanup", "--device", "virtual:turing"]))?.ended_with(0)?;
    assert_eq!(host.0.journal(), journal);
    finish(host.gpubench(&["cleanup"]))?.ended_with(0)?;
    assert_eq!(host.0.journal(), "");
    assert_eq!(host.left(), Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn an_unknown_device_is_a_usage_error() -> TestResult {
    let host = Host::new()?;
    for (device, part) in [
        ("GPU-00000000-0000-0000-0000-000000000000", "no run left anything on it"),
        ("7", "no run left anything on it"),
        ("virtual:nothing", "nothing"),
        ("gpu7", "is not a device"),
    ] {
        let refused = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(2)?;
        assert!(refused.stderr.contains(part), "{device}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{device}");
    }
    assert_eq!(host.left(), Vec::<PathBuf>::new());
    Ok(())
}
