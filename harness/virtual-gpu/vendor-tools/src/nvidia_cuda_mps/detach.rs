//! Background mode: the daemon is this program, started again in a session of its own.
#![expect(unsafe_code, reason = "sessions and descriptors have no safe form in std")]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Stdio;

use super::{CONTROL, MpsError, Options, Programs};

/// Set in the environment of a daemon with a starter that waits until it listens.
const WAITED_FOR: &str = "GPUBENCH_MPS_WAITED_FOR";

/// Starts a daemon in the background and returns once it listens.
pub fn start(programs: &Programs, options: &Options) -> Result<(), MpsError> {
    let mut command = (programs.control)();
    command.arg("-f");
    if options.static_partitions {
        command.arg("-S");
    }
    if options.multiuser {
        command.arg("-multiuser-server");
    }
    command.args(["-p", &options.protocol.to_string()]);
    if let Some(file) = &options.apply {
        command.arg("-a").arg(file);
    }
    let start = |source| MpsError::Start { what: "the MPS control daemon", source };
    let mut child = command
        .env(WAITED_FOR, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    // The daemon closes its standard error once it listens; before that it writes errors there.
    let mut stderr_text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut stderr_text).map_err(start)?;
    }
    if stderr_text.is_empty() && child.try_wait().map_err(start)?.is_none() {
        return Ok(());
    }
    let stderr_text = stderr_text.trim();
    let reason = stderr_text.strip_prefix(&format!("{CONTROL}: ")).unwrap_or(stderr_text);
    if reason == MpsError::AlreadyRunning.to_string() {
        return Err(MpsError::AlreadyRunning);
    }
    Err(MpsError::Refused(match reason {
        "" => "the MPS control daemon ended before it listened".to_owned(),
        reason => reason.to_owned(),
    }))
}

/// Whether this daemon was started by [`start`], which forwards its errors.
pub fn is_waited_for() -> bool {
    std::env::var_os(WAITED_FOR).is_some()
}

/// In the daemon: leaves the starter's terminal.
pub fn begin() {
    if is_waited_for() {
        // SAFETY: plain call without arguments. It fails for a process group leader, which needs no
        // new session.
        unsafe { libc::setsid() };
    }
}

/// In the daemon: signals the starter that it listens.
pub fn listening() -> std::io::Result<()> {
    if !is_waited_for() {
        return Ok(());
    }
    let nowhere = File::options().write(true).open("/dev/null")?;
    // SAFETY: both descriptors are open; no Rust object owns descriptor 2.
    if unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDERR_FILENO) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}
