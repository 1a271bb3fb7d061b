//! The three loops of the load generator: closed, open, and an aggressor's.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use gpubench_record::{LoadSpec, Phase, SampleRow};

use super::issuer::Issuer;
use super::{CellRunError, DRAIN_NS_MAX, POLL_NS, SETTLE_NS_MAX};

// The closed loop: `depth` requests outstanding, the next as soon as the oldest has ended.
//
// A driver error that answers a request may return much sooner than the log has room for. The next
// request then waits for one mean gap of the open loop.

/// Runs from now to `closed_end_ns`, and waits for the last; requests issued before `warmup_end_ns`
/// are warm-up.
pub(super) fn run_closed(
    issuer: &mut Issuer<'_>,
    [warmup_end_ns, closed_end_ns]: [u64; 2],
    depth: usize,
) -> Result<(), CellRunError> {
    let mut outstanding = VecDeque::with_capacity(depth);
    let mut could_ns = issuer.now_ns();
    loop {
        while outstanding.len() < depth && could_ns < closed_end_ns && !issuer.shared.is_stopped() {
            let phase = if could_ns < warmup_end_ns { Phase::Warmup } else { Phase::Closed };
            outstanding.push_back(issuer.issue(could_ns, phase, true));
        }
        let Some(oldest) = outstanding.pop_front() else {
            return Ok(());
        };
        let answered = issuer.is_answer(&oldest);
        could_ns = issuer.finish(oldest);
        if answered {
            could_ns = could_ns.saturating_add(gap_ns(&issuer.run.load));
            issuer.sleep_until(could_ns.min(closed_end_ns))?;
        }
    }
}

// The sparse phase: one request at a time, after a random pause each.

/// Runs from now to `end_ns`. A request that is under way then still ends.
pub(super) fn run_sparse(issuer: &mut Issuer<'_>, end_ns: u64) -> Result<(), CellRunError> {
    let run = issuer.run;
    issuer.enter(Phase::Sparse);
    let mut free_ns = issuer.now_ns();
    for pause_ns in &run.pauses_ns {
        let due_ns = free_ns.saturating_add(*pause_ns);
        if due_ns >= end_ns {
            break;
        }
        issuer.sleep_until(due_ns)?;
        if issuer.shared.is_stopped() {
            return Ok(());
        }
        let row = issuer.issue(due_ns, Phase::Sparse, true);
        free_ns = issuer.finish(row);
    }
    Ok(())
}

/// Mean time between two arrivals of the open loop.
fn gap_ns(load: &LoadSpec) -> u64 {
    match load {
        // The cast saturates a float that is too large and maps NaN to 0.
        LoadSpec::Victim { rate_per_s, .. } => (1e9 / rate_per_s) as u64,
        LoadSpec::Aggressor { .. } | LoadSpec::Idle { .. } => 0,
    }
}

// The open loop: requests start at their scheduled times, whether or not earlier ones have ended.

/// Issues every arrival; true if too many were outstanding, which ends the loop.
///
/// A request that comes due while the issuer is inside a driver call, or still catching up after
/// one, is late because of the system under test. One that comes due while the issuer sleeps or
/// oversleeps is late because of the harness.
pub(super) fn run_open(
    issuer: &mut Issuer<'_>,
    open_start_ns: u64,
    outstanding_max: u64,
) -> Result<bool, CellRunError> {
    let run = issuer.run;
    let before = issuer.issued();
    issuer.enter(Phase::Open);
    // Since when the issuer is awake, and when its last call returned. The preceding closed loop is
    // work of the system under test too.
    let (mut awake_since_ns, mut returned_ns) = (0, issuer.now_ns());
    for arrival_ns in &run.arrivals_ns {
        let due_ns = open_start_ns.saturating_add(*arrival_ns);
        let sleeps = returned_ns <= due_ns;
        let idle = sleeps || due_ns < awake_since_ns;
        if sleeps {
            issuer.sleep_until(due_ns)?;
        }
        if issuer.shared.is_stopped() {
            return Ok(false);
        }
        let outstanding = issuer.issued() - before - issuer.shared.reaped.load(Ordering::Acquire);
        if outstanding >= outstanding_max {
            return Ok(true);
        }
        let row = issuer.issue(due_ns, Phase::Open, idle);
        if sleeps {
            awake_since_ns = row.t_issue_ns;
        }
        returned_ns = row.t_ret_ns;
        if issuer.shared.queue.try_send(row).is_err() {
            // The queue has an entry for every event pair, and fewer requests were outstanding.
            return Err(CellRunError::Load("more requests in flight than event pairs"));
        }
        issuer.time.unpark(run.reaper)?;
    }
    Ok(false)
}

