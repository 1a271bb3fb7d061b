//! The load generator: offers requests to a device and stamps each of them.
//!
//! One thread issues. In the open loop it never waits for a completion: a second thread, the
//! reaper, does, and writes the rows. Every wait goes through [`Time`], so that the same code runs
//! on the wall clock, in virtual time, and against the fake device of the tests. The lock that the
//! two share is held for a few memory writes and never across a call of the clock or the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpubench_record::{Bursts, LoadSpec};

use crate::clock::thread::Cores;
use crate::clock::{ClockError, Participation, Time};
use crate::log::LogWriter;

mod aggressor;
mod closed;
#[cfg(test)]
mod fake;
mod issuer;
mod open;
mod reaper;
mod ring;
mod shared;

use issuer::Issuer;
use shared::Shared;

/// How long after the end of the open loop its last requests are waited for.
pub const DRAIN_NS_MAX: u64 = 2_000_000_000;

/// How long after that the device may take to become idle before the tenant is given up.
pub const SETTLE_NS_MAX: u64 = 10_000_000_000;

/// How often the end of the drain is looked for.
const POLL_NS: u64 = 1_000_000;

/// Requests that may fail one after the other before the cell is given up, unless the failures are
/// [`Part::answers`].
pub const ERRORS_IN_A_ROW_MAX: u32 = 16;

/// How arrivals bunch, as schedules are made of it.
#[must_use]
pub const fn shape(bursts: Bursts) -> gpubench_stats::Bursts {
    gpubench_stats::Bursts {
        requests: bursts.requests,
        peak: bursts.peak,
    }
}

/// The driver refused or reported an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DeviceError {
    /// What went wrong, in one line.
    pub what: String,
    /// The driver's number, where it was the driver.
    pub code: Option<i32>,
    /// Whether every later call is expected to fail too.
    pub sticky: bool,
}

/// Submits requests. Belongs to the issuing thread.
pub trait Submit {
    /// Submits one request, with an event before and one after it in pair `slot`.
    ///
    /// # Errors
    /// When the driver refuses.
    fn submit(&mut self, slot: usize) -> Result<(), DeviceError>;

    /// Whether everything submitted has ended.
    ///
    /// # Errors
    /// When the driver reports that it ended badly.
    fn is_idle(&mut self) -> Result<bool, DeviceError>;

    /// Pairs of events, and so requests that can be outstanding.
    fn slots(&self) -> usize;
}

/// Waits for requests. Used by both threads.
pub trait Reap: Send + Sync + 'static {
    /// Readies the calling thread for driver calls.
    ///
    /// # Errors
    /// When the driver refuses.
    fn enter_thread(&self) -> Result<(), DeviceError>;

    /// Returns when the request of this pair has ended.
    ///
    /// # Errors
    /// When it ended badly.
    fn wait(&self, slot: usize) -> Result<(), DeviceError>;

    /// Time between the two events of a request that has ended.
    ///
    /// # Errors
    /// When the driver refuses.
    fn gpu_ns(&self, slot: usize) -> Result<u64, DeviceError>;
}

/// What one tenant does in one cell.
#[derive(Debug, Clone)]
pub struct Part {
    /// The common start.
    pub t0_ns: u64,
    /// How requests are offered.
    pub load: LoadSpec,
    /// Arrivals of the open loop, as offsets from its start, rising.
    pub arrivals_ns: Vec<u64>,
    /// Participant number of the issuing thread.
    pub issuer: u32,
    /// Participant number of the reaping thread.
    pub reaper: u32,
    /// The cores for the reaper, where the issuer is pinned to one that it needs for itself. The
    /// reaper is a child of the issuer's thread, and would begin, and stay, on that one.
    pub reaper_cores: Option<Cores>,
    /// Numbers of the driver's refusals that answer a request.
    pub answers: &'static [i32],
}

/// How the part of one tenant ended. What was measured stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Rows in the log.
    pub rows: u64,
    /// Requests for which the log had no room.
    pub unlogged: u64,
    /// Whether the limit of outstanding requests was reached, which ended the open loop.
    pub overloaded: bool,
    /// Requests that had not ended when the drain was over; they stand in the log as such.
    pub unfinished: u64,
    /// Whether the issuer had the real-time class in the open loop.
    pub fifo: bool,
    /// Whether work is still on the device, so that this process can measure nothing more.
    pub stuck: bool,
    /// The first error that ended the part before its time.
    pub failure: Option<DeviceError>,
}

