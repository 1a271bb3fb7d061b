//! The process of one device: its command line, its start, and its end.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use gpubench_record::ExitCode;
use gpubench_workloads::clock::thread::Cores;
use gpubench_workloads::command::{Inherits, PART_OF, SIGN_PASSWORD, command};
use gpubench_workloads::user_victim::process_tree::signal_process;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::watch;

use super::Part;
use crate::verbs::targets::Target;

pub type Share = Cores;

/// What a run beside others has.
pub struct Beside {
    /// The values of `--device` of the others.
    pub others: Vec<String>,
    pub width: usize,
    /// Whether what it prints may be coloured.
    pub color: bool,
    pub cores: Option<Share>,
}

/// How the run of one device ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Code(ExitCode),
    /// By this signal, which is none of those that end a run in order.
    Killed(i32),
    /// It could not be started.
    Unstartable(String),
    /// The device does not answer.
    Lost(String),
    /// The user interrupted before it began.
    NotStarted,
}

impl End {
    pub fn of_error(error: &std::io::Error) -> Self {
        Self::Unstartable(error.to_string())
    }

    fn of_status(status: ExitStatus) -> Self {
        let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
        match (status.code(), status.signal()) {
            (Some(code), _) => {
                let known = ExitCode::BY_PRECEDENCE.into_iter();
                let mut found = known.filter(|one| i32::from(one.code()) == code);
                Self::Code(found.next().unwrap_or(ExitCode::Internal))
            }
            // It came before the run had a handler, so before it changed anything.
            (None, Some(by)) if signals.iter().any(|one| one.as_raw() == by) => {
                Self::Code(ExitCode::Interrupted)
            }
            (None, by) => Self::Killed(by.unwrap_or_default()),
        }
    }

    /// Its part in the status of the whole.
    pub const fn code(&self) -> ExitCode {
        match self {
            Self::Code(code) => *code,
            Self::Killed(_) | Self::Unstartable(_) => ExitCode::Internal,
            Self::Lost(_) => ExitCode::NothingRan,
            Self::NotStarted => ExitCode::Interrupted,
        }
    }
}

/// A run that has been started.
pub struct Started {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Started {
    /// Starts a run that prints where this process does.
    pub fn inheriting(target: &Target, out: &Path) -> std::io::Result<Self> {
        let mut command = prepared(target, out, &[]);
        Ok(Self { child: command.spawn()?, stdout: None, stderr: None })
    }

