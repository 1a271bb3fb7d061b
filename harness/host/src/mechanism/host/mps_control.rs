//! Commands to an MPS control daemon, as in nvidia-cuda-mps-control(1).
//!
//! The exit status only reports whether the command reached the daemon, so the daemon's answer is
//! read. `nvidia-smi -mps 1` does not exist: `nvidia-cuda-mps-control -d` starts a daemon. Nor does
//! `-server -get`: pipe `get_active_thread_percentage PID` into `nvidia-cuda-mps-control`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gpubench_workloads::user_victim::process_tree::signal_process;
use procfs::process::{Process, all_processes};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::command::{command, on_path, run, run_within};
use super::{ControlError, command, front_end};

/// Version of the interface whose commands have the form MODULE VERB. Earlier ones read lines from
/// standard input.
const THIRD: u32 = 3;
/// Selects a list that programs can read.
const CSV: &str = "--format=csv,noheader";

pub const PROGRAM: &str = "nvidia-cuda-mps-control";

pub fn start(daemon: &DaemonConfig) -> Result<(), ControlError> {
    const DOING: &str = "starting the MPS daemon";
    let mut command = control(daemon, DOING)?;
    command.arg("-d");
    if daemon.static_partitions {
        command.arg("-S");
    }
    if daemon.protocol == THIRD {
        command.args(["-p", "3"]);
    }
    if let Some(text) = &daemon.configuration {
        let file = daemon.pipes.with_file_name("mps.toml");
        std::fs::write(&file, text).map_err(|error| ControlError::new(DOING, error))?;
        command.arg("-a").arg(file);
    }
    command::start(command, DOING)?;
    if daemon.protocol != THIRD {
        front_end::start(&daemon.pipes, control(daemon, DOING)?, DOING);
    }
    // The daemon is ready when it answers.
    servers(daemon).map(|_| ())
}

/// Sends a daemon the command to quit, with its servers. It may take `limit`; after that, signals
/// end the processes.
pub fn quit(daemon: &DaemonConfig, limit: Duration) -> Result<(), ControlError> {
    const DOING: &str = "MPS daemon command quit";
    if let Some(ended) = front_end::quit(&daemon.pipes, limit, DOING) {
        return ended;
    }
    let mut command = control(daemon, DOING)?;
    let input = if daemon.protocol == THIRD {
        command.arg("-q");
        ""
    } else {
        "quit\n"
    };
    run_within(limit, command, input, DOING).map(|_| ())
}

/// Makes the one server of a daemon with version 3 of the interface, for its device.
/// Fails when the daemon refuses, or lists no server afterwards: for a missing device a daemon
/// reports success, and the clients would run without MPS.
pub fn create_server(daemon: &DaemonConfig) -> Result<(), ControlError> {
    let device = format!("--allowed-devices={}", daemon.device);
    run_v3(daemon, &["server", "create", DaemonConfig::SERVER, &device])?;
    has_server(daemon)
}

/// Fails when a daemon with version 3 of the interface lists no server.
pub fn has_server(daemon: &DaemonConfig) -> Result<(), ControlError> {
    if servers(daemon)?.is_empty() {
        let what = "the daemon lists no server afterwards";
        return Err(ControlError::new("making an MPS server", what));
    }
    Ok(())
}

/// Makes a namespace in that server with a memory limit for its clients.
pub fn create_namespace(
    daemon: &DaemonConfig,
    name: &str,
    memory_mib: u64,
) -> Result<(), ControlError> {
    let server = format!("--server={}", DaemonConfig::SERVER);
    let limit = format!("--pinned-memory-limit={memory_mib}M");
    run_v3(daemon, &["namespace", "create", name, &server])?;
    run_v3(daemon, &["namespace", "set", name, &server, &limit]).map(|_| ())
}

/// Sends a command to a daemon with version 3 of the interface and returns its answer.
fn run_v3(daemon: &DaemonConfig, words: &[&str]) -> Result<String, ControlError> {
    let doing = format!("MPS daemon command {}", words.join(" "));
    let mut command = control(daemon, &doing)?;
    command.args(words);
    run(command, "", &doing)
}

/// Sends a line to a daemon with version 2 of the interface and returns its answer.
pub fn send_line(daemon: &DaemonConfig, text: &str) -> Result<String, ControlError> {
    let verb = text.split(' ').next().unwrap_or(text);
    let doing = format!("MPS daemon command {verb}");
    match front_end::ask(&daemon.pipes, text, &doing) {
        Some(answer) => answer,
        None => run(control(daemon, &doing)?, &format!("{text}\n"), &doing),
    }
}

