//! The front end of an MPS control daemon: one process for all questions to a daemon with version
//! 2 of the interface.
//!
//! The vendor's reads commands until its input ends (nvidia-cuda-mps-control(1)). Of driver
//! 535.261.03 it answers a terminal at once but a pipe when it ends, so it gets a pseudo-terminal.
//! Nothing marks the end of an answer, so a word that the daemon refuses follows each question. A
//! daemon serves one front end at a time: a second one prints nothing and ends with status 0.
//! Clients connect meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use super::ControlError;
use super::command::{LIMIT, Reader, STEP, collect, failed, late, wait};
use crate::device::is_abandoned;

/// Follows each question; the daemon's refusal of it ends the answer.
const END: &str = "gpubench-end";
/// How long a front end may take to show that it answers at once.
const FIRST: Duration = Duration::from_secs(2);

/// The open front ends by the daemons' folders, and why one has failed. A failed one is not
/// replaced: none may start beside samples.
static OPEN: Mutex<BTreeMap<PathBuf, Result<FrontEnd, ControlError>>> = Mutex::new(BTreeMap::new());

fn open() -> MutexGuard<'static, BTreeMap<PathBuf, Result<FrontEnd, ControlError>>> {
    // Consistent between statements.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the front end of a daemon. Where that fails, or where it does not answer at once,
/// [`ask`] has none.
pub fn start(pipes: &Path, command: Command, doing: &str) {
    let Ok(mut front_end) = FrontEnd::start(command) else {
        return;
    };
    if front_end.ask("", FIRST, doing).is_ok() {
        open().insert(pipes.to_owned(), Ok(front_end));
    }
}

/// The answer to a command; `None` if the daemon has no front end.
pub fn ask(pipes: &Path, text: &str, doing: &str) -> Option<Result<String, ControlError>> {
    let mut open = open();
    let entry = open.get_mut(pipes)?;
    let answer = match entry {
        Ok(front_end) => front_end.ask(&format!("{text}\n"), LIMIT, doing),
        Err(error) => Err(error.clone()),
    };
    if let Err(error) = &answer {
        *entry = Err(error.clone());
    }
    Some(answer)
}

/// Has the front end of a daemon end it; `None` if it has none that answers.
pub fn quit(pipes: &Path, limit: Duration, doing: &str) -> Option<Result<(), ControlError>> {
    let front_end = open().remove(pipes)?.ok()?;
    Some(front_end.quit(limit, doing))
}

/// Process id of the front end of a daemon.
pub fn pid(pipes: &Path) -> Option<u32> {
    open().get(pipes)?.as_ref().ok().map(|front_end| front_end.child.id())
}

struct FrontEnd {
    child: Child,
    input: Option<ChildStdin>,
    output: Reader,
    complaints: Reader,
}

impl FrontEnd {
    fn start(mut command: Command) -> std::io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags)?;
        unlockpt(&terminal)?;
        command.stdout(ioctl_tiocgptpeer(&terminal, flags)?);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Self {
            input: child.stdin.take(),
            output: collect(Some(Box::new(File::from(terminal)))),
            complaints: collect(child.stderr.take().map(|pipe| Box::new(pipe) as Box<_>)),
            child,
        })
    }

    /// The answer to lines of input.
    fn ask(&mut self, lines: &str, limit: Duration, doing: &str) -> Result<String, ControlError> {
        if let Some(input) = &mut self.input {
            // A front end that has ended reports why by its status.
            let _ = writeln!(input, "{lines}{END}");
        }
        let mut printed = Vec::new();
        for _ in 0..limit.as_millis() / STEP.as_millis() {
            match self.output.0.recv_timeout(STEP) {
                Ok(part) => printed.extend(part),
                Err(RecvTimeoutError::Timeout) if is_abandoned() => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = wait(&mut self.child, limit, doing)?;
                    return Err(failed(status, &self.output, &self.complaints, doing));
                }
            }
            if let Some(answer) = answer_in(&printed) {
                return Ok(answer);
            }
        }
        Err(late(limit, doing))
    }

    fn quit(mut self, limit: Duration, doing: &str) -> Result<(), ControlError> {
        if let Some(mut input) = self.input.take() {
            // As for a question.
            let _ = writeln!(input, "quit");
        }
        let status = wait(&mut self.child, limit, doing)?;
        let error = || failed(status, &self.output, &self.complaints, doing);
        status.success().then_some(()).ok_or_else(error)
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands before the line that refuses [`END`], once all of that line is there. A terminal
/// ends lines with two characters.
fn answer_in(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed).replace('\r', "");
    let (before, after) = text.split_once(END)?;
    let answer = before.rfind('\n').map_or(0, |end| end + 1);
    after.contains('\n').then(|| before[..answer].to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::super::command::tests::shell;
    use super::{FrontEnd, answer_in, ask, pid, quit, start};

    const LIMIT: Duration = Duration::from_secs(20);

    fn front_end(cases: &str) -> Command {
        let refuses = "*) echo \"Unknown command \\\"$line\\\"\";;";
        shell(&format!("while read -r line; do case $line in {cases} {refuses} esac; done"))
    }

    #[test]
    fn one_process_answers_every_question_and_ends_on_quit() {
        let pipes = Path::new("/one");
        start(pipes, front_end("servers) echo 12; echo 13;; none) ;; quit) exit 0;;"), "asking");
        let first = pid(pipes);
        for (question, answer) in [("servers", "12\n13\n"), ("none", ""), ("servers", "12\n13\n")] {
            assert_eq!(ask(pipes, question, "asking"), Some(Ok(answer.to_owned())));
        }
        assert!(first.is_some() && pid(pipes) == first);
        assert_eq!(quit(pipes, LIMIT, "ending"), Some(Ok(())));
        assert_eq!(ask(pipes, "servers", "asking"), None);
    }

    #[test]
    fn one_that_answers_at_its_end_is_not_used() {
        let pipes = Path::new("/late");
        start(pipes, shell("cat > /dev/null; echo 'Unknown command \"gpubench-end\"'"), "asking");
        assert_eq!(ask(pipes, "servers", "asking"), None);
    }

    #[test]
    fn one_that_ends_or_hangs_is_an_error_and_not_replaced() {
        let pipes = Path::new("/dead");
        start(pipes, front_end("servers) echo 12; echo gone >&2; exit 3;;"), "asking");
        let error = ask(pipes, "servers", "asking").unwrap().unwrap_err();
        assert_eq!((error.status, error.what.contains("gone")), (Some(3), true), "{error}");
        assert_eq!(ask(pipes, "servers", "asking"), Some(Err(error)));
        assert_eq!((pid(pipes), quit(pipes, LIMIT, "ending")), (None, None));
        let mut hangs = FrontEnd::start(front_end("servers) exec sleep 60;;")).unwrap();
        let error = hangs.ask("servers\n", Duration::from_millis(100), "asking").unwrap_err();
        assert!(error.what.contains("no answer"), "{error}");
    }

    #[test]
    fn an_answer_ends_before_the_line_that_refuses_the_end() {
        let part = "12\r\nUnknown command \"gpubench-end\"";
        assert_eq!(answer_in(part.as_bytes()), None);
        assert_eq!(answer_in(format!("{part}\r\n").as_bytes()), Some("12\n".to_owned()));
    }
}
