//! Copies from page-locked host memory to the device.

use gpubench_kernels::driver::{DeviceBuffer, DriverError, PinnedBuffer};
use gpubench_record::WorkloadSpec;

use super::params::spec;
use super::{Gpu, Knob, LoadError, Params, Prepared};

/// Most page-locked memory of one tenant; longer requests copy it more than once. It belongs to
/// the host, which has many tenants and cannot swap it.
const PINNED_BYTES_MAX: u64 = 64 << 20;

/// Whole pages.
const GRANULE_BYTES: u64 = 4096;

/// The length of a request in bytes copied.
pub(super) const COPY_KNOB: Knob = Knob {
    param: "bytes",
    granule: GRANULE_BYTES,
    max: 1 << 40,
};

/// Counter of the host link.
pub(super) const COUNTER: &str =
    "pcie__read_bytes.sum; DCGM_FI_PROF_PCIE_RX_BYTES; nvmlDeviceGetPcieThroughput";

/// Parameters before calibration.
pub(super) fn copy_spec(name: &str) -> WorkloadSpec {
    // A first guess of a few dozen microseconds on any link; calibration takes it from there.
    spec(name, [("bytes", 256 << 10)])
}

/// One or more copies a request.
#[derive(Debug)]
pub(super) struct PinnedCopy {
    src: PinnedBuffer<u64>,
    dst: DeviceBuffer<u64>,
    copies: u64,
}

impl PinnedCopy {
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let bytes = Params::of(spec).size("bytes")?;
        let copies = bytes.div_ceil(PINNED_BYTES_MAX);
        // At most PINNED_BYTES_MAX.
        let len = (bytes / copies).div_ceil(8) as usize;
        let src = PinnedBuffer::alloc(&gpu.context, len)?;
        let dst = DeviceBuffer::alloc(&gpu.context, len)?;
        Ok(Self { src, dst, copies })
    }
}

impl Prepared for PinnedCopy {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.copies {
            self.dst
                .write_async(0, &self.src, 0, self.src.len(), &gpu.stream)?;
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        (self.dst.bytes() * self.copies) as f64
    }
}

/// What arrives is what was sent, to the last word.
pub(super) fn verify_copy(workload: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let mut copy = PinnedCopy::new(gpu, &spec(workload, [("bytes", 64 << 10)]))?;
    let sent: Vec<u64> = (0u64..)
        .take(copy.src.len())
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    copy.src.write(0, &sent)?;
    copy.dst.fill_bytes(0xff)?;
    copy.step(gpu)?;
    gpu.stream.synchronize()?;
    let found = copy.dst.to_vec()?;
    match sent
        .iter()
        .zip(&found)
        .position(|(sent, found)| sent != found)
    {
        None if sent.len() == found.len() => Ok(()),
        at => Err(LoadError::Wrong {
            workload,
            what: format!("words differ from {at:?} on"),
        }),
    }
}
