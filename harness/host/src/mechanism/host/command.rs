//! Runs one of the vendor's commands to its end, within a limit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use gpubench_workloads::command::{Inherits, command as process};
use serde::{Deserialize, Serialize};

use super::ControlError;
use crate::device::is_abandoned;

/// A shell command and the longest time that it may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    pub run: String,
    pub limit_s: u64,
}

/// Longest wait for a command.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// Time between two checks whether it has ended.
pub(super) const STEP: Duration = Duration::from_millis(2);

pub fn on_path(name: &str) -> Option<PathBuf> {
    which::which(name).ok()
}

/// Runs a command with this input and returns its output.
/// Fails when it cannot be started, does not end in time, or ends with a status other than 0.
pub fn run(command: Command, input: &str, doing: &str) -> Result<String, ControlError> {
    run_within(LIMIT, command, input, doing)
}

pub fn run_within(
    limit: Duration,
    command: Command,
    input: &str,
    doing: &str,
) -> Result<String, ControlError> {
    let Ended { status, output } = ended(limit, command, input, doing)?;
    let [printed, complained] = output;
    if !status.success() {
        return Err(failed(status, &printed, &complained, doing));
    }
    // An incomplete answer must not be taken for a whole one.
    printed.whole().ok_or_else(|| {
        let seconds = LIMIT.as_secs();
        ControlError::new(doing, format!("it ended, but its output stayed open for {seconds} s"))
    })
}

/// Runs a command of a described mechanism and returns what it printed.
pub fn run_step(step: &Step, variables: &BTreeMap<String, String>) -> Result<String, ControlError> {
    let mut shell = command(Path::new("sh"));
    shell.arg("-c").arg(&step.run).envs(variables);
    let doing = format!("command {:?}", step.run);
    let Ended { status, output } = ended(Duration::from_secs(step.limit_s), shell, "", &doing)?;
    let [printed, complained] = output;
    match status.success() {
        // A daemon that it started may keep the output open.
        true => Ok(printed.until_now()),
        false => Err(failed(status, &printed, &complained, &doing)),
    }
}

/// Runs a command that starts a daemon. The daemon may keep the command's output open, so the
/// output is read only if the command failed.
pub fn start(command: Command, doing: &str) -> Result<(), ControlError> {
    let Ended { status, output } = ended(LIMIT, command, "", doing)?;
    let [printed, complained] = output;
    match status.success() {
        true => Ok(()),
        false => Err(failed(status, &printed, &complained, doing)),
    }
}

/// A command that has ended, with its output and its error output.
struct Ended {
    status: ExitStatus,
    output: [Reader; 2],
}

fn ended(
    limit: Duration,
    mut command: Command,
    input: &str,
    doing: &str,
) -> Result<Ended, ControlError> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| ControlError::new(doing, error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends without reading its input reports why by its status.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = [
        collect(child.stdout.take().map(|pipe| Box::new(pipe) as Box<_>)),
        collect(child.stderr.take().map(|pipe| Box::new(pipe) as Box<_>)),
    ];
    let status = wait(&mut child, limit, doing)?;
    Ok(Ended { status, output })
}

/// Waits for a command to end. One that does not is killed; its output so far is dropped.
pub(super) fn wait(
    child: &mut Child,
    limit: Duration,
    doing: &str,
) -> Result<ExitStatus, ControlError> {
    for _ in 0..limit.as_millis() / STEP.as_millis() {
        let ended = child.try_wait().map_err(|error| ControlError::new(doing, error))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if is_abandoned() {
            break;
        }
        std::thread::sleep(STEP);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(late(limit, doing))
}

/// Why a command that did not answer within a limit is given up.
pub(super) fn late(limit: Duration, doing: &str) -> ControlError {
    let problem = if is_abandoned() {
        "abandoned".to_owned()
    } else {
        format!("no answer within {} s", limit.as_secs())
    };
    ControlError::new(doing, problem)
}

pub(super) fn failed(
    status: ExitStatus,
    printed: &Reader,
    complained: &Reader,
    doing: &str,
) -> ControlError {
    let complained = complained.until_now();
    let complaint = match complained.trim() {
        "" => printed.until_now(),
        _ => complained,
    };
    ControlError::new(doing, format!("{status}: {}", complaint.trim())).with_status(status.code())
}

/// The content of a pipe. A thread reads it while the command runs, so that it never fills up.
pub(super) struct Reader(pub(super) Receiver<Vec<u8>>);

pub(super) fn collect(pipe: Option<Box<dyn Read + Send>>) -> Reader {
    let (send, receive) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
    }
    Reader(receive)
}

impl Reader {
    /// The whole content, once the pipe is closed; `None` if it stays open. On a busy host the
    /// reader can be far behind the command, so a shorter pause is no end.
    fn whole(&self) -> Option<String> {
        let (bytes, end) = self.read(LIMIT);
        (end == RecvTimeoutError::Disconnected).then(|| text(&bytes))
    }

    /// The content so far, for error messages. It waits 200 ms for more.
    fn until_now(&self) -> String {
        text(&self.read(Duration::from_millis(200)).0)
    }

