//! Running one of the vendor's commands to its end, within a limit.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::control::ControlError;

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

/// Runs a command, feeds it, and returns what it printed.
///
/// # Errors
/// When it cannot be started, does not end in time, or ends with a status other than 0.
pub fn run(mut command: Command, input: &str, doing: &str) -> Result<String, ControlError> {
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
    let readers = [
        child.stdout.take().map(|pipe| collect(Box::new(pipe))),
        child.stderr.take().map(|pipe| collect(Box::new(pipe))),
    ];
    let mut status = None;
    for _ in 0..LIMIT.as_millis() / STEP.as_millis() {
        status = child.try_wait().map_err(|error| refused(&error))?;
        if status.is_some() {
            break;
        }
        std::thread::sleep(STEP);
    }
    let Some(status) = status else {
        // It is ours and did not end; what it printed so far says nothing.
        let _ = child.kill();
        let _ = child.wait();
        return Err(refused(&format!("no answer within {} s", LIMIT.as_secs())));
    };
    let [printed, complained] = readers.map(|reader| reader.map_or_else(String::new, finished));
    if status.success() {
        return Ok(printed);
    }
    let said = if complained.trim().is_empty() {
        printed
    } else {
        complained
    };
    Err(refused(&format!("{status}: {}", said.trim())).with_status(status.code()))
}

/// What a pipe brings, read beside the command so that it never fills up. A daemon may keep the
/// pipe open after the command has ended, so reading does not wait for its end.
struct Reader(std::sync::mpsc::Receiver<Vec<u8>>);

fn collect(mut pipe: Box<dyn Read + Send>) -> Reader {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    Reader(receive)
}

fn finished(reader: Reader) -> String {
    let mut bytes = Vec::new();
    // A command that has ended has written everything; the reader is at most a step behind.
    while let Ok(part) = reader.0.recv_timeout(Duration::from_millis(200)) {
        bytes.extend(part);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A command of this path with a clean slate for its input and output.
#[must_use]
pub fn command(program: &Path) -> Command {
    Command::new(program)
}
