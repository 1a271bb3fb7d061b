//! Speaking to an MPS control daemon, in the commands of nvidia-cuda-mps-control(1).
//!
//! The command's status says whether it reached the daemon and nothing about the daemon's answer,
//! so answers are read. What circulates as `nvidia-smi -mps 1` does not exist: a daemon is started
//! with `nvidia-cuda-mps-control -d`. Nor is there `-server -get`: a setting is asked for by piping
//! `get_active_thread_percentage PID` into `nvidia-cuda-mps-control`.

use std::process::Command;

use super::change::DaemonPlace;
use super::command::{command, on_path, run};
use super::control::ControlError;

/// The command.
pub const PROGRAM: &str = "nvidia-cuda-mps-control";

/// Starts a daemon in the background.
///
/// # Errors
/// When the command is missing or refuses.
pub fn start(daemon: &DaemonPlace) -> Result<(), ControlError> {
    const DOING: &str = "starting the MPS daemon";
    let mut command = control(daemon, DOING)?;
    command.arg("-d");
    if daemon.static_partitions {
        command.arg("-S");
    }
    run(command, "", DOING)?;
    // It is there once it answers.
    ask(daemon, "get_server_list").map(|_| ())
}

/// Sends one command and returns the daemon's answer.
///
/// # Errors
/// When the daemon cannot be reached.
pub fn ask(daemon: &DaemonPlace, text: &str) -> Result<String, ControlError> {
    let verb = text.split(' ').next().unwrap_or(text);
    let doing = format!("asking the MPS daemon to {verb}");
    run(control(daemon, &doing)?, &format!("{text}\n"), &doing)
}

/// The servers of a daemon, by process id.
///
/// # Errors
/// When the daemon cannot be reached, or says something else.
pub fn servers(daemon: &DaemonPlace) -> Result<Vec<u32>, ControlError> {
    pids(&ask(daemon, "get_server_list")?, "get_server_list")
}

/// The clients of a server, by process id.
///
/// # Errors
/// When the daemon cannot be reached, or says something else.
pub fn clients(daemon: &DaemonPlace, server: u32) -> Result<Vec<u32>, ControlError> {
    let text = ask(daemon, &format!("get_client_list {server}"))?;
    pids(&text, "get_client_list")
}

/// Ends a client's connection so that others do not suffer from its end. The client's calls fail
/// with 810 from then on. Killing a client with work on the device without this leaves the state of
/// the others undefined (CUDA Multi-Process Service, "When to use MPS").
///
/// # Errors
/// When the daemon cannot be reached.
pub fn terminate_client(daemon: &DaemonPlace, pid: u32) -> Result<(), ControlError> {
    for server in servers(daemon)? {
        if clients(daemon, server)?.contains(&pid) {
            ask(daemon, &format!("terminate_client {server} {pid}"))?;
        }
    }
    Ok(())
}

fn control(daemon: &DaemonPlace, doing: &str) -> Result<Command, ControlError> {
    let program = on_path(PROGRAM)
        .ok_or_else(|| ControlError::new(doing, format!("{PROGRAM} is not on PATH")))?;
    let mut command = command(&program);
    command
        .env("CUDA_MPS_PIPE_DIRECTORY", &daemon.pipes)
        .env("CUDA_MPS_LOG_DIRECTORY", &daemon.logs)
        .env("CUDA_VISIBLE_DEVICES", &daemon.device);
    Ok(command)
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

#[cfg(test)]
mod tests {
    use super::pids;

    #[test]
    fn an_answer_that_is_no_list_is_an_error_and_not_an_empty_list() {
        assert_eq!(pids("", "x"), Ok(vec![]));
        assert_eq!(pids("12\n 34 \n\n", "x"), Ok(vec![12, 34]));
        let said = pids("12\nServer not found\n", "get_client_list").map_err(|e| e.to_string());
        assert!(said.is_err_and(|text| text.contains("Server not found")));
    }
}
