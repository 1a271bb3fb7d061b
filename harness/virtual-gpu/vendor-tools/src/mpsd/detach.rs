//! Going to the background: the daemon is this program again, in a session of its own.
#![expect(
    unsafe_code,
    reason = "sessions and descriptors have no safe form in std"
)]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Stdio;

use super::{CONTROL, MpsdError, Options, Programs};

/// Set for a daemon whose starter waits until it listens.
const WAITED_FOR: &str = "GPUBENCH_MPS_WAITED_FOR";

/// Starts a daemon in the background and returns once it listens.
pub fn start(programs: &Programs, options: &Options) -> Result<(), MpsdError> {
    let mut command = (programs.control)();
    command.arg("-f");
    if options.static_partitions {
        command.arg("-S");
    }
    if options.multiuser {
        command.arg("-multiuser-server");
    }
    command.args(["-p", &options.protocol.to_string()]);
    let start = |source| MpsdError::Start {
        what: "the MPS control daemon",
        source,
    };
    let mut child = command
        .env(WAITED_FOR, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    // The daemon closes its standard error when it listens, and what ends before has said why.
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(start)?;
    }
    if said.is_empty() && child.try_wait().map_err(start)?.is_none() {
        return Ok(());
    }
    let said = said.trim();
    let reason = said.strip_prefix(&format!("{CONTROL}: ")).unwrap_or(said);
    if reason == MpsdError::Taken.to_string() {
        return Err(MpsdError::Taken);
    }
    Err(MpsdError::Refused(match reason {
        "" => "the MPS control daemon ended before it listened".to_owned(),
        reason => reason.to_owned(),
    }))
}

/// Whether this is a daemon whose starter hears what it says and tells it on.
pub fn is_waited_for() -> bool {
    std::env::var_os(WAITED_FOR).is_some()
}

/// The daemon's side: leaves the starter's terminal.
pub fn begin() {
    if is_waited_for() {
        // SAFETY: plain call without arguments. It fails for the leader of a group, which is then
        // in a group of its own already.
        unsafe { libc::setsid() };
    }
}

/// The daemon's side: tells the starter that the daemon listens.
pub fn listening() -> std::io::Result<()> {
    if !is_waited_for() {
        return Ok(());
    }
    let nowhere = File::options().write(true).open("/dev/null")?;
    // SAFETY: both descriptors are open; nothing of Rust's owns descriptor 2.
    if unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDERR_FILENO) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}
