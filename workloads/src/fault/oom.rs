//! Allocates all device memory and holds it for a while. Without a memory limit the first tenant to
//! allocate gets all of it.

use gpubench_catalogue::fault::entries;
use gpubench_kernels::driver::{DeviceBuffer, error};

use super::{Armed, INJECTOR, InjectError, Injector, Moment};
use crate::load::Gpu;

/// The first piece is this fraction of the memory; after a refusal the size is halved, after a
/// success doubled up to it.
const PIECES: u64 = 16;
/// Smallest piece: a tenant cannot use less memory.
const LEAST_BYTES: u64 = 64 << 10;
/// Mean time between two attempts to take more. It varies between half of it and one and a half:
/// equal intervals can keep step with a tenant that frees and takes at a fixed rate.
const PAUSE_NS: u64 = 1_000_000;
/// Steps of the golden ratio cover the range evenly, however many there are.
const STEP_NS: u64 = 618_034;
/// Maximum number of pieces, so that it ends on any device.
const HELD_MAX: usize = 4096;

pub(super) const FAULTS: &[Injector] = &[OOM];

const OOM: Injector = Injector {
    facts: &entries::OOM,
    arm: |gpu, _| {
        gpu.props.has_own_memory()?;
        Ok(Box::new(Hoard { first_bytes: (gpu.props.total_bytes / PIECES).max(LEAST_BYTES) }))
    },
    ..INJECTOR
};

struct Hoard {
    first_bytes: u64,
}

impl Armed for Hoard {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        let mut held: Vec<DeviceBuffer<u32>> = Vec::new();
        let mut refused = None;
        let (mut bytes, mut pauses) = (self.first_bytes, 0);
        loop {
            match DeviceBuffer::alloc(&gpu.context, (bytes / 4) as usize) {
                Ok(piece) => {
                    held.push(piece);
                    bytes = (2 * bytes).min(self.first_bytes);
                }
                Err(error) if error.code() == Some(error::OUT_OF_MEMORY) => {
                    moment.answered();
                    refused.get_or_insert(error);
                    bytes /= 2;
                }
                Err(error) => return Err(error.into()),
            }
            if bytes < LEAST_BYTES || held.len() >= HELD_MAX {
                // What others free meanwhile it takes too, beginning with the least.
                bytes = LEAST_BYTES;
                pauses += 1;
                let pause_ns = PAUSE_NS / 2 + pauses * STEP_NS % PAUSE_NS;
                let next_ns = moment.time.now_ns() + pause_ns;
                if next_ns >= moment.until_ns || held.len() >= HELD_MAX {
                    break;
                }
                moment.time.sleep_until(next_ns)?;
            }
        }
        moment.time.sleep_until(moment.until_ns)?;
        held.into_iter().try_for_each(DeviceBuffer::free)?;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }
}
