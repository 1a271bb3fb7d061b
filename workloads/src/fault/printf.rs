//! Prints more from the device than the printf buffer holds.

use gpubench_catalogue::fault::entries;
use gpubench_kernels::driver::{DeviceBuffer, Limit};
use gpubench_kernels::kernel::faults::FaultPrintf;
use gpubench_kernels::{Kernel, Launcher};

use super::{Armed, INJECTOR, InjectError, Injector, Moment};
use crate::load::{Gpu, LoadError};

/// Size of the buffer, small so that it overflows at once.
const RING_BYTES: u32 = 64 << 10;

/// The entries of the catalogue.
pub(super) const FAULTS: &[Injector] = &[PRINTF_FLOOD];

const PRINTF_FLOOD: Injector = Injector {
    facts: &entries::PRINTF_FLOOD,
    arm: |gpu, _| Ok(Box::new(Flood::new(gpu)?)),
    ..INJECTOR
};

struct Flood {
    launch: FaultPrintf,
    _done: DeviceBuffer<u32>,
}

impl Flood {
    fn new(gpu: &Gpu) -> Result<Self, LoadError> {
        gpu.context.set_limit_bytes(Limit::PrintfBytes, RING_BYTES as usize)?;
        let ring_bytes = gpu.context.limit_bytes(Limit::PrintfBytes)?;
        let ring_bytes = u32::try_from(ring_bytes).unwrap_or(RING_BYTES);
        gpu.kernels.prepare(&[Kernel::FaultPrintf])?;
        let done = DeviceBuffer::from_slice(&gpu.context, &[0_u32])?;
        Ok(Self { launch: FaultPrintf::armed(ring_bytes, done.device_ptr()), _done: done })
    }
}

impl Armed for Flood {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}
