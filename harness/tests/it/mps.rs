//! `nvidia-cuda-mps-control` on a virtual GPU, from a shell: output, errors, exit status.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use gpubench_record::{Json, OutcomeKind, RunEvent};
use gpubench_virtual_gpu::device::Device;

use super::support::fault::{daemons, signal};
use super::support::guarded::Resident;
use crate::support::{
    Error, Finished, Lab, TestResult, finish, gpubench, quick_hopper, wait_during,
};

/// Runs a shell script on a virtual GPU, with MPS folders of its own.
fn shell(machine: &str, script: &str) -> Result<Finished, Error> {
    let folder = tempfile::tempdir()?;
    let exec = ["virtual-gpu", "exec", "--machine", machine, "--"];
    let mut command = gpubench(exec);
    command
        .args(["sh", "-c", script])
        .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
        .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"));
    finish(command)
}

#[test]
fn a_daemon_listens_once_started_and_quit_ends_it() -> TestResult {
    let script = r#"
        control() { echo "$*" | nvidia-cuda-mps-control; }
        nvidia-cuda-mps-control -d
        echo "started $?"
        control start_server -uid "$(id -u)"
        server=$(control get_server_list)
        echo "served by $(cat /proc/$server/comm)"
        control get_server_status "$server"
        control set_default_active_thread_percentage 50
        control frobnicate | wc -l
        control frobnicate > /dev/null
        echo "answered $?"
        nvidia-cuda-mps-control -d
        echo "second $?"
        control quit
        echo "quit $?"
        test -e "/proc/$server/exe" && echo "the server is still there"
        control get_server_list
        echo "after $?"
    "#;
    let run = shell("hopper", script)?.ended_with(0)?;
    let expected = [
        "started 0",
        "served by nvidia-cuda-mps",
        "ACTIVE",
        "50.0",
        "1",
        "answered 0",
        "An instance of this daemon is already running",
        "second 1",
        "quit 0",
        "after 1",
    ];
    // Lines and streams are those of the vendor's command (driver 580.159.04, 2026-11-22).
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed, expected, "{}", run.stderr);
    let errors: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(errors, ["Cannot find MPS control daemon process"]);
    Ok(())
}

#[test]
fn partitions_are_created_and_listed_if_the_driver_supports_them() -> TestResult {
    let script = r#"
        control() { echo "$*" | nvidia-cuda-mps-control; }
        nvidia-cuda-mps-control -d -S || exit
        gpu=$(control device_query | tail -1 | tr -s ' ' | cut -d ' ' -f 3)
        control sm_partition add "$gpu" 4 | sed "s/$gpu/GPU/"
        control lspart | tail -1 | tr -s ' ' | cut -d ' ' -f 2-
        control quit
    "#;
    let run = shell("hopper", script)?.ended_with(0)?;
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed, ["Partition GPU/1 created", "1 - 4 - 32 No"]);
    let refused = shell("turing", script)?.ended_with(1)?;
    assert_eq!(refused.stdout, "");
    let stderr = refused.stderr;
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("has no"), "{stderr}");
    Ok(())
}

#[test]
fn a_failed_start_prints_one_line_and_ends_with_one() -> TestResult {
    let long = "x".repeat(120);
    for (script, reason) in [
        ("nvidia-cuda-mps-control -x".to_owned(), "unknown option \"-x\""),
        ("nvidia-cuda-mps-control -d -p 4".to_owned(), "protocol version"),
        ("CUDA_VISIBLE_DEVICES=7 nvidia-cuda-mps-control -d".to_owned(), "no device is visible"),
        ("CUDA_MPS_LOG_DIRECTORY=/proc/no nvidia-cuda-mps-control -d".to_owned(), "/proc/no"),
        (
            format!(
                "CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY/{long} nvidia-cuda-mps-control -d"
            ),
            "SUN_LEN",
        ),
        ("env -u GPUBENCH_VIRTUAL_GPU nvidia-cuda-mps-control -d".to_owned(), "no virtual GPU"),
        ("nvidia-cuda-mps-server".to_owned(), "by its control daemon"),
    ] {
        let refused = shell("hopper", &script)?.ended_with(1)?;
        let stderr = refused.stderr;
        assert_eq!(refused.stdout, "", "{script}: {stderr}");
        assert!(stderr.contains(reason) && stderr.lines().count() == 1, "{script}: {stderr}");
    }
    Ok(())
}

// How a stuck client of an MPS server is ended: `terminate_client`, SIGTERM, SIGKILL, in this
// order. The set-up of the mechanism is undone as after any other run.

