//! The load generator: submits requests to a device and stamps each of them.
//!
//! The issuing thread never waits for a completion in the open loop: a second thread, the reaper,
//! waits and writes the rows. Every wait uses [`Time`], so the same code runs on the wall clock, in
//! virtual time, and with the fake device of the tests. The lock that both threads share is held
//! for a few memory writes and never across a call of the clock or the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpubench_record::{Bursts, CpuGaps, LoadSpec};

use crate::clock::thread::ReaperCores;
use crate::clock::{ClockError, Participation, Time};
use crate::log::LogWriter;

#[cfg(test)]
mod fake;
mod gaps;
mod issuer;
mod loops;
mod reaper;
mod shared;

use issuer::Issuer;
use shared::Shared;

/// How long the drain waits for requests after the end of the open loop.
pub const DRAIN_NS_MAX: u64 = 2_000_000_000;

/// How long after the drain the device may take to become idle before the tenant is given up.
pub const SETTLE_NS_MAX: u64 = 10_000_000_000;

/// How often the drain checks for its end.
const POLL_NS: u64 = 1_000_000;

/// Consecutive failed requests after which the cell ends, unless the failures are
/// [`CellRun::answers`].
pub const ERRORS_IN_A_ROW_MAX: u32 = 16;

/// Converts bursts to the type of schedules.
pub const fn shape(bursts: Bursts) -> gpubench_stats::Bursts {
    gpubench_stats::Bursts { requests: bursts.requests, peak: bursts.peak }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DeviceError {
    pub what: String,
    /// The driver's number, if the error is the driver's.
    pub code: Option<i32>,
    /// Whether every later call is expected to fail too.
    pub sticky: bool,
}

/// Submits requests. Belongs to the issuing thread.
pub trait Submit {
    /// Submits one request, with one event before and one after it from pair `slot`.
    fn submit(&mut self, slot: usize) -> Result<(), DeviceError>;

    /// Whether all submitted requests have ended.
    fn is_idle(&mut self) -> Result<bool, DeviceError>;

    /// Number of event pairs, which limits the outstanding requests.
    fn slots(&self) -> usize;
}

/// Waits for requests. Used by both threads.
pub trait Reap: Send + Sync + 'static {
    /// Prepares the calling thread for driver calls.
    fn enter_thread(&self) -> Result<(), DeviceError>;

    fn wait(&self, slot: usize) -> Result<(), DeviceError>;

    /// Whether threads on the wall clock poll, so that they notice that they lost their core.
    fn polls(&self) -> bool {
        false
    }

    /// Whether the request of this pair has ended.
    fn is_done(&self, slot: usize) -> Result<bool, DeviceError> {
        self.wait(slot).map(|()| true)
    }

    /// Time between the two events of an ended request.
    fn gpu_ns(&self, slot: usize) -> Result<u64, DeviceError>;
}

#[derive(Debug, Clone)]
pub struct CellRun {
    pub t0_ns: u64,
    pub load: LoadSpec,
    /// Arrivals of the open loop, as ascending offsets from its start.
    pub arrivals_ns: Vec<u64>,
    /// Pauses of the sparse phase, in order.
    pub pauses_ns: Vec<u64>,
    /// Participant number of the issuing thread.
    pub issuer: u32,
    /// Participant number of the reaping thread.
    pub reaper: u32,
    /// The cores of the reaper, where the issuer is pinned to a core of its own.
    pub reaper_cores: Option<ReaperCores>,
    /// Driver error codes that answer a request.
    pub answers: &'static [i32],
}

/// How the run ended. The samples are in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub rows: u64,
    /// Requests for which the log had no room.
    pub unlogged: u64,
    /// Whether the limit of outstanding requests was reached, which ended the open loop.
    pub overloaded: bool,
    /// Requests that had not ended after the drain; the log marks them.
    pub unfinished: u64,
    /// Whether the issuer had the real-time class in the open loop.
    pub fifo: bool,
    /// Whether the reaper had it.
    pub reaper_fifo: bool,
    /// CPU time that the threads lost; `None` where they did not count it.
    pub cpu_gaps: Option<CpuGaps>,
    /// Whether work is still on the device, so that this process cannot measure any more.
    pub stuck: bool,
    /// The first error that ended the run early.
    pub failure: Option<DeviceError>,
}