pub fn servers(daemon: &DaemonConfig) -> Result<Vec<u32>, ControlError> {
    if daemon.protocol == THIRD {
        let listed = run_v3(daemon, &["server", "list", CSV])?;
        return column(&listed, 2, "server list");
    }
    pids(&send_line(daemon, "get_server_list")?, "get_server_list")
}

pub fn clients(daemon: &DaemonConfig, servers: &[u32]) -> Result<Vec<u32>, ControlError> {
    if daemon.protocol == THIRD {
        let listed = run_v3(daemon, &["client", "list", "--all", CSV])?;
        return column(&listed, 0, "client list");
    }
    let mut all = Vec::new();
    for server in servers {
        let text = send_line(daemon, &format!("get_client_list {server}"))?;
        all.extend(pids(&text, "get_client_list")?);
    }
    Ok(all)
}

/// Disconnects a client, so that its end does not affect other clients. The client's calls then
/// fail with 810. A client that is killed with work on the device and without this leaves the state
/// of the others undefined (CUDA Multi-Process Service, "When to use MPS").
pub fn terminate_client(daemon: &DaemonConfig, pid: u32) -> Result<(), ControlError> {
    for server in servers(daemon)? {
        if !clients(daemon, &[server])?.contains(&pid) {
            continue;
        }
        if daemon.protocol == THIRD {
            return run_v3(daemon, &["client", "terminate", &pid.to_string()]).map(|_| ());
        }
        send_line(daemon, &format!("terminate_client {server} {pid}"))?;
    }
    Ok(())
}

/// The configuration file of such a daemon: whether clients share the context of the server, and a
/// server with a namespace for each tenant, each with a memory limit in MiB.
pub fn configuration(shares: bool, device: &str, namespaces: &[(String, u64)]) -> String {
    let mut text = format!(
        "schema_version = \"1.0\"\n[features.memacct]\nenabled = true\n\
         [features.context-share]\nenabled = {shares}\n"
    );
    let server = DaemonConfig::SERVER;
    if !namespaces.is_empty() {
        text += &format!("[servers.{server}]\nallowed_devices = \"{device}\"\n");
    }
    for (name, memory_mib) in namespaces {
        text += &format!(
            "[servers.{server}.namespaces.{name}]\npinned_memory_limit = \"{memory_mib}M\"\n"
        );
    }
    text
}

fn control(daemon: &DaemonConfig, doing: &str) -> Result<Command, ControlError> {
    let program = on_path(PROGRAM)
        .ok_or_else(|| ControlError::new(doing, format!("{PROGRAM} is not on PATH")))?;
    let mut command = command(&program);
    command
        .env("CUDA_MPS_PIPE_DIRECTORY", &daemon.pipes)
        .env("CUDA_MPS_LOG_DIRECTORY", &daemon.logs)
        .env("CUDA_VISIBLE_DEVICES", &daemon.device);
    Ok(command)
}

/// The process ids in a column of a comma-separated list. Only the last column, the command line of
/// a process, can hold commas.
fn column(text: &str, at: usize, what: &str) -> Result<Vec<u32>, ControlError> {
    let cell = |line| str::split(line, ',').nth(at).unwrap_or(line);
    let cells: Vec<&str> = text.lines().map(cell).collect();
    pids(&cells.join("\n"), what)
}

/// One process id a line, and nothing else.
fn pids(text: &str, what: &str) -> Result<Vec<u32>, ControlError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            line.parse().map_err(|_| {
                let doing = format!("reading the answer to {what}");
                ControlError::new(doing, format!("{line:?} is no process id"))
            })
        })
        .collect()
}

// The folders, device and options of an MPS daemon: what is needed to start, query and end it.

/// The folders, device and options of an MPS daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonConfig {
    /// `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipes: PathBuf,
    /// `CUDA_MPS_LOG_DIRECTORY`.
    pub logs: PathBuf,
    pub device: String,
    /// Whether SMs are partitioned (`-S`).
    pub static_partitions: bool,
    /// Version of its control interface.
    #[serde(default = "version_2")]
    pub protocol: u32,
    /// Text of the configuration file that it applies when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
}

/// A journal without a version is of a daemon with version 2 of the interface.
const fn version_2() -> u32 {
    2
}

impl DaemonConfig {
    /// Name of the one server of a daemon with version 3 of the interface.
    pub const SERVER: &str = "tenants";

