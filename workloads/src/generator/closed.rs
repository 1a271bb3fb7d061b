//! The closed loop: one request at a time, the next as soon as the last has ended.

use gpubench_record::Phase;

use super::PartError;
use super::issuer::Issuer;

/// Runs from now to `closed_end_ns`; what is issued before `warmup_end_ns` is warm-up.
pub(super) fn run(
    issuer: &mut Issuer<'_>,
    warmup_end_ns: u64,
    closed_end_ns: u64,
) -> Result<(), PartError> {
    let mut could_ns = issuer.now_ns();
    while could_ns < closed_end_ns && !issuer.shared.is_stopped() {
        let phase = if could_ns < warmup_end_ns {
            Phase::Warmup
        } else {
            Phase::Closed
        };
        let row = issuer.issue(could_ns, phase, true);
        could_ns = issuer.finish(row);
    }
    Ok(())
}