/// Waits for outstanding requests up to the limit, and writes off the rest. True if the device
/// still works at the end of the limit.
pub(super) fn drain(issuer: &mut Issuer<'_>, open_end_ns: u64) -> Result<bool, CellRunError> {
    let shared = issuer.shared;
    issuer.enter(Phase::Drain);
    let drained_ns = open_end_ns.max(issuer.now_ns()).saturating_add(DRAIN_NS_MAX);
    let is_done = |_: &mut Issuer<'_>| shared.reaper_done.load(Ordering::Acquire);
    let drained = poll(issuer, drained_ns, is_done)?;
    // A reaper that ended early leaves requests behind, too.
    shared.abandon();
    if drained {
        return Ok(false);
    }
    let settled_ns = issuer.now_ns().saturating_add(SETTLE_NS_MAX);
    let settled = poll(issuer, settled_ns, |issuer| {
        // A device that reports an error runs nothing more for this process.
        shared.reaper_done.load(Ordering::Acquire) && issuer.submit.is_idle().unwrap_or(true)
    })?;
    Ok(!settled)
}

/// Polls `holds` until it is true or the instant passes; returns whether it was true.
fn poll(
    issuer: &mut Issuer<'_>,
    until_ns: u64,
    mut is_so: impl FnMut(&mut Issuer<'_>) -> bool,
) -> Result<bool, CellRunError> {
    loop {
        if is_so(issuer) {
            return Ok(true);
        }
        let now_ns = issuer.now_ns();
        if now_ns >= until_ns {
            return Ok(false);
        }
        issuer.sleep_until(until_ns.min(now_ns.saturating_add(POLL_NS)))?;
    }
}

// The aggressor's load: a fixed number of requests outstanding while its duty cycle is on.
//
// A dose below 1 is a duty cycle: on for that fraction of every period. Requests outlast the end
// of a window, so each window is shortened by the overrun of earlier ones, and the time with
// outstanding work is as planned.

/// Runs to `end_ns` and then waits for the outstanding requests.
pub(super) fn run_aggressor(
    issuer: &mut Issuer<'_>,
    end_ns: u64,
    dose: f64,
    period_ns: u64,
    depth: usize,
) -> Result<(), CellRunError> {
    let mut outstanding = VecDeque::with_capacity(depth);
    if dose >= 1.0 {
        window(issuer, &mut outstanding, end_ns, depth);
        return Ok(());
    }
    // Dose and period were checked; the product is below the period.
    let on_ns = (period_ns as f64 * dose) as u64;
    let mut overrun_ns = 0u64;
    let mut start_ns = 0u64;
    while start_ns < end_ns && !issuer.shared.is_stopped() {
        issuer.sleep_until(start_ns)?;
        let planned_ns = on_ns.saturating_sub(overrun_ns);
        overrun_ns = overrun_ns.saturating_sub(on_ns);
        if planned_ns > 0 {
            let begun_ns = issuer.now_ns();
            let stop_ns = begun_ns.saturating_add(planned_ns).min(end_ns);
            let ended_ns = window(issuer, &mut outstanding, stop_ns, depth);
            overrun_ns += ended_ns.saturating_sub(begun_ns).saturating_sub(planned_ns);
        }
        start_ns = start_ns.saturating_add(period_ns);
    }
    issuer.sleep_until(end_ns)?;
    Ok(())
}

/// Keeps `depth` requests outstanding until `stop_ns`, then waits for all; returns when they ended.
fn window(
    issuer: &mut Issuer<'_>,
    outstanding: &mut VecDeque<SampleRow>,
    stop_ns: u64,
    depth: usize,
) -> u64 {
    let mut could_ns = issuer.now_ns();
    loop {
        while outstanding.len() < depth && could_ns < stop_ns && !issuer.shared.is_stopped() {
            outstanding.push_back(issuer.issue(could_ns, Phase::Closed, true));
        }
        let Some(oldest) = outstanding.pop_front() else { return could_ns };
        could_ns = issuer.finish(oldest);
    }
}
