//! The host link: victims that copy at a limited rate, and aggressors that copy without a pause.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{
    DeviceBuffer, DeviceProps, DevicePtr, DriverError, Event, EventKind, Grid, PinnedBuffer, Stream,
};
use gpubench_kernels::kernel::timing::Spin;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::error::{SIZE_MAX, spec};
use super::pinned_copy::{Direction, Directions, PINNED_BYTES_MAX, PinnedCopy, verify_directions};
use super::{Gpu, Load, LoadError, More, Output, Params, Prepared, pinned_copy};

// Copies of victims in one direction over the host link, at a limited rate.
//
// A running copy uses the whole link in its direction, so a request is divided into parts. Each
// part lasts as long as at the rate that calibration allows (`rate_per_s`, 0 for no limit): a
// single warp on a second stream watches the clock, and the next part waits for the copy and the
// warp. A neighbour that leaves the victim its share therefore does not slow it.

/// Parts per request. Few, so that a part is long compared with a launch; more than one, so that a
/// delay by a neighbour's copy can be made up within the request.
const PARTS: u64 = 4;

/// Parameters before calibration.
fn unpaced(name: &'static str, _: &DeviceProps, _share: f64) -> Result<WorkloadSpec, LoadError> {
    // A first guess of a few dozen microseconds on any link, which calibration adjusts.
    let params = [("bytes", 256 << 10), ("parts", PARTS), ("rate_per_s", 0)];
    Ok(spec(name, params))
}

/// Copies at a limited rate.
#[derive(Debug)]
struct Paced {
    direction: Direction,
    host: PinnedBuffer<u64>,
    device: DeviceBuffer<u64>,
    parts: u64,
    pace: Option<Pace>,
}

/// Keeps a part to its minimum time.
#[derive(Debug)]
struct Pace {
    stream: Stream,
    from: Event,
    to: Event,
    watch: Spin,
}

impl Paced {
    fn new(gpu: &Gpu, spec: &WorkloadSpec, direction: Direction) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let bytes = params.size("bytes")?;
        let rate_per_s = params.get("rate_per_s", 0..=SIZE_MAX)?;
        // More parts than in the parameters where one would lock too much host memory.
        let parts = params.get("parts", 1..=1 << 20)?.max(bytes.div_ceil(PINNED_BYTES_MAX));
        // At most PINNED_BYTES_MAX.
        let len = (bytes / parts).div_ceil(8).max(1) as usize;
        let host = PinnedBuffer::alloc(&gpu.context, len)?;
        let device = DeviceBuffer::<u64>::alloc(&gpu.context, len)?;
        if direction == Direction::ToHost {
            // Differs from the host memory before the first copy.
            device.fill_bytes(0x5a)?;
        }
        let part_ns = |rate: u64| device.bytes() as f64 * 1e9 / rate as f64;
        let pace = (rate_per_s > 0)
            // The cast saturates; a part of centuries does not occur.
            .then(|| Pace::new(gpu, part_ns(rate_per_s) as u64))
            .transpose()?;
        Ok(Self { direction, host, device, parts, pace })
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

    /// Starts when the preceding work of the main stream has ended.
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
            self.direction.copy(&self.device, &self.host, &gpu.stream)?;
            if let Some(pace) = &self.pace {
                gpu.stream.wait_event(&pace.to)?;
            }
        }
        Ok(())
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![self.direction.target(&self.device, &self.host)])
    }

    fn work_per_request(&self) -> f64 {
        (self.device.bytes() * self.parts) as f64
    }
}

/// The copied data arrive unchanged, also at a limited rate.
fn verify_paced(name: &'static str, gpu: &Gpu, direction: Direction) -> Result<(), LoadError> {
    verify_directions(name, gpu, Directions::One(direction))?;
    let params = [("bytes", 8 << 10), ("parts", 2), ("rate_per_s", 1 << 30)];
    let mut copy = Paced::new(gpu, &spec(name, params), direction)?;
    let sent: Vec<u64> = (1..=copy.host.len() as u64).collect();
    let nothing = vec![0; sent.len()];
    let (at_host, on_device) = match direction {
        Direction::ToDevice => (&sent, &nothing),
        Direction::ToHost => (&nothing, &sent),
    };
    copy.host.write(0, at_host)?;
    copy.device.write(0, on_device)?;
    copy.step(gpu)?;
    gpu.stream.synchronize()?;
    let arrived = match direction {
        Direction::ToDevice => copy.device.to_vec()?,
        Direction::ToHost => {
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
        what: "copied data differ at a limited rate".to_owned(),
    })
}

// `pcie`: copies from page-locked host memory, at a rate within the victim's share.

pub(super) const PCIE: &[Load] = &[Load {
    facts: &workload::PCIE,
    kernel: None,
    first_guess: unpaced,
    setup: |gpu, spec| Ok(Box::new(Paced::new(gpu, spec, Direction::ToDevice)?)),
    verify: Some(|name, gpu| verify_paced(name, gpu, Direction::ToDevice)),
    more: More::NONE,
}];

// `pcie-download`: copies to page-locked host memory, at a rate within the victim's share.
// Counter: bytes that the device sends over the link.

pub(super) const PCIE_DOWNLOAD: &[Load] = &[Load {
    facts: &workload::PCIE_DOWNLOAD,
    kernel: None,
    first_guess: unpaced,
    setup: |gpu, spec| Ok(Box::new(Paced::new(gpu, spec, Direction::ToHost)?)),
    verify: Some(|name, gpu| verify_paced(name, gpu, Direction::ToHost)),
    more: More::NONE,
}];

// `pcie-h2d`: copies from page-locked host memory without a pause.

pub(super) const PCIE_H2D: &[Load] = &[Load {
    facts: &workload::PCIE_H2D,
    kernel: None,
    first_guess: pinned_copy::any_device,
    setup: |gpu, spec| Ok(Box::new(PinnedCopy::new(gpu, spec, TO_DEVICE)?)),
    verify: Some(|name, gpu| verify_directions(name, gpu, TO_DEVICE)),
    more: More::NONE,
}];

const TO_DEVICE: Directions = Directions::One(Direction::ToDevice);
const TO_HOST: Directions = Directions::One(Direction::ToHost);

// `pcie-d2h`: copies to page-locked host memory without a pause. Counter: bytes that the device
// sends over the link.

pub(super) const PCIE_D2H: &[Load] = &[Load {
    facts: &workload::PCIE_D2H,
    kernel: None,
    first_guess: pinned_copy::any_device,
    setup: |gpu, spec| Ok(Box::new(PinnedCopy::new(gpu, spec, TO_HOST)?)),
    verify: Some(|name, gpu| verify_directions(name, gpu, TO_HOST)),
    more: More::NONE,
}];

// `pcie-both`: copies in both directions at once. Counter: bytes of the link, both ways.
//
// Waived where there is one copy engine, which runs one copy after the other.

pub(super) const PCIE_BOTH: &[Load] = &[Load {
    facts: &workload::PCIE_BOTH,
    kernel: None,
    first_guess: pinned_copy::any_device,
    setup: |gpu, spec| Ok(Box::new(PinnedCopy::new(gpu, spec, Directions::Both)?)),
    verify: Some(|name, gpu| verify_directions(name, gpu, Directions::Both)),
    more: More { lacks, ..More::NONE },
}];

fn lacks(gpu: &Gpu) -> Result<Option<String>, LoadError> {
    let engines = gpu.props.copy_engines;
    Ok((engines < 2).then(|| format!("{engines} copy engines, both directions need two")))
}