    /// Starts this program with other arguments, of which this process reads what they print.
    pub fn with(arguments: impl Iterator<Item = OsString>) -> std::io::Result<Self> {
        let mut command = this_program(arguments, &[]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(Self { child, stdout, stderr })
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Starts a run beside others.
    pub fn beside(target: &Target, out: &Path, beside: &Beside) -> std::io::Result<Self> {
        let mut command = prepared(target, out, &beside.others);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("COLUMNS", beside.width.to_string());
        if beside.color {
            command.env("CLICOLOR_FORCE", "1");
        }
        let mut child = on_cores(beside.cores.as_ref(), || command.spawn())?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(Self { child, stdout, stderr })
    }

    /// Waits for its end, and for what it printed. `line` gets each line of its stderr. A signal to
    /// this process is passed on once: the run then restores its device and ends.
    pub async fn end(
        mut self,
        mut stop: watch::Receiver<bool>,
        line: impl Fn(&str),
    ) -> (End, Vec<u8>) {
        let pid = self.child.id();
        let stdout = self.stdout.take();
        let printed = async {
            let mut bytes = Vec::new();
            if let Some(mut stdout) = stdout {
                // What was read until an error is still printed.
                let _ = stdout.read_to_end(&mut bytes).await;
            }
            bytes
        };
        let stderr = self.stderr.take();
        let lines = async {
            let Some(stderr) = stderr else { return };
            let mut lines = BufReader::new(stderr).split(b'\n');
            while let Ok(Some(bytes)) = lines.next_segment().await {
                line(&String::from_utf8_lossy(&bytes));
            }
        };
        let ended = async {
            let stopped = async {
                // The sender lives until all runs have ended.
                let _ = stop.wait_for(|stopped| *stopped).await;
            };
            tokio::select! {
                status = self.child.wait() => return status,
                () = stopped => {}
            }
            if let Some(pid) = pid {
                signal_process(pid, Signal::TERM);
            }
            self.child.wait().await
        };
        let (status, printed, ()) = tokio::join!(ended, printed, lines);
        let end = status.map_or_else(|error| End::of_error(&error), End::of_status);
        (end, printed)
    }
}

fn prepared(target: &Target, out: &Path, others: &[String]) -> Command {
    let own = arguments(std::env::args_os().skip(1), &["--device", "--out"], &["--parallel"]);
    let more = ["--device".as_ref(), target.device.as_ref(), "--out".as_ref(), out.as_os_str()];
    this_program(own.into_iter().chain(more.map(OsStr::to_owned)), others)
}

/// This program with other arguments, as a part of this process.
fn this_program(arguments: impl Iterator<Item = OsString>, others: &[String]) -> Command {
    let mut process = command("/proc/self/exe", Inherits::All);
    process.arg0("gpubench").args(arguments).env(PART_OF, Part::value(others));
    if let Some(password) = std::env::var_os(SIGN_PASSWORD) {
        process.env(SIGN_PASSWORD, password);
    }
    Command::from(process)
}

/// Starts a process on these cores, which it inherits from this thread.
fn on_cores<T>(
    cores: Option<&Share>,
    start: impl FnOnce() -> std::io::Result<T>,
) -> std::io::Result<T> {
    let Some(cores) = cores else {
        return start();
    };
    let own = Cores::of_this_thread().map_err(std::io::Error::other)?;
    cores.apply().map_err(std::io::Error::other)?;
    let started = start();
    own.apply().map_err(std::io::Error::other)?;
    started
}

/// A command line without these flags, with and without a value. No value of a flag begins with a
/// hyphen, so a word with the name of a flag is that flag.
pub fn arguments(
    own: impl Iterator<Item = OsString>,
    with_value: &[&str],
    alone: &[&str],
) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for argument in own {
        let text = argument.to_string_lossy();
        if std::mem::take(&mut is_value) || alone.contains(&&*text) {
            continue;
        }
        if with_value.contains(&&*text) {
            is_value = true;
            continue;
        }
        let name = text.split_once('=').map(|(name, _)| name);
        if !name.is_some_and(|name| with_value.contains(&name)) {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use gpubench_record::ExitCode;

    use super::{End, arguments};

    #[test]
    fn flags_of_one_device_are_left_out_and_all_others_stay() {
        for (line, expected) in [
            ("matrix --device 0,1 --seed 7 --out x --parallel --full", "matrix --seed 7 --full"),
            (
                "--color never matrix --device=all --out=x --victim-cmd=a=b",
                "--color never matrix --victim-cmd=a=b",
            ),
            ("matrix --device 0 --device 1 --axis sm", "matrix --axis sm"),
        ] {
            let kept =
                arguments(line.split(' ').map(Into::into), &["--device", "--out"], &["--parallel"]);
            let kept: Vec<_> = kept.iter().map(|one| one.to_string_lossy()).collect();
            assert_eq!(kept.join(" "), expected);
        }
    }

    #[test]
    fn every_end_of_a_process_has_a_code() {
        for (raw, expected, code) in [
            (0, End::Code(ExitCode::Done), 0),
            (3 << 8, End::Code(ExitCode::NothingRan), 3),
            (77 << 8, End::Code(ExitCode::Internal), 1),
            (15, End::Code(ExitCode::Interrupted), 130),
            (9, End::Killed(9), 1),
        ] {
            let end = End::of_status(ExitStatus::from_raw(raw));
            assert_eq!((end.code().code(), &end), (code, &expected));
        }
        assert_eq!(End::Lost(String::new()).code(), ExitCode::NothingRan);
        assert_eq!(End::NotStarted.code(), ExitCode::Interrupted);
    }
}
