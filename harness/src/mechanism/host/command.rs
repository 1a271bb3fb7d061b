//! Running one of the vendor's commands to its end, within a limit.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::control::ControlError;
use crate::device::is_abandoned;

/// Longest wait for a command.
const LIMIT: Duration = Duration::from_secs(20);
/// How often it is asked whether it has ended.
const STEP: Duration = Duration::from_millis(2);

/// The program of that name on PATH.
#[must_use]
pub fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|path| {
            std::fs::metadata(path)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

/// Runs a command, feeds it, and returns all that it printed.
///
/// # Errors
/// When it cannot be started, does not end in time, or ends with a status other than 0.
pub fn run(command: Command, input: &str, doing: &str) -> Result<String, ControlError> {
    run_within(LIMIT, command, input, doing)
}

/// Runs a command that must end within a limit of its own.
///
/// # Errors
/// As [`run`].
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
    // Part of an answer, or none of it, would pass for an answer.
    printed.whole().ok_or_else(|| {
        let seconds = LIMIT.as_secs();
        ControlError::new(
            doing,
            format!("it ended and its output did not for {seconds} s"),
        )
    })
}

/// Runs a command that leaves a daemon behind. The daemon may keep the command's output open for
/// ever, so that it is read only where the command failed.
///
/// # Errors
/// As [`run`].
pub fn start(command: Command, doing: &str) -> Result<(), ControlError> {
    let Ended { status, output } = ended(LIMIT, command, "", doing)?;
    let [printed, complained] = output;
    match status.success() {
        true => Ok(()),
        false => Err(failed(status, &printed, &complained, doing)),
    }
}

/// A command that has ended, and what it prints on output and error output.
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
    let refused = |what: &dyn std::fmt::Display| ControlError::new(doing, what);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| refused(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading its input says why by its status.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = [
        collect(child.stdout.take().map(|pipe| Box::new(pipe) as Box<_>)),
        collect(child.stderr.take().map(|pipe| Box::new(pipe) as Box<_>)),
    ];
    for _ in 0..limit.as_millis() / STEP.as_millis() {
        if let Some(status) = child.try_wait().map_err(|error| refused(&error))? {
            return Ok(Ended { status, output });
        }
        if is_abandoned() {
            break;
        }
        std::thread::sleep(STEP);
    }
    // It is ours and did not end; what it printed so far says nothing.
    let _ = child.kill();
    let _ = child.wait();
    let problem = if is_abandoned() {
        "given up".to_owned()
    } else {
        format!("no answer within {} s", limit.as_secs())
    };
    Err(refused(&problem))
}

fn failed(status: ExitStatus, printed: &Reader, complained: &Reader, doing: &str) -> ControlError {
    let complained = complained.until_now();
    let complaint = match complained.trim() {
        "" => printed.until_now(),
        _ => complained,
    };
    ControlError::new(doing, format!("{status}: {}", complaint.trim())).with_status(status.code())
}

/// What a pipe brings, read beside the command so that it never fills up.
struct Reader(Receiver<Vec<u8>>);

fn collect(pipe: Option<Box<dyn Read + Send>>) -> Reader {
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
    /// All there is, once the pipe has ended; none where it does not. On a busy host the reading
    /// may be far behind the command, so that no shorter silence means an end.
    fn whole(&self) -> Option<String> {
        let (bytes, end) = self.read(LIMIT);
        (end == RecvTimeoutError::Disconnected).then(|| text(&bytes))
    }

    /// What has come, with a moment for what is on its way: for words that a user reads.
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

/// A command of this path with a clean slate for its input and output.
#[must_use]
pub fn command(program: &Path) -> Command {
    Command::new(program)
}

#[cfg(test)]
mod tests {
    use super::{command, run, start};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    fn shell(script: &str) -> Command {
        let mut shell = command(Path::new("/bin/sh"));
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn an_answer_that_comes_late_is_waited_for() {
        let late = "(sleep 0.6; echo 12; sleep 0.6; echo 13) &";
        assert_eq!(run(shell(late), "", "asking").unwrap(), "12\n13\n");
        assert_eq!(run(shell("cat"), "12\n", "asking").unwrap(), "12\n");
        assert_eq!(run(shell("true"), "", "asking").unwrap(), "");
    }

    #[test]
    fn a_daemon_that_keeps_the_output_open_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let daemon = format!("sleep 60 & echo $! > {}", pid_file.display());
        start(shell(&daemon), "starting").unwrap();
        let pid = std::fs::read_to_string(pid_file).unwrap();
        let pid = pid.trim();
        // It may not have become what it is going to be; who has ended never does.
        let sleeps = || {
            let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command_line.starts_with(b"sleep")
        };
        let mut looks = 0;
        while !sleeps() {
            looks += 1;
            assert!(looks < 10_000, "it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        run(shell(&format!("kill {pid}")), "", "ending it").unwrap();
    }

    #[test]
    fn a_status_other_than_zero_comes_with_what_was_said() {
        let failed = |script| run(shell(script), "", "asking").unwrap_err().to_string();
        let complained = failed("echo something; echo no >&2; exit 3");
        assert!(complained.contains("no") && !complained.contains("something"));
        assert!(complained.contains('3'), "{complained}");
        assert!(failed("echo something; exit 3").contains("something"));
        let refused = start(shell("echo taken >&2; exit 1"), "starting");
        assert!(refused.unwrap_err().to_string().contains("taken"));
    }
}
