//! Finding and ending the processes of an MPS daemon of ours.
//!
//! They are told by the private folder in their environment, which no other daemon has, and by
//! their name; numbers of processes are used again and would not do.
#![expect(unsafe_code, reason = "signals have no safe form in std")]

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How daemon and servers are called, as far as the kernel keeps the name.
const NAME: &str = "nvidia-cuda-mps";
/// The variable that names the private folder.
const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// How often processes are looked for while they end.
const STEP: Duration = Duration::from_millis(10);

/// Daemon and servers that live in this folder.
#[must_use]
pub fn mps_processes(pipes: &Path) -> Vec<u32> {
    let mut wanted = format!("{PIPES}=").into_bytes();
    wanted.extend_from_slice(pipes.as_os_str().as_bytes());
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        // A program that replaced itself keeps the name in its arguments.
        let called = read("cmdline");
        let first = called.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_mps = read("comm").starts_with(NAME.as_bytes()) || contains(first, NAME);
        if is_mps
            && read("environ")
                .split(|byte| *byte == 0)
                .any(|v| v == wanted)
        {
            found.push(pid);
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Waits for the processes of this folder to end by themselves, and then ends them. Says whether
/// all are gone.
#[must_use]
pub fn end_processes(pipes: &Path, patience: Duration, grace: Duration) -> bool {
    for (signal, patience) in [
        (None, patience),
        (Some(libc::SIGTERM), grace),
        (Some(libc::SIGKILL), grace),
    ] {
        if let Some(signal) = signal {
            for pid in mps_processes(pipes) {
                kill(pid, signal);
            }
        }
        if gone_within(pipes, patience) {
            return true;
        }
    }
    false
}

fn gone_within(pipes: &Path, patience: Duration) -> bool {
    for _ in 0..=patience.as_millis() / STEP.as_millis() {
        if mps_processes(pipes).is_empty() {
            return true;
        }
        std::thread::sleep(STEP);
    }
    false
}

/// Ends this process as SIGKILL from another process does: none of its code runs any more.
pub(super) fn die() {
    // SAFETY: plain calls without pointers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn kill(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: plain call, to a process that was just told by name and folder.
        unsafe { libc::kill(pid, signal) };
    }
}
