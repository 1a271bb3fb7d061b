//! The closed loop: one request at a time, the next as soon as the last has ended.
//!
//! A driver error that answers a request may return much sooner than the log has room for. The next
//! request then waits for one mean gap of the open loop.

use gpubench_record::{LoadSpec, Phase};

use super::CellRunError;
use super::issuer::Issuer;

/// Runs from now to `closed_end_ns`; requests issued before `warmup_end_ns` are warm-up.
pub(super) fn run(
    issuer: &mut Issuer<'_>,
    warmup_end_ns: u64,
    closed_end_ns: u64,
) -> Result<(), CellRunError> {
    let mut could_ns = issuer.now_ns();
    while could_ns < closed_end_ns && !issuer.shared.is_stopped() {
        let phase = if could_ns < warmup_end_ns { Phase::Warmup } else { Phase::Closed };
        let row = issuer.issue(could_ns, phase, true);
        let answered = issuer.is_answer(&row);
        could_ns = issuer.finish(row);
        if answered {
            could_ns = could_ns.saturating_add(gap_ns(&issuer.run.load));
            issuer.sleep_until(could_ns.min(closed_end_ns))?;
        }
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