/// Why a run could not start or finish.
#[derive(Debug, thiserror::Error)]
pub enum CellRunError {
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The second thread did not start.
    #[error("cannot start the reaping thread: {0}")]
    Thread(std::io::Error),
    #[error("the reaping thread panicked")]
    ReaperPanicked,
    /// The load does not fit the prepared events.
    #[error("{0}")]
    Load(&'static str),
}

/// Runs a cell on the calling thread and returns when it ends. The calling thread must not have
/// joined the clock; both threads join here and leave at the end of their work.
/// Fails when a clock operation fails, a thread does not start, or the load does not fit.
pub fn run_cell(
    time: &Arc<dyn Time>,
    run: &CellRun,
    submit: &mut dyn Submit,
    reap: &Arc<dyn Reap>,
    log: LogWriter,
) -> Result<Outcome, CellRunError> {
    check(run, submit.slots())?;
    let shared = Arc::new(Shared::new(log, submit.slots()));
    let reaping = reaper::start(time, run, reap, &shared)?;
    // The reaper now takes part in the clock, so it must be released even after an error.
    let played = issue(&**time, run, submit, &**reap, &shared);
    shared.close();
    if played.is_err() {
        // This could only return the reaper's own error; the first error counts.
        let _first_error_counts = time.unpark(run.reaper);
    }
    let issued = played?;
    if !issued.stuck {
        reaping.join().map_err(|_| CellRunError::ReaperPanicked)??;
    }
    Ok(shared.outcome(&issued))
}

/// Checks that the load fits the prepared events.
fn check(run: &CellRun, slots: usize) -> Result<(), CellRunError> {
    match run.load {
        LoadSpec::Victim { outstanding_max, depth, .. } => {
            let fits = |count: u32| (1..=slots).contains(&(count as usize));
            if !fits(outstanding_max) || !fits(depth) {
                return Err(CellRunError::Load(
                    "outstanding_max or depth is 0 or more than the event pairs",
                ));
            }
        }
        LoadSpec::Aggressor { depth, dose, period_ns, .. } => {
            if depth == 0 || depth as usize > slots {
                return Err(CellRunError::Load("depth is 0 or more than the event pairs"));
            }
            if !(0.0..=1.0).contains(&dose) {
                return Err(CellRunError::Load("dose is not between 0 and 1"));
            }
            if dose < 1.0 && period_ns == 0 {
                return Err(CellRunError::Load("a dose below 1 needs a period above 0"));
            }
        }
        LoadSpec::Idle { .. } => {}
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Issued {
    overloaded: bool,
    fifo: bool,
    stuck: bool,
    gaps: Option<CpuGaps>,
}

/// The issuing thread's side.
fn issue(
    time: &dyn Time,
    run: &CellRun,
    submit: &mut dyn Submit,
    reap: &dyn Reap,
    shared: &Shared,
) -> Result<Issued, CellRunError> {
    let participation = Participation::join(time, run.issuer)?;
    time.sleep_until(run.t0_ns)?;
    let mut issuer = Issuer::new(time, run, submit, reap, shared);
    let mut issued = Issued::default();
    match run.load {
        LoadSpec::Victim {
            warmup_end_ns,
            closed_end_ns,
            depth,
            sparse,
            open_start_ns,
            open_end_ns,
            rate_per_s,
            outstanding_max,
            ..
        } => {
            loops::run_closed(&mut issuer, [warmup_end_ns, closed_end_ns], depth as usize)?;
            if let Some(sparse) = sparse {
                loops::run_sparse(&mut issuer, closed_end_ns + sparse.length_ns)?;
            }
            issued.fifo = time.begin_schedule(rate_per_s);
            let open = loops::run_open(&mut issuer, open_start_ns, u64::from(outstanding_max));
            time.end_schedule();
            issued.overloaded = open?;
            shared.close();
            time.unpark(run.reaper)?;
            issued.stuck = loops::drain(&mut issuer, open_end_ns)?;
        }
        LoadSpec::Aggressor { start_ns, end_ns, dose, period_ns, depth } => {
            if start_ns > 0 {
                issuer.sleep_until(start_ns)?;
            }
            loops::run_aggressor(&mut issuer, end_ns, dose, period_ns, depth as usize)?;
        }
        LoadSpec::Idle { end_ns } => time.sleep_until(run.t0_ns.saturating_add(end_ns))?,
    }
    if !shared.closing.swap(true, Ordering::AcqRel) {
        time.unpark(run.reaper)?;
    }
    issued.gaps = issuer.counted_gaps();
    participation.leave()?;
    Ok(issued)
}

#[cfg(test)]
mod tests;