    /// The folder in which clients connect to that server.
    pub fn server_folder(&self) -> PathBuf {
        self.pipes.join(Self::SERVER)
    }
}

// Finding and ending the processes of an MPS daemon of ours.
//
// A process belongs to the daemon if it has the daemon's private folder in its environment, which
// no other daemon has, and an MPS name. Process ids are reused, so none is kept.

/// The beginning of the names of daemon and servers, of which the kernel keeps 15 characters.
const NAME: &str = "nvidia-cuda-mps";
/// The variable that names the private folder.
const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Time between two searches while processes end.
const STEP: Duration = Duration::from_millis(10);

/// Process ids of the daemon, the servers and the front ends of this folder.
pub fn mps_processes(pipes: &Path) -> Vec<u32> {
    // `/proc` is readable wherever this program runs: it starts from `/proc/self/exe`. A process
    // that ends during the search is left out.
    let all = all_processes().into_iter().flatten().flatten();
    let ours = all.filter(|process| is_mps(process) && serves(process, pipes));
    ours.filter_map(|process| process.pid().try_into().ok()).collect()
}

pub(super) fn is_mps(process: &Process) -> bool {
    let comm = || Some(process.stat().ok()?.comm.starts_with(NAME));
    // A program that replaced itself keeps the name in its arguments.
    let argument = || Some(process.cmdline().ok()?.first()?.contains(NAME));
    comm() == Some(true) || argument() == Some(true)
}

fn serves(process: &Process, pipes: &Path) -> bool {
    // Only the environment of another user's process is not readable, and ours have our user.
    let environment = process.environ().unwrap_or_default();
    let folder = environment.get(OsStr::new(PIPES)).map(OsString::as_os_str);
    folder == Some(pipes.as_os_str())
}

/// Waits for the processes of this folder to end by themselves, and then ends them. Returns whether
/// all have ended.
pub fn end_processes(pipes: &Path, patience: Duration, grace: Duration) -> bool {
    for (signal, patience) in
        [(None, patience), (Some(Signal::TERM), grace), (Some(Signal::KILL), grace)]
    {
        if let Some(signal) = signal {
            for pid in mps_processes(pipes) {
                signal_process(pid, signal);
            }
        }
        if end_within(pipes, patience) {
            return true;
        }
    }
    false
}

fn end_within(pipes: &Path, patience: Duration) -> bool {
    for _ in 0..=patience.as_millis() / STEP.as_millis() {
        if mps_processes(pipes).is_empty() {
            return true;
        }
        std::thread::sleep(STEP);
    }
    false
}

/// Ends this process as SIGKILL from another process does: none of its code runs any more.
pub(super) fn die() {
    // The signal ends this process before the call returns.
    let _unreachable = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::{column, pids};

    #[test]
    fn reads_a_column_of_process_ids() {
        let servers = "a,1000,48201,Ready,/run/nvidia-mps/a,GPU-1,-\n";
        assert_eq!(column(servers, 2, "x"), Ok(vec![48_201]));
        let clients = "51,a,0,p0,python a,b.py\n52,a,0,p1,x\n";
        assert_eq!(column(clients, 0, "x"), Ok(vec![51, 52]));
        assert_eq!(column("", 0, "x"), Ok(vec![]));
        assert!(column("no servers\n", 2, "x").is_err());
        assert!(column("a,b,c\n", 2, "x").is_err());
    }

    /// The answers are of the daemon of driver 580.159.04.
    #[test]
    fn reads_the_answers_of_a_real_daemon() {
        let lists = [("", vec![]), ("598\n", vec![598]), ("12\n 34 \n\n", vec![12, 34])];
        for (answer, found) in lists {
            assert_eq!(pids(answer, "get_server_list"), Ok(found), "{answer:?}");
        }
        for answer in [
            "Server not found\n",
            "Unknown command \"get_server_lists\"\n",
            "An instance of this daemon is already running\n",
            "Cannot find MPS control daemon process\n",
            "Invalid process 999999!\n1\n",
            "12\nServer not found\n",
        ] {
            let error = pids(answer, "x").map_err(|error| error.to_string());
            let wrong = answer.lines().find(|line| line.parse::<u32>().is_err());
            let wrong = wrong.map(|line| format!("{line:?}"));
            let names = |text: &String| wrong.as_ref().is_some_and(|line| text.contains(line));
            assert!(error.as_ref().is_err_and(names), "{answer:?}: {error:?}");
        }
    }
}
