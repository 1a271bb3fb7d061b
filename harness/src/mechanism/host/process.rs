//! Finding and ending the processes of an MPS daemon of ours.
//!
//! A process belongs to the daemon if it has the daemon's private folder in its environment, which
//! no other daemon has, and an MPS name. Process ids are reused, so none is kept.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use gpubench_workloads::user_victim::process_tree::signal_process;
use procfs::process::{Process, all_processes};
use rustix::process::Signal;

/// The beginning of the names of daemon and servers, of which the kernel keeps 15 characters.
const NAME: &str = "nvidia-cuda-mps";
/// The variable that names the private folder.
const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Time between two searches while processes end.
const STEP: Duration = Duration::from_millis(10);

/// Process ids of the daemon and the servers of this folder.
#[must_use]
pub fn mps_processes(pipes: &Path) -> Vec<u32> {
    // `/proc` is readable wherever this program runs: it starts from `/proc/self/exe`. A process
    // that ends during the search is left out.
    let all = all_processes().into_iter().flatten().flatten();
    let ours = all.filter(|process| is_mps(process) && serves(process, pipes));
    ours.filter_map(|process| process.pid().try_into().ok()).collect()
}

pub(super) fn is_mps(process: &Process) -> bool {
    let comm = || Some(process.stat().ok()?.comm.starts_with(NAME));
    // A program that replaced itself keeps the name in its arguments.
    let argument = || Some(process.cmdline().ok()?.first()?.contains(NAME));
    comm() == Some(true) || argument() == Some(true)
}

fn serves(process: &Process, pipes: &Path) -> bool {
    // Only the environment of another user's process is not readable, and ours have our user.
    let environment = process.environ().unwrap_or_default();
    let folder = environment.get(OsStr::new(PIPES)).map(OsString::as_os_str);
    folder == Some(pipes.as_os_str())
}

/// Waits for the processes of this folder to end by themselves, and then ends them. Returns whether
/// all have ended.
#[must_use]
pub fn end_processes(pipes: &Path, patience: Duration, grace: Duration) -> bool {
    for (signal, patience) in
        [(None, patience), (Some(Signal::TERM), grace), (Some(Signal::KILL), grace)]
    {
        if let Some(signal) = signal {
            for pid in mps_processes(pipes) {
                signal_process(pid, signal);
            }
        }
        if end_within(pipes, patience) {
            return true;
        }
    }
    false
}

fn end_within(pipes: &Path, patience: Duration) -> bool {
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
    // The signal ends this process before the call returns.
    let _unreachable = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}
