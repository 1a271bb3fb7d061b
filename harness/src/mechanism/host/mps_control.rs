//! Speaking to an MPS control daemon, in the commands of nvidia-cuda-mps-control(1).
//!
//! The command's status says whether it reached the daemon and nothing about the daemon's answer,
//! so answers are read. What circulates as `nvidia-smi -mps 1` does not exist: a daemon is started
//! with `nvidia-cuda-mps-control -d`. Nor is there `-server -get`: a setting is asked for by piping
//! `get_active_thread_percentage PID` into `nvidia-cuda-mps-control`.

use std::process::Command;
use std::time::Duration;

use super::command::{self, command, on_path, run, run_within};
use super::control::ControlError;
use super::daemon::DaemonPlace;

/// The version of the interface with commands of the form MODULE VERB, rather than lines on the
/// standard input.
const THIRD: u32 = 3;
/// The form of a list that programs read.
const CSV: &str = "--format=csv,noheader";

/// Longest wait for a daemon to take the command to quit; its processes are ended otherwise then.
const QUIT: Duration = Duration::from_secs(5);

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
    if daemon.protocol == THIRD {
        command.args(["-p", "3"]);
    }
    command::start(command, DOING)?;
    // It is there once it answers.
    servers(daemon).map(|_| ())
}

/// Tells a daemon to end with its servers.
///
/// # Errors
/// When it cannot be reached.
pub fn quit(daemon: &DaemonPlace) -> Result<(), ControlError> {
    const DOING: &str = "asking the MPS daemon to quit";
    let mut command = control(daemon, DOING)?;
    let input = if daemon.protocol == THIRD {
        command.arg("-q");
        ""
    } else {
        "quit\n"
    };
    run_within(QUIT, command, input, DOING).map(|_| ())
}

/// Makes the one server of a daemon of the third version, for its device.
///
/// # Errors
/// When the daemon refuses, or the server does not come up: a daemon makes one whose device is not
/// there without a word, and its clients would run without MPS.
pub fn create_server(daemon: &DaemonPlace) -> Result<(), ControlError> {
    let device = format!("--allowed-devices={}", daemon.device);
    tell(daemon, &["server", "create", DaemonPlace::SERVER, &device])?;
    if servers(daemon)?.is_empty() {
        let what = "the daemon has no server of it afterwards";
        return Err(ControlError::new("making an MPS server", what));
    }
    Ok(())
}

/// Makes a namespace in that server whose clients may have so much memory.
///
/// # Errors
/// When the daemon refuses.
pub fn create_namespace(
    daemon: &DaemonPlace,
    name: &str,
    memory_mib: u64,
) -> Result<(), ControlError> {
    let server = format!("--server={}", DaemonPlace::SERVER);
    let limit = format!("--pinned-memory-limit={memory_mib}M");
    tell(daemon, &["namespace", "create", name, &server])?;
    tell(daemon, &["namespace", "set", name, &server, &limit]).map(|_| ())
}

/// Gives a daemon of the third version a command and returns its answer.
fn tell(daemon: &DaemonPlace, words: &[&str]) -> Result<String, ControlError> {
    let doing = format!("asking the MPS daemon for {}", words.join(" "));
    let mut command = control(daemon, &doing)?;
    command.args(words);
    run(command, "", &doing)
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
    if daemon.protocol == THIRD {
        let listed = tell(daemon, &["server", "list", CSV])?;
        return column(&listed, 2, "server list");
    }
    pids(&ask(daemon, "get_server_list")?, "get_server_list")
}

/// The clients of these servers of a daemon, by process id.
///
/// # Errors
/// When the daemon cannot be reached, or says something else.
pub fn clients(daemon: &DaemonPlace, servers: &[u32]) -> Result<Vec<u32>, ControlError> {
    if daemon.protocol == THIRD {
        let listed = tell(daemon, &["client", "list", "--all", CSV])?;
        return column(&listed, 0, "client list");
    }
    let mut all = Vec::new();
    for server in servers {
        let text = ask(daemon, &format!("get_client_list {server}"))?;
        all.extend(pids(&text, "get_client_list")?);
    }
    Ok(all)
}

/// Ends a client's connection so that others do not suffer from its end. The client's calls fail
/// with 810 from then on. Killing a client with work on the device without this leaves the state of
/// the others undefined (CUDA Multi-Process Service, "When to use MPS").
///
/// # Errors
/// When the daemon cannot be reached.
pub fn terminate_client(daemon: &DaemonPlace, pid: u32) -> Result<(), ControlError> {
    for server in servers(daemon)? {
        if !clients(daemon, &[server])?.contains(&pid) {
            continue;
        }
        if daemon.protocol == THIRD {
            return tell(daemon, &["client", "terminate", &pid.to_string()]).map(|_| ());
        }
        ask(daemon, &format!("terminate_client {server} {pid}"))?;
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

/// The process ids in a column of a list that commas divide. Cells before it hold none; what a
/// process was called with comes last, and may.
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

#[cfg(test)]
mod tests {
    use super::{column, pids};

    #[test]
    fn a_column_is_read_as_far_as_it_holds_process_ids() {
        let servers = "a,1000,48201,Ready,/run/nvidia-mps/a,GPU-1,-\n";
        assert_eq!(column(servers, 2, "x"), Ok(vec![48_201]));
        let clients = "51,a,0,p0,python a,b.py\n52,a,0,p1,x\n";
        assert_eq!(column(clients, 0, "x"), Ok(vec![51, 52]));
        assert_eq!(column("", 0, "x"), Ok(vec![]));
        assert!(column("no servers\n", 2, "x").is_err());
        assert!(column("a,b,c\n", 2, "x").is_err());
    }

    /// What the daemon of driver 580.159.04 printed.
    #[test]
    fn a_real_daemon_s_answers_are_read() {
        let lists = [("", vec![]), ("598\n", vec![598]), ("609\n", vec![609])];
        for (answer, found) in lists {
            assert_eq!(pids(answer, "get_server_list"), Ok(found), "{answer:?}");
        }
        for answer in [
            "Server not found\n",
            "Unknown command \"get_server_lists\"\n",
            "An instance of this daemon is already running\n",
            "Cannot find MPS control daemon process\n",
            "Invalid process 999999!\n1\n",
        ] {
            let error = pids(answer, "x").map_err(|error| error.to_string());
            let first_line = answer.lines().next().map(|line| format!("{line:?}"));
            let names = |text: &String| first_line.as_ref().is_some_and(|line| text.contains(line));
            assert!(error.as_ref().is_err_and(names), "{answer:?}: {error:?}");
        }
    }

    #[test]
    fn an_answer_that_is_no_list_is_an_error_and_not_an_empty_list() {
        assert_eq!(pids("", "x"), Ok(vec![]));
        assert_eq!(pids("12\n 34 \n\n", "x"), Ok(vec![12, 34]));
        let error = pids("12\nServer not found\n", "get_client_list").map_err(|e| e.to_string());
        assert!(error.is_err_and(|text| text.contains("Server not found")));
    }
}
