//! The aggressor's load: a fixed number of requests outstanding while its duty cycle is on.
//!
//! A dose below 1 is a duty cycle: on for that fraction of every period. Requests outlast the end
//! of a window, so each window is shortened by the overrun of earlier ones, and the time with
//! outstanding work is as planned.

use std::collections::VecDeque;

use gpubench_record::{Phase, SampleRow};

use super::CellRunError;
use super::issuer::Issuer;

/// Runs to `end_ns` and then waits for the outstanding requests.
pub(super) fn run(
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
        let Some(oldest) = outstanding.pop_front() else {
            return could_ns;
        };
        could_ns = issuer.finish(oldest);
    }
}