const KILL: i32 = 9;
const TERM: i32 = 15;
/// Bit of `TERM` in the mask of pending signals (proc_pid_status(5)).
const TERM_PENDING: u64 = 1 << (TERM - 1);

/// Runs in place of the command of the MPS daemon. For each `terminate_client` it records the state
/// and the pending signals of the client, the status of the command, and the client's state
/// afterwards. Each client has its own file, since clients are ended at the same time.
const RECORDER: &str = r#"#!/bin/sh
[ $# = 0 ] || exec "$STAND_IN" "$@"
while read -r line; do
    case "$line" in
    terminate_client*)
        client=${line##* }
        record="$HERE/requests/$client"
        echo "$line" >> "$record"
        grep -E '^(State|ShdPnd):' "/proc/$client/status" >> "$record"
        printf '%s\n' "$line" | "$STAND_IN"
        echo "status $?" >> "$record"
        grep -E '^State:' "/proc/$client/status" >> "$record"
        ;;
    *) printf '%s\n' "$line" | "$STAND_IN" ;;
    esac
done
"#;

/// Daemons, servers and contexts, and whether the device settings are the defaults.
type State = (usize, usize, usize, bool);

/// A device with an MPS command that records its calls.
struct RecordedHost {
    host: Resident,
    device: Device,
}

impl RecordedHost {
    fn new() -> Result<Self, Error> {
        let mut host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
        std::fs::create_dir(host.lab.path("requests"))?;
        host.shadow("nvidia-cuda-mps-control", RECORDER)?;
        let device = host.open()?;
        Ok(Self { host, device })
    }

    fn matrix(&self) -> std::io::Result<Child> {
        let args = ["matrix", "--profile", "short.toml", "--out", "out"];
        self.host.gpubench(&args).args(["--mechanism", "mps"]).spawn()
    }

    fn state(&self) -> Result<State, Error> {
        self.device.reap_dead_processes()?;
        Ok(self.device.shared().read(|state| {
            let daemons = state.daemons.live().iter().filter(|row| row.live);
            let servers = state.servers.live().iter().filter(|row| row.live);
            let contexts = state.contexts.live().iter().filter(|row| row.live);
            let plain = state.compute_mode as u32 == 0 && state.slice_level == 0;
            (daemons.count(), servers.count(), contexts.count(), plain)
        })?)
    }

    /// Checks that the changes in the journal of a run are undone and its victim has ended.
    fn is_as_found(&self, found: State, journal: &str, victim: u32) -> TestResult {
        assert!(journal.contains("mps-daemon"), "{journal}");
        assert_eq!(daemons(journal), Vec::<u32>::new());
        assert_eq!(self.host.left_in("state/gpubench"), Vec::<PathBuf>::new());
        assert_eq!(self.host.left_in("run"), Vec::<PathBuf>::new());
        assert_eq!(self.state()?, found);
        assert!(!Path::new(&format!("/proc/{victim}")).exists());
        Ok(())
    }

    /// The victim of the first cell under MPS, once it has a context and a log, and the journal.
    fn victim(&self, run: &mut Child) -> Result<(u32, String), Error> {
        let out = self.host.lab.path("out");
        let has_log = |id: &str| out.join("cells").join(id).join("victim.samples").exists();
        let first = || {
            let events = std::fs::read_to_string(out.join("events.jsonl")).ok()?;
            let mut victim = None;
            for event in events.lines().filter_map(|line| RunEvent::from_json(line.as_bytes()).ok())
            {
                match event {
                    RunEvent::TenantStarted { tenant, pid } if tenant == "victim" => {
                        victim = Some(pid);
                    }
                    RunEvent::CellBegan { id } if id.contains("-mps-") && has_log(&id) => {
                        return victim;
                    }
                    _ => {}
                }
            }
            None
        };
        wait_during(run, "a cell under MPS", || first().is_some())?;
        Ok((first().ok_or("no client")?, self.host.lab.journal()))
    }
}

