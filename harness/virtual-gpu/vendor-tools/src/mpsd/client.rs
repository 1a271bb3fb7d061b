//! The front end: sends commands to a daemon and prints its answers. The status says whether the
//! daemon was reached, and nothing about its answers, as with the vendor's.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::MpsdError;
use super::v3::REFUSED;
use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;

/// Sends the lines of standard input to the daemon of a pipe directory.
pub fn run(pipe: &Path) -> Result<(), MpsdError> {
    let unreachable = |_| MpsdError::Unreachable;
    // A daemon that is not there is told before anything is read.
    UnixStream::connect(pipe.join(CONTROL_SOCKET)).map_err(unreachable)?;
    let prompts = io::stdin().is_terminal();
    let mut lines = io::stdin().lock().lines();
    loop {
        if prompts {
            print("> ");
        }
        // What cannot be read ends the session like the end of the input.
        let Some(Ok(line)) = lines.next() else {
            return Ok(());
        };
        let command = line.trim();
        if command.is_empty() {
            continue;
        }
        print(&ask(pipe, command).map_err(unreachable)?);
        if command.split_whitespace().next() == Some("quit") {
            return Ok(());
        }
    }
}

/// Asks the daemon of a pipe directory one thing. A refusal of the third version is a failure.
pub fn once(pipe: &Path, command: &str) -> Result<(), MpsdError> {
    let unreachable = |_| MpsdError::Unreachable;
    let answer = ask(pipe, command).map_err(unreachable)?;
    if let Some(refusal) = answer.strip_prefix(REFUSED) {
        return Err(MpsdError::Command(refusal.trim().to_owned()));
    }
    print(&answer);
    Ok(())
}

/// Sends one command to the daemon of a pipe directory and returns its answer.
///
/// # Errors
/// When no daemon is there.
pub fn ask(pipe: &Path, command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(pipe.join(CONTROL_SOCKET))?;
    writeln!(stream, "{command}")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A daemon that quits may end before its answer was taken off the wire.
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Prints an answer: this is a program's voice, though it stands in a library.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    // A reader that has left wanted no more.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
