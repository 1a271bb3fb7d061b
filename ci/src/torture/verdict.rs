//! One run of the program on a damaged file, and what is wrong with how it ended.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest run on a damaged file.
const LIMIT: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(2);
const LINE_BYTES: usize = 2000;
const INTERNAL: i32 = 1;
const REFUSED: i32 = 2;
const KEPT_BYTES: u64 = 1 << 22;

/// What the program must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The damage shows: a message or a status.
    Named,
    /// What is still an accepted input gives its result.
    Result,
}

#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Runs a command, which must end within the limit.
pub fn run(mut command: Command) -> Result<Ended, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let stdout = scope.spawn(move || out.map(kept).unwrap_or_default());
        let stderr = scope.spawn(move || err.map(kept).unwrap_or_default());
        let status = ended(&mut child);
        let text =
            |reader: std::thread::ScopedJoinHandle<'_, String>| reader.join().unwrap_or_default();
        let (stdout, stderr) = (text(stdout), text(stderr));
        status.map(|status| Ended { status, stdout, stderr })
    })
}

/// The beginning of an output. The rest is read too, so that the writer does not wait.
fn kept(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.by_ref().take(KEPT_BYTES).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ended(child: &mut Child) -> Result<ExitStatus, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begin.elapsed() < LIMIT => std::thread::sleep(STEP),
            Ok(None) => {
                super::host::signal_group(child.id(), "KILL");
                let _ = child.wait();
                return Err(format!("still running after {LIMIT:?}"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

impl Ended {
    /// The exit status; `None` after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn problem(&self, expected: Expected) -> Option<String> {
        let first = || {
            let line = self.stderr.lines().next().unwrap_or_default();
            line.chars().take(300).collect::<String>()
        };
        let Some(code) = self.status.code() else {
            let signal = self.status.signal().unwrap_or_default();
            return Some(format!("ended by signal {signal}: {}", first()));
        };
        if code == INTERNAL || self.stderr.contains("internal error") {
            return Some(format!("an internal error: {}", first()));
        }
        let is_mute = self.stderr.trim().is_empty();
        // `report --verify` prints the problems as its result.
        if code != 0 && is_mute && self.stdout.trim().is_empty() {
            return Some(format!("status {code} without a message"));
        }
        let is_silent = match expected {
            Expected::Named => code == 0 && is_mute,
            // A verb that writes files says so on the error stream.
            Expected::Result => code == 0 && is_mute && self.stdout.trim().is_empty(),
        };
        if is_silent {
            return Some("silent".to_owned());
        }
        if let Some(long) = self.stderr.lines().find(|line| line.len() > LINE_BYTES) {
            return Some(format!("a line of {} bytes: {}", long.len(), first()));
        }
        let errors = self.stderr.lines().filter(|line| line.starts_with("error: "));
        let errors = errors.count();
        (code == REFUSED && errors != 1).then(|| format!("{errors} error lines: {}", first()))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Expected, run};

    fn problem(script: &str, expected: Expected) -> Option<String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        match run(command) {
            Ok(ended) => ended.problem(expected),
            Err(error) => Some(error),
        }
    }

    #[test]
    fn a_good_end_has_a_message_or_a_result() {
        for (script, expected) in [
            ("echo 'error: no' >&2; exit 2", Expected::Result),
            ("echo warning >&2", Expected::Named),
            ("echo result", Expected::Result),
        ] {
            assert_eq!(problem(script, expected), None, "{script}");
        }
    }

    #[test]
    fn every_bad_end_is_named() {
        for (script, expected, named) in [
            ("exit 2", Expected::Result, "without a message"),
            ("echo result", Expected::Named, "silent"),
            ("true", Expected::Result, "silent"),
            ("kill -ABRT $$", Expected::Result, "ended by signal 6"),
            ("echo bug >&2; exit 1", Expected::Result, "an internal error: bug"),
            ("sleep 60", Expected::Result, "still running"),
            ("echo no >&2; exit 2", Expected::Result, "0 error lines: no"),
            ("seq -s , 9999 >&2", Expected::Named, "a line of"),
        ] {
            let found = problem(script, expected);
            let is_named = found.as_ref().is_some_and(|found| found.contains(named));
            assert!(is_named, "{script}: {found:?}");
        }
    }
}
