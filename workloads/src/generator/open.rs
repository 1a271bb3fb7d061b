//! The open loop: requests start at their scheduled times, whether or not earlier ones have ended.

use std::sync::atomic::Ordering;

use gpubench_record::Phase;

use super::issuer::Issuer;
use super::{CellRunError, DRAIN_NS_MAX, POLL_NS, SETTLE_NS_MAX};

/// Issues every arrival; true if too many were outstanding, which ends the loop.
///
/// A request that comes due while the issuer is inside a driver call, or still catching up after
/// one, is late because of the system under test. One that comes due while the issuer sleeps or
/// oversleeps is late because of the harness.
pub(super) fn run(
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
        if !issuer.shared.ring.push(&row) {
            // The ring has an entry for every event pair, and fewer requests were outstanding.
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