/// Why a part could not be played at all.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The clock refused.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// No second thread.
    #[error("cannot start the reaping thread: {0}")]
    Thread(std::io::Error),
    /// The second thread panicked.
    #[error("the reaping thread panicked")]
    ReaperPanicked,
    /// The load cannot be offered with what was prepared.
    #[error("{0}")]
    Load(&'static str),
}

/// Plays one part on the calling thread and returns when it is over. The calling thread must not
/// have joined the clock; both threads join here and leave at the end of their work.
///
/// # Errors
/// When the clock refuses, a thread cannot be had, or the load fits neither pool nor period.
pub fn play(
    time: &Arc<dyn Time>,
    part: &Part,
    submit: &mut dyn Submit,
    reap: &Arc<dyn Reap>,
    log: LogWriter,
) -> Result<Outcome, PartError> {
    check(part, submit.slots())?;
    let shared = Arc::new(Shared::new(log, submit.slots()));
    let reaping = reaper::start(time, part, reap, &shared)?;
    // From here on the reaper takes part in the clock: whatever happens, it must be let go.
    let played = issue(&**time, part, submit, &**reap, &shared);
    shared.close();
    if played.is_err() {
        // Only the reaper's own error, if any, would come back; the first one counts.
        let _first_error_counts = time.unpark(part.reaper);
    }
    let (overloaded, fifo, stuck) = played?;
    if !stuck {
        reaping.join().map_err(|_| PartError::ReaperPanicked)??;
    }
    Ok(shared.outcome(overloaded, fifo, stuck))
}

/// What the load asks for must fit what was prepared.
fn check(part: &Part, slots: usize) -> Result<(), PartError> {
    match part.load {
        LoadSpec::Victim {
            outstanding_max, ..
        } => {
            if outstanding_max == 0 || outstanding_max as usize > slots {
                return Err(PartError::Load(
                    "outstanding_max is 0 or more than the event pairs",
                ));
            }
        }
        LoadSpec::Aggressor {
            depth,
            dose,
            period_ns,
            ..
        } => {
            if depth == 0 || depth as usize > slots {
                return Err(PartError::Load("depth is 0 or more than the event pairs"));
            }
            if !(0.0..=1.0).contains(&dose) {
                return Err(PartError::Load("dose is not between 0 and 1"));
            }
            if dose < 1.0 && period_ns == 0 {
                return Err(PartError::Load("a dose below 1 needs a period above 0"));
            }
        }
        LoadSpec::Idle { .. } => {}
    }
    Ok(())
}

/// The issuing thread's side: overloaded, real-time, stuck.
fn issue(
    time: &dyn Time,
    part: &Part,
    submit: &mut dyn Submit,
    reap: &dyn Reap,
    shared: &Shared,
) -> Result<(bool, bool, bool), PartError> {
    let participation = Participation::join(time, part.issuer)?;
    time.sleep_until(part.t0_ns)?;
    let mut issuer = Issuer::new(time, part, submit, reap, shared);
    let (mut overloaded, mut fifo, mut stuck) = (false, false, false);
    match part.load {
        LoadSpec::Victim {
            warmup_end_ns,
            closed_end_ns,
            open_start_ns,
            open_end_ns,
            rate_per_s,
            outstanding_max,
            ..
        } => {
            closed::run(&mut issuer, warmup_end_ns, closed_end_ns)?;
            fifo = time.begin_schedule(rate_per_s);
            let open = open::run(&mut issuer, open_start_ns, u64::from(outstanding_max));
            time.end_schedule();
            overloaded = open?;
            shared.close();
            time.unpark(part.reaper)?;
            stuck = open::drain(&mut issuer, open_end_ns)?;
        }
        LoadSpec::Aggressor {
            end_ns,
            dose,
            period_ns,
            depth,
        } => {
            aggressor::run(&mut issuer, end_ns, dose, period_ns, depth as usize)?;
        }
        LoadSpec::Idle { end_ns } => time.sleep_until(part.t0_ns.saturating_add(end_ns))?,
    }
    if !shared.closing.swap(true, Ordering::AcqRel) {
        time.unpark(part.reaper)?;
    }
    participation.leave()?;
    Ok((overloaded, fifo, stuck))
}

#[cfg(test)]
mod tests;
