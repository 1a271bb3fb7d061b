//! The host link, and what goes over it.

use super::Error;
use super::events::WaitPolicy;
use super::library::catch_up;
use crate::device::Device;
use crate::shm::QueueView;
use gpubench_virtual_gpu_model::simulation::Queues;
use gpubench_virtual_gpu_model::state::{FRACTION_BITS, GpuInstance, NONE, State};

/// Window over which throughput is measured, during which the call blocks (nvml.h).
const WINDOW_NS: u64 = 20_000_000;

/// What a counter of throughput reads over the window, in KiB a second.
pub fn throughput(device: &Device, counter: u32) -> Result<u32, Error> {
    // NVML_PCIE_UTIL_TX_BYTES is what the device sends, so what the host receives.
    let direction = match counter {
        0 => 1,
        1 => 0,
        _ => return Err(Error::InvalidArgument),
    };
    let policy = WaitPolicy::of(device)?;
    let (from_ns, before) = moved(device, direction)?;
    policy.sleep_until(device, policy.now_ns(device) + WINDOW_NS)?;
    let (to_ns, after) = moved(device, direction)?;
    if to_ns == from_ns {
        // Beside a clock that stands, nothing can be measured.
        return Err(Error::NoData);
    }
    // An abandoned copy no longer counts its progress.
    let bytes = u128::from(after.saturating_sub(before));
    let per_s = bytes * 1_000_000_000 / u128::from(to_ns - from_ns);
    Ok(u32::try_from(per_s / 1024).unwrap_or(u32::MAX))
}

/// Time of the model's clock, and bytes moved by then in one direction: 0 to the device, 1 to the
/// host. A copy under way counts by its progress, as the link would see it.
pub(super) fn moved(device: &Device, direction: usize) -> Result<(u64, u64), Error> {
    catch_up(device)?;
    Ok(device.transact(|state, side| {
        let instances = state.instances.live().iter();
        let bytes = instances.map(|instance| moved_by(state, side, instance)[direction]);
        (state.now_ns, bytes.sum())
    })?)
}

/// Bytes that the engines of one part of the device have moved in each direction.
pub(super) fn moved_by(state: &State, side: &QueueView<'_>, instance: &GpuInstance) -> [u64; 2] {
    instance.copies.map(|engine| {
        if engine.stream == NONE {
            return engine.bytes;
        }
        let stream = &state.streams.rows[engine.stream as usize];
        let op = side.op(engine.stream as usize, stream.completed);
        engine.bytes + progress(op.bytes, op.alone_ns, stream.work_left)
    })
}

/// Bytes of a copy that have been moved, from the work left in fixed-point nanoseconds.
fn progress(bytes: u64, alone_ns: u64, work_left: u64) -> u64 {
    let whole = u128::from(alone_ns.max(1)) << FRACTION_BITS;
    let done = whole.saturating_sub(u128::from(work_left));
    (u128::from(bytes) * done / whole) as u64
}

#[cfg(test)]
mod tests {
    use super::progress;
    use gpubench_virtual_gpu_model::state::ONE;

    #[test]
    fn a_copy_counts_by_what_is_left_of_it() {
        let left = |ns: u64| progress(1_000_000, 1000, ns * ONE);
        assert_eq!((left(1000), left(750), left(0)), (0, 250_000, 1_000_000));
        assert_eq!(left(2000), 0, "noise may make it longer than alone");
    }
}
