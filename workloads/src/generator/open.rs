//! The open loop: requests come when the schedule says so, whatever became of the earlier ones.

use std::sync::atomic::Ordering;

use gpubench_record::Phase;

use super::issuer::Issuer;
use super::{DRAIN_NS_MAX, POLL_NS, PartError, SETTLE_NS_MAX};

/// Issues every arrival; true if more were outstanding than allowed, which ends the loop.
///
/// A request that comes due while the issuer is inside a driver call, or still catching up after
/// one, is late through the system under test. One that comes due while the issuer sleeps is late
/// through the harness, and so are those that come due while it oversleeps.
pub(super) fn run(
    issuer: &mut Issuer<'_>,
    open_start_ns: u64,
    outstanding_max: u64,
) -> Result<bool, PartError> {
    let part = issuer.part;
    let before = issuer.issued();
    // Since when the issuer has not slept, and when its last call returned. It comes from the
    // closed loop, which is the system's doing, too.
    let (mut awake_since_ns, mut returned_ns) = (0, issuer.now_ns());
    for arrival_ns in &part.arrivals_ns {
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
            // The ring has a place for every event pair, and fewer requests were outstanding.
            return Err(PartError::Load("more requests in flight than event pairs"));
        }
        issuer.time.unpark(part.reaper)?;
    }
    Ok(false)
}

/// Waits, no longer than allowed, for what is still outstanding, and writes off the rest. True if
/// the device is still at work at the very end.
pub(super) fn drain(issuer: &mut Issuer<'_>, open_end_ns: u64) -> Result<bool, PartError> {
    let shared = issuer.shared;
    let drained_ns = open_end_ns
        .max(issuer.now_ns())
        .saturating_add(DRAIN_NS_MAX);
    let is_done = |_: &mut Issuer<'_>| shared.reaper_done.load(Ordering::Acquire);
    let drained = poll(issuer, drained_ns, is_done)?;
    // A reaper that ended before its time has left some behind, too.
    shared.abandon();
    if drained {
        return Ok(false);
    }
    let settled_ns = issuer.now_ns().saturating_add(SETTLE_NS_MAX);
    let settled = poll(issuer, settled_ns, |issuer| {
        // A device that reports an error has nothing left to run for this process.
        shared.reaper_done.load(Ordering::Acquire) && issuer.submit.is_idle().unwrap_or(true)
    })?;
    Ok(!settled)
}

/// Asks now and then until it is so or the instant has come; whether it is so.
fn poll(
    issuer: &mut Issuer<'_>,
    until_ns: u64,
    mut is_so: impl FnMut(&mut Issuer<'_>) -> bool,
) -> Result<bool, PartError> {
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
