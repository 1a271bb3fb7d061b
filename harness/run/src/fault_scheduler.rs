//! Actions of the coordinator at an instant of the tenants' clock: signals, and commands to a
//! daemon. In virtual time the clock stops during the action, so that one seed gives the same state
//! of the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_host::device::BlockingCall;
use gpubench_workloads::user_victim::process_tree::{signal_group, signal_process};
use rustix::process::Signal;

use super::RunError;
use super::observe::is_alive;
use super::waits::RunClock;

/// The scheduler's number as a participant of the clock.
pub const FAULT_SCHEDULER: u32 = 1;

pub struct ScheduledAction {
    pub at_ns: u64,
    pub action: HostAction,
}

/// What the coordinator does to the host at the instant of a fault.
pub enum HostAction {
    /// A tenant and everything it started gets SIGKILL.
    KillTenant { pid: u32 },
    /// A tenant gets SIGSTOP, and SIGCONT later.
    StopTenant {
        pid: u32,
        /// When it continues.
        until_ns: u64,
    },
    /// Processes of a mechanism's service get SIGKILL.
    KillService {
        pids: Vec<u32>,
        /// Processes that end with them. On a virtual GPU the action waits for their end; on a real
        /// one the trial observes them.
        follow: Vec<u32>,
    },
    /// Another call, which returns why it failed.
    Do(Box<dyn FnOnce() -> Result<(), String> + Send>),
}

/// Interval and maximum number of checks of a killed process: five seconds in all.
const POLL: Duration = Duration::from_millis(1);
const POLLS_MAX: u32 = 5_000;
/// Steps of a wait on the wall clock, so that a run can end between them.
const STEP: Duration = Duration::from_millis(20);
/// Longest wait for an action: every command to a daemon has a limit of its own.
const FINISH: Duration = Duration::from_secs(90);

/// The instant of the action, unless the run ended before; or why it failed.
type Done = Result<Option<u64>, String>;

/// A thread that waits for the instant of its action.
pub struct FaultScheduler {
    thread: BlockingCall<Done>,
    stop: Arc<AtomicBool>,
}

impl FaultScheduler {
    /// Starts it. In virtual time it is the participant [`FAULT_SCHEDULER`] of the clock, which the
    /// caller has announced with those of the tenants.
    pub fn start(clock: &RunClock, action: ScheduledAction) -> Result<Self, RunError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, flag) = (clock.clone(), Arc::clone(&stop));
        let run = move || run(&clock, action, &flag);
        let thread = BlockingCall::start("acting on the host at the instant of a fault", run)?;
        Ok(Self { thread, stop })
    }

    /// Waits for the action. An action before its instant is left out.
    pub async fn finish(mut self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.within(FINISH).await;
        done.unwrap_or_else(|error| Err(error.to_string()))
    }
}

fn run(clock: &RunClock, action: ScheduledAction, stop: &AtomicBool) -> Done {
    let RunClock::Virtual(device) = clock else { return act(clock, action, stop) };
    device.join(FAULT_SCHEDULER).map_err(|error| error.to_string())?;
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
            signal_group(pid, Signal::KILL);
            wait_for_end(clock, pid)?;
        }
        HostAction::StopTenant { pid, until_ns } => {
            signal_group(pid, Signal::STOP);
            let slept = sleep_until(clock, until_ns, stop);
            // Continue the process also after a failed wait.
            signal_group(pid, Signal::CONT);
            slept?;
        }
        HostAction::KillService { pids, follow } => {
            for &pid in &pids {
                signal_process(pid, Signal::KILL);
            }
            let follow = if clock.is_virtual() { follow } else { Vec::new() };
            for pid in pids.into_iter().chain(follow) {
                wait_for_end(clock, pid)?;
            }
        }
        HostAction::Do(what) => what()?,
    }
    Ok(Some(acted_ns))
}

/// Waits until a killed process has ended and the virtual device has freed what it held, before the
/// clock continues. Its last thread may hold the file lock for a short time after the process
/// ended.
fn wait_for_end(clock: &RunClock, pid: u32) -> Result<(), String> {
    for _ in 0..POLLS_MAX {
        clock.reap().map_err(|error| error.to_string())?;
        if !is_alive(pid) && !holds(clock, pid)? {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
    Err(format!("process {pid} outlived its signal"))
}

/// Whether a process still has a row on the virtual device.
fn holds(clock: &RunClock, pid: u32) -> Result<bool, String> {
    let RunClock::Virtual(device) = clock else { return Ok(false) };
    device.has_process(pid).map_err(|error| error.to_string())
}

/// Returns false if the run ended before.
fn sleep_until(clock: &RunClock, t_ns: u64, stop: &AtomicBool) -> Result<bool, String> {
    match clock {
        RunClock::Virtual(device) => {
            device.sleep_until(t_ns).map_err(|error| error.to_string())?;
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