#[test]
fn a_stuck_client_gets_terminate_client_sigterm_and_sigkill_in_this_order() -> TestResult {
    let recorded = RecordedHost::new()?;
    let found = recorded.state()?;
    let mut run = recorded.matrix()?;
    let (victim, journal) = recorded.victim(&mut run)?;
    // A process in the client's group receives every signal to the group. The first one ends it,
    // and its exit status names it.
    let group = i32::try_from(victim)?;
    let mut witness = Command::new("sleep").arg("3600").process_group(group).spawn()?;
    signal(victim, "STOP")?;
    let done = Finished::from(run.wait_with_output()?);
    let stderr = &done.stderr;
    let witnessed = witness.try_wait()?.and_then(|status| status.signal());
    if witnessed.is_none() {
        witness.kill()?;
        witness.wait()?;
    }

    // First `terminate_client`, before any signal; the daemon accepts, and the client stays
    // stopped. Then SIGTERM to its group, then SIGKILL.
    assert_eq!(recorded.host.left_in("requests").len(), 1, "{stderr}");
    let requests = recorded.host.lab.path("requests").join(victim.to_string());
    let requests = std::fs::read_to_string(requests)?;
    let lines: Vec<&str> = requests.lines().collect();
    let [command, before, pending, status, after] = lines[..] else {
        return Err(format!("not one request: {requests}{stderr}").into());
    };
    assert!(command.ends_with(&format!(" {victim}")), "{requests}");
    let stopped = |line: &str| line.starts_with("State:\tT");
    assert!(stopped(before) && stopped(after), "{requests}");
    let pending = pending.rsplit('\t').next().unwrap_or_default();
    assert_eq!(u64::from_str_radix(pending, 16)? & TERM_PENDING, 0, "{requests}");
    assert_eq!(status, "status 0");
    assert_eq!(witnessed, Some(TERM), "{stderr}");

    // The cell names the death of its victim, and the run ends as one with a failed cell.
    let record = recorded.host.lab.record("out")?;
    assert_eq!(done.code, Some(4), "{stderr}");
    let failed: Vec<_> =
        record.cells.iter().filter(|cell| cell.outcome.outcome == OutcomeKind::Failed).collect();
    let [cell] = failed[..] else {
        return Err(format!("{} cells failed: {stderr}", failed.len()).into());
    };
    assert!(cell.cell.mechanism == "mps", "{cell:?}");
    let reason = cell.outcome.reason.clone().unwrap_or_default();
    let why = format!("and was stopped by the coordinator, killed by signal {KILL}");
    assert!(reason.contains("victim was stopped by a signal") && reason.contains(&why), "{reason}");
    // A new client replaces it, and later cells are measured.
    let after = record.cells.iter().filter(|other| other.cell.id > cell.cell.id);
    let mut served = after.filter(|other| other.cell.mechanism == "mps");
    let measured = served.any(|other| other.outcome.outcome != OutcomeKind::Failed);
    assert!(measured, "nothing ran after {}", cell.cell.id);

    recorded.is_as_found(found, &journal, victim)
}

#[test]
fn an_interrupt_ends_clients_by_their_daemon_first() -> TestResult {
    // A client that is stopped while it holds a lock of the virtual device keeps the daemon waiting
    // for longer than the request has.
    for _ in 0..3 {
        if interrupted_with_a_stopped_client()? {
            return Ok(());
        }
    }
    Err("no request reached the daemon in three runs".into())
}

/// Whether the daemon got the request; all else is checked.
fn interrupted_with_a_stopped_client() -> Result<bool, Error> {
    let recorded = RecordedHost::new()?;
    let found = recorded.state()?;
    let mut run = recorded.matrix()?;
    let (victim, journal) = recorded.victim(&mut run)?;
    // The cell cannot end by itself.
    signal(victim, "STOP")?;
    signal(run.id(), "INT")?;
    let done = Finished::from(run.wait_with_output()?);
    let stderr = &done.stderr;
    assert_eq!(done.code, Some(130), "{stderr}");

    let requests = recorded.host.lab.path("requests").join(victim.to_string());
    let requests = std::fs::read_to_string(requests).unwrap_or_default();
    if requests.is_empty() {
        return Ok(false);
    }
    let of_victim =
        |line: &&str| line.starts_with("terminate_client") && line.ends_with(&format!(" {victim}"));
    let mut lines = requests.lines().skip_while(|line| !of_victim(line));
    assert!(lines.next().is_some(), "{requests}{stderr}");
    let before = lines.next().unwrap_or_default();
    assert!(before.starts_with("State:\tT"), "killed before: {requests}");
    let pending = lines.next().and_then(|line| line.rsplit('\t').next());
    let pending = u64::from_str_radix(pending.unwrap_or_default(), 16)?;
    assert_eq!(pending & TERM_PENDING, 0, "signalled before: {requests}");

    let record = recorded.host.lab.record("out")?;
    assert!(!record.complete);
    recorded.is_as_found(found, &journal, victim)?;
    Ok(true)
}
