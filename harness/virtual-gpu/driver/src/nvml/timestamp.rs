//! Stamps of samples, in microseconds.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::device::Device;

/// Microseconds as NVML stamps its samples: since 1970 in wall time, on the clock the model's own.
pub(super) fn stamp_us(device: &Device, at_ns: u64) -> u64 {
    if device.is_virtual_time() {
        return at_ns / 1000;
    }
    (unix_origin_ns(device) + at_ns) / 1000
}

/// The last instant of the model's clock that has that stamp.
pub(super) fn instant_ns(device: &Device, stamp_us: u64) -> u64 {
    let last_ns = stamp_us.saturating_mul(1000).saturating_add(999);
    if device.is_virtual_time() {
        return last_ns;
    }
    last_ns.saturating_sub(unix_origin_ns(device))
}

/// Unix time at which the device's wall time began. Computed once, so that a stamp means the same
/// instant in every call, also after the host's clock was set.
#[expect(clippy::disallowed_methods, reason = "NVML stamps process samples with Unix time")]
fn unix_origin_ns(device: &Device) -> u64 {
    static ORIGIN_NS: OnceLock<u64> = OnceLock::new();
    *ORIGIN_NS.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        // A host clock before 1970 is answered with stamps that count from the device's start.
        let now_ns = since_1970.map_or(0, |time| time.as_nanos() as u64);
        now_ns.saturating_sub(device.session().wall_now_ns())
    })
}