    fn read(&self, silence: Duration) -> (Vec<u8>, RecvTimeoutError) {
        let mut bytes = Vec::new();
        loop {
            match self.0.recv_timeout(silence) {
                Ok(part) => bytes.extend(part),
                Err(end) => return (bytes, end),
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A command of this path, with no variable of the user's shell that is not listed.
pub fn command(program: &Path) -> Command {
    process(program, Inherits::Listed)
}

// nvidia-smi on one device.

pub(super) const LIST_POLICIES: [&str; 1] = ["-l"];

/// Longest wait for nvidia-smi before a run.
const SMI_LIMIT: Duration = Duration::from_secs(4);

/// Exit statuses of an nvidia-smi that works where the version, the device or the user has no time
/// slices (nvidia-smi(1), "Return value").
const NO_SLICES: [i32; 4] = [2, 3, 4, 13];

/// The time slice of a device, by the vendor's name in lower case; a `None` inside where nvidia-smi
/// does not say, outside where there is no nvidia-smi.
/// Fails when nvidia-smi does not work.
pub fn found_time_slice(uuid: &str) -> Option<Result<Option<String>, ControlError>> {
    let mut smi = command(&on_path("nvidia-smi")?);
    smi.args(policy(&LIST_POLICIES)).args(["-i", uuid]);
    Some(match run_within(SMI_LIMIT, smi, "", "reading the time slice by nvidia-smi") {
        Ok(policies) => Ok(slice_of(&policies).map(str::to_owned)),
        Err(error) if error.status.is_some_and(|status| NO_SLICES.contains(&status)) => Ok(None),
        Err(error) => Err(error),
    })
}

pub(super) fn policy<'a>(arguments: &[&'a str]) -> Vec<&'a OsStr> {
    let all = ["compute-policy"].into_iter();
    let all = all.chain(arguments.iter().copied());
    all.map(OsStr::new).collect()
}

/// Runs nvidia-smi on a device. It recognises a subcommand only as its first argument.
pub(super) fn smi(uuid: &str, arguments: &[&OsStr], doing: &str) -> Result<String, ControlError> {
    let program = on_path("nvidia-smi")
        .ok_or_else(|| ControlError::new(doing, "nvidia-smi is not on PATH"))?;
    let mut smi = command(&program);
    smi.args(arguments).args(["-i", uuid]);
    run(smi, "", doing)
}

// Time slices by the names of nvidia-smi.

/// Names of the time slices of `nvidia-smi compute-policy --set-timeslice`, by number.
pub(super) const SLICES: [&str; 4] = ["default", "short", "medium", "long"];

/// What the user can do if nvidia-smi does not set a time slice, by its exit status (nvidia-smi(1),
/// "Return value": 3 is not supported, 4 is no permission).
pub(super) const fn slice_remedy(status: i32) -> Option<&'static str> {
    match status {
        3 => Some("[time-slicing] slice = \"default\""),
        4 => Some("run as root"),
        _ => None,
    }
}

/// The name of the time slice in the output of `nvidia-smi compute-policy -l`.
pub(super) fn slice_of(policies: &str) -> Option<&'static str> {
    policies.lines().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (_, after) = line.split_once("timeslice")?;
        let mut words = after.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| SLICES.into_iter().find(|known| *known == word))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::{command, run, slice_of, start};

    pub fn shell(script: &str) -> Command {
        let mut shell = command(Path::new("/bin/sh"));
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn run_waits_for_output_after_the_end_of_the_command() {
        let late = "(sleep 0.6; echo 12; sleep 0.6; echo 13) &";
        assert_eq!(run(shell(late), "", "asking").unwrap(), "12\n13\n");
        assert_eq!(run(shell("cat"), "12\n", "asking").unwrap(), "12\n");
        assert_eq!(run(shell("true"), "", "asking").unwrap(), "");
    }

    #[test]
    fn start_does_not_wait_for_a_daemon_that_keeps_the_output_open() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let daemon = format!("sleep 60 & echo $! > {}", pid_file.display());
        start(shell(&daemon), "starting").unwrap();
        let pid = std::fs::read_to_string(pid_file).unwrap();
        let pid = pid.trim();
        // The shell's child may not have started `sleep` yet; an ended process never does.
        let sleeps = || {
            let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command_line.starts_with(b"sleep")
        };
        let mut polls = 0;
        while !sleeps() {
            polls += 1;
            assert!(polls < 10_000, "it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        run(shell(&format!("kill {pid}")), "", "ending it").unwrap();
    }

    #[test]
    fn a_failed_command_is_reported_with_its_output() {
        let failed = |script| run(shell(script), "", "asking").unwrap_err().to_string();
        let complained = failed("echo something; echo no >&2; exit 3");
        assert!(complained.contains("no") && !complained.contains("something"));
        assert!(complained.contains('3'), "{complained}");
        assert!(failed("echo something; exit 3").contains("something"));
        let refused = start(shell("echo taken >&2; exit 1"), "starting");
        assert!(refused.unwrap_err().to_string().contains("taken"));
    }

    #[test]
    fn reads_the_time_slice_from_its_own_line() {
        // As nvidia-smi 580.159.04 prints it.
        let table = "+-------------------------------------+\n\
                     | GPU compute policies:               |\n\
                     | GPU     Name           Value        |\n\
                     |=====================================|\n\
                     |   0   Timeslice       Default       |\n\
                     +-------------------------------------+\n";
        assert_eq!(slice_of(table), Some("default"));
        let table = "| GPU compute policies |\n| Name | Value |\n| Timeslice | Short |\n";
        assert_eq!(slice_of(table), Some("short"));
        assert_eq!(slice_of("GPU 0: Timeslice: DEFAULT"), Some("default"));
        assert_eq!(slice_of("| Default | \n| Timeslice | N/A |"), None);
        assert_eq!(slice_of(""), None);
    }
}
