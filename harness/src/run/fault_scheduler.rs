//! Acts of the coordinator at an instant of the tenants' clock: signals, and words to a daemon. In
//! virtual time the clock stands meanwhile, so that the same seed always meets the same state of
//! the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::RunError;
use super::clock::RunClock;
use super::tenant_set::FAULT_SCHEDULER;
use crate::tenant::signal::{signal_group, signal_process};

/// What is done, when.
pub struct ScheduledAction {
    /// When.
    pub at_ns: u64,
    /// What.
    pub action: HostAction,
}

/// What is done.
pub enum HostAction {
    /// A tenant and everything it started gets SIGKILL.
    KillTenant {
        /// Its process.
        pid: u32,
    },
    /// A tenant gets SIGSTOP, and SIGCONT later.
    StopTenant {
        /// Its process.
        pid: u32,
        /// When it may go on.
        until_ns: u64,
    },
    /// Processes of a mechanism's service get SIGKILL.
    KillService {
        /// Those processes.
        pids: Vec<u32>,
        /// Processes that end with them on a virtual GPU, which are waited for there. What becomes
        /// of them on a real one is for the trial to see.
        follow: Vec<u32>,
    },
    /// Something else, which says why it could not be done.
    Do(Box<dyn FnOnce() -> Result<(), String> + Send>),
}

/// How often it is looked whether a process is gone, and how often at most: five seconds in all.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS_MAX: u32 = 5_000;
/// In such steps an instant on the wall clock is waited for, so that a run can end meanwhile.
const STEP: Duration = Duration::from_millis(20);

/// When it was done, unless the run ended before; or why it could not be.
type Done = Result<Option<u64>, String>;

/// A thread with an errand.
pub struct FaultScheduler {
    thread: JoinHandle<Done>,
    stop: Arc<AtomicBool>,
}

impl FaultScheduler {
    /// Sends it on its way. In virtual time it is a participant of the clock, announced here; the
    /// caller starts the others afterwards.
    pub fn start(clock: &RunClock, action: ScheduledAction) -> Result<Self, RunError> {
        clock.expect(FAULT_SCHEDULER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, flag) = (clock.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("fault scheduler".to_owned())
            .spawn(move || run(&clock, action, &flag))
            .map_err(|error| RunError::Clock(format!("signalling thread: {error}")))?;
        Ok(Self { thread, stop })
    }

    /// Waits for its return, at once if the run is to end.
    pub fn finish(self, at_once: bool) -> Done {
        if at_once {
            self.stop.store(true, Ordering::Relaxed);
        }
        let panicked = || Err("the signalling thread panicked".to_owned());
        self.thread.join().unwrap_or_else(|_| panicked())
    }
}

fn run(clock: &RunClock, action: ScheduledAction, stop: &AtomicBool) -> Done {
    let RunClock::Virtual(device) = clock else {
        return act(clock, action, stop);
    };
    device
        .join(FAULT_SCHEDULER)
        .map_err(|error| error.to_string())?;
    let done = act(clock, action, stop);
    device.leave().map_err(|error| error.to_string())?;
    done
}

fn act(clock: &RunClock, action: ScheduledAction, stop: &AtomicBool) -> Done {
    if !sleep_until(clock, action.at_ns, stop)? {
        return Ok(None);
    }
    let acted_ns = clock.now_ns();
    match action.action {
        HostAction::KillTenant { pid } => {
            signal_group(pid, libc::SIGKILL);
            wait_for_end(clock, pid)?;
        }
        HostAction::StopTenant { pid, until_ns } => {
            signal_group(pid, libc::SIGSTOP);
            let slept = sleep_until(clock, until_ns, stop);
            // Whatever became of the wait, nobody is left stopped.
            signal_group(pid, libc::SIGCONT);
            slept?;
        }
        HostAction::KillService { pids, follow } => {
            for &pid in &pids {
                signal_process(pid, libc::SIGKILL);
            }
            let follow = if clock.is_virtual() {
                follow
            } else {
                Vec::new()
            };
            for pid in pids.into_iter().chain(follow) {
                wait_for_end(clock, pid)?;
            }
        }
        HostAction::Do(what) => what()?,
    }
    Ok(Some(acted_ns))
}

/// Waits until a killed process is gone. What it held is taken back before the clock goes on; its
/// last thread to end may hold the sign that it lives for a while yet.
fn wait_for_end(clock: &RunClock, pid: u32) -> Result<(), String> {
    for _ in 0..LOOKS_MAX {
        clock.reap().map_err(|error| error.to_string())?;
        if is_gone(pid) && !holds(clock, pid)? {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("process {pid} outlived its signal"))
}

/// Whether a process still has a place on the virtual device.
fn holds(clock: &RunClock, pid: u32) -> Result<bool, String> {
    let RunClock::Virtual(device) = clock else {
        return Ok(false);
    };
    let held = device.shared().read(|state| {
        let mut processes = state.processes.live().iter();
        processes.any(|process| process.pid == pid)
    });
    held.map_err(|error| error.to_string())
}

/// Whether a process has ended; one that nobody has waited for yet counts as ended.
fn is_gone(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The name may hold anything, so the state is looked for after its closing bracket (proc(5)).
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('Z' | 'X') | None)
}

/// False if the run ended before.
fn sleep_until(clock: &RunClock, t_ns: u64, stop: &AtomicBool) -> Result<bool, String> {
    match clock {
        RunClock::Virtual(device) => {
            device
                .sleep_until(t_ns)
                .map_err(|error| error.to_string())?;
            Ok(!stop.load(Ordering::Relaxed))
        }
        RunClock::Wall => {
            while !stop.load(Ordering::Relaxed) {
                let left = t_ns.saturating_sub(clock.now_ns());
                if left == 0 {
                    return Ok(true);
                }
                std::thread::sleep(Duration::from_nanos(left).min(STEP));
            }
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_gone;

    #[test]
    fn a_zombie_is_gone_and_the_living_are_not() -> std::io::Result<()> {
        assert!(!is_gone(std::process::id()));
        let mut child = std::process::Command::new("true").spawn()?;
        let pid = child.id();
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_gone(pid)
        });
        assert!(gone, "nobody has waited for it yet");
        child.wait()?;
        assert!(is_gone(pid));
        Ok(())
    }
}
