//! The front end: sends commands to a daemon and prints its answers. As with the vendor's, the exit
//! status shows only whether the daemon answered. As with that of driver 535.261.03, a terminal
//! gets each answer at once and a pipe all of them at the end, and a second front end of a daemon
//! prints nothing.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, IsTerminal, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::MpsError;
use super::v3::REFUSED;
use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;

/// Sends the lines of standard input to the daemon of a pipe directory.
pub fn run(pipe: &Path) -> Result<(), MpsError> {
    let unreachable = |_| MpsError::Unreachable;
    // A missing daemon is reported before any input is read.
    UnixStream::connect(pipe.join(CONTROL_SOCKET)).map_err(unreachable)?;
    let folder = File::open(pipe).map_err(unreachable)?;
    if folder.try_lock().is_err() {
        return Ok(());
    }
    let prompts = io::stdin().is_terminal();
    let at_once = io::stdout().is_terminal();
    let mut out = BufWriter::new(io::stdout());
    let mut lines = io::stdin().lock().lines();
    loop {
        if prompts {
            print("> ");
        }
        // An input error ends the session like the end of the input.
        let Some(Ok(line)) = lines.next() else {
            return Ok(());
        };
        let command = line.trim();
        if command.is_empty() {
            continue;
        }
        let answer = send(pipe, command).map_err(unreachable)?;
        // A closed standard output is ignored.
        let _ = out.write_all(answer.as_bytes());
        if at_once {
            let _ = out.flush();
        }
        if command.split_whitespace().next() == Some("quit") {
            return Ok(());
        }
    }
}

/// Sends one command to the daemon of a pipe directory. A refusal by protocol version 3 is a
/// failure.
pub fn once(pipe: &Path, command: &str) -> Result<(), MpsError> {
    let unreachable = |_| MpsError::Unreachable;
    let answer = send(pipe, command).map_err(unreachable)?;
    if let Some(refusal) = answer.strip_prefix(REFUSED) {
        return Err(MpsError::Command(refusal.trim().to_owned()));
    }
    print(&answer);
    Ok(())
}

/// Sends one command to the daemon of a pipe directory and returns its answer.
/// Fails when no daemon answers.
pub fn send(pipe: &Path, command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(pipe.join(CONTROL_SOCKET))?;
    writeln!(stream, "{command}")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A daemon that quits can end before its answer is read.
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        _ => {}
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    // A closed standard output is ignored.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
