//! Allocates all device memory and holds it for a while. Without a memory limit the first tenant to
//! allocate gets all of it.

use gpubench_kernels::driver::{DeviceBuffer, codes};

use super::{Answer, Armed, Class, FAULT, Fault, InjectError, Moment, Severity};
use crate::load::Gpu;

/// The first piece is this fraction of the memory; after a refusal the size is halved.
const PIECES: u64 = 16;
/// Smallest piece: a tenant cannot use less memory.
const LEAST_BYTES: u64 = 64 << 10;
/// Maximum number of pieces, so that it ends on any device.
const HELD_MAX: usize = 4096;

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[OOM];

/// OUT_OF_MEMORY (cuda.h).
const OOM: Fault = Fault {
    name: "oom",
    severity: Severity::Greedy,
    resource: "device memory",
    class: Class::Starvation,
    summary: "allocates all the device memory that it can get and holds it for a while",
    answer: Answer::Codes(&[codes::OUT_OF_MEMORY]),
    victim: "alloc",
    arm: |gpu, _| {
        Ok(Box::new(Hoard {
            first_bytes: gpu.props.total_bytes / PIECES,
        }))
    },
    ..FAULT
};

struct Hoard {
    first_bytes: u64,
}

impl Armed for Hoard {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        let mut held: Vec<DeviceBuffer<u32>> = Vec::new();
        let mut bytes = self.first_bytes.max(LEAST_BYTES);
        let mut refused = None;
        while bytes >= LEAST_BYTES && held.len() < HELD_MAX {
            match DeviceBuffer::alloc(&gpu.context, (bytes / 4) as usize) {
                Ok(piece) => held.push(piece),
                Err(error) if error.code() == Some(codes::OUT_OF_MEMORY) => {
                    moment.answered();
                    refused.get_or_insert(error);
                    bytes /= 2;
                }
                Err(error) => return Err(error.into()),
            }
        }
        moment.time.sleep_until(moment.until_ns)?;
        held.into_iter().try_for_each(DeviceBuffer::free)?;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }
}
