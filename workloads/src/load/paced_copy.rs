//! Copies of victims, one way over the host link, at a pace that keeps to the victim's share.
//!
//! While a copy runs it takes the whole link its way, so a request is cut into parts, and each
//! part lasts as long as it would at the rate that calibration allows (`rate_per_s`, 0 for none):
//! beside the copy a single warp watches the clock on a second stream, and the next part waits for
//! both. A neighbour that takes no more than leaves the victim its share therefore takes nothing
//! from it.

use gpubench_kernels::driver::{
    DeviceBuffer, DeviceProps, DevicePtr, DriverError, Event, EventKind, Grid, PinnedBuffer, Stream,
};
use gpubench_kernels::kernel::spin::Spin;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::params::{SIZE_MAX, spec};
use super::pinned_copy::{PINNED_BYTES_MAX, Way, Ways, verify_ways};
use super::{Gpu, LoadError, Params, Prepared};

/// Parts of a request. Few, so that a part is long against a launch; more than one, so that a
/// neighbour's copy that holds the link up is made good within the request.
const PARTS: u64 = 4;

/// Parameters before calibration.
pub(super) fn unpaced(
    name: &'static str,
    _: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    // A first guess of a few dozen microseconds on any link; calibration takes it from there.
    let params = [("bytes", 256 << 10), ("parts", PARTS), ("rate_per_s", 0)];
    Ok(spec(name, params))
}

/// Copies with a pace.
#[derive(Debug)]
pub(super) struct Paced {
    way: Way,
    host: PinnedBuffer<u64>,
    device: DeviceBuffer<u64>,
    parts: u64,
    pace: Option<Pace>,
}

/// Holds a part to its length.
#[derive(Debug)]
struct Pace {
    stream: Stream,
    from: Event,
    to: Event,
    watch: Spin,
}

impl Paced {
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec, way: Way) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let bytes = params.size("bytes")?;
        let rate_per_s = params.get("rate_per_s", 0..=SIZE_MAX)?;
        // More parts than asked for where one would lock too much of the host's memory.
        let parts = params
            .get("parts", 1..=1 << 20)?
            .max(bytes.div_ceil(PINNED_BYTES_MAX));
        // At most PINNED_BYTES_MAX.
        let len = (bytes / parts).div_ceil(8).max(1) as usize;
        let host = PinnedBuffer::alloc(&gpu.context, len)?;
        let device = DeviceBuffer::<u64>::alloc(&gpu.context, len)?;
        if way == Way::ToHost {
            device.fill_bytes(0)?;
        }
        let part_ns = |rate: u64| device.bytes() as f64 * 1e9 / rate as f64;
        let pace = (rate_per_s > 0)
            // The cast saturates; a part of centuries is refused by no one and waited for by none.
            .then(|| Pace::new(gpu, part_ns(rate_per_s) as u64))
            .transpose()?;
        Ok(Self {
            way,
            host,
            device,
            parts,
            pace,
        })
    }
}

impl Pace {
    fn new(gpu: &Gpu, part_ns: u64) -> Result<Self, DriverError> {
        gpu.kernels.prepare(&[Kernel::Spin])?;
        Ok(Self {
            stream: Stream::new(&gpu.context)?,
            from: Event::new(&gpu.context, EventKind::Mark)?,
            to: Event::new(&gpu.context, EventKind::Mark)?,
            watch: Spin {
                duration_ns: part_ns,
                budget_ns: part_ns,
                stamps: DevicePtr::NULL,
                grid: Grid::new(1, 1),
            },
        })
    }

    /// Begins where the main stream stands now.
    fn begin(&self, gpu: &Gpu) -> Result<(), DriverError> {
        self.from.record(&gpu.stream)?;
        self.stream.wait_event(&self.from)?;
        self.watch.launch(&gpu.kernels, &self.stream)?;
        self.to.record(&self.stream)
    }
}

impl Prepared for Paced {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.parts {
            if let Some(pace) = &self.pace {
                pace.begin(gpu)?;
            }
            self.way.copy(&self.device, &self.host, &gpu.stream)?;
            if let Some(pace) = &self.pace {
                gpu.stream.wait_event(&pace.to)?;
            }
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        (self.device.bytes() * self.parts) as f64
    }
}

/// What arrives is what was sent, also at a pace.
pub(super) fn verify_paced(name: &'static str, gpu: &Gpu, way: Way) -> Result<(), LoadError> {
    verify_ways(name, gpu, Ways::One(way))?;
    let params = [("bytes", 8 << 10), ("parts", 2), ("rate_per_s", 1 << 30)];
    let mut copy = Paced::new(gpu, &spec(name, params), way)?;
    let sent: Vec<u64> = (1..=copy.host.len() as u64).collect();
    let nothing = vec![0; sent.len()];
    let (at_host, on_device) = match way {
        Way::ToDevice => (&sent, &nothing),
        Way::ToHost => (&nothing, &sent),
    };
    copy.host.write(0, at_host)?;
    copy.device.write(0, on_device)?;
    copy.step(gpu)?;
    gpu.stream.synchronize()?;
    let arrived = match way {
        Way::ToDevice => copy.device.to_vec()?,
        Way::ToHost => {
            let mut values = nothing;
            copy.host.read(0, &mut values)?;
            values
        }
    };
    if arrived == sent {
        return Ok(());
    }
    Err(LoadError::Wrong {
        workload: name,
        what: "what arrives at a pace is not what was sent".to_owned(),
    })
}
