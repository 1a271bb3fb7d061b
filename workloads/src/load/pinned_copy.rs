//! Copies between page-locked host memory and the device, in one direction or both at once.

use gpubench_kernels::driver::{
    DeviceBuffer, DeviceProps, DriverError, Event, EventKind, PinnedBuffer, Stream,
};
use gpubench_record::WorkloadSpec;

use super::error::spec;
use super::{Gpu, LoadError, Output, Params, Part, Prepared};

/// Maximum page-locked memory of one tenant; longer requests copy it several times. The host has
/// many tenants and cannot swap it.
pub(super) const PINNED_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the host.
    ToDevice,
    ToHost,
}

impl Direction {
    pub(super) fn target<'a>(
        self,
        device: &DeviceBuffer<u64>,
        host: &'a PinnedBuffer<u64>,
    ) -> Part<'a> {
        match self {
            Self::ToDevice => Part::kept(device),
            Self::ToHost => Part::Host(host),
        }
    }

    /// Copies between the whole host buffer and the device buffer.
    pub(super) fn copy(
        self,
        device: &DeviceBuffer<u64>,
        host: &PinnedBuffer<u64>,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        match self {
            Self::ToDevice => device.write_async(0, host, 0, host.len(), stream),
            Self::ToHost => device.read_async(0, host, 0, host.len(), stream),
        }
    }
}

/// The used directions of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directions {
    One(Direction),
    /// Both directions at the same time, with equal bytes.
    Both,
}

/// Parameters before calibration.
pub(super) fn copy_spec(name: &str) -> WorkloadSpec {
    // A first guess of a few dozen microseconds on any link, which calibration adjusts.
    spec(name, [("bytes", 256 << 10)])
}

/// Parameters before calibration.
pub(super) fn any_device(
    name: &'static str,
    _: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(copy_spec(name))
}

/// One or more copies per request.
#[derive(Debug)]
pub(super) struct PinnedCopy {
    directions: Directions,
    copies: u64,
    host: PinnedBuffer<u64>,
    device: DeviceBuffer<u64>,
    /// The other direction, where both are used.
    back: Option<Back>,
}

/// The direction to the host, on a stream of its own.
#[derive(Debug)]
struct Back {
    host: PinnedBuffer<u64>,
    device: DeviceBuffer<u64>,
    stream: Stream,
    from: Event,
    to: Event,
}

impl PinnedCopy {
    pub(super) fn new(
        gpu: &Gpu,
        spec: &WorkloadSpec,
        directions: Directions,
    ) -> Result<Self, LoadError> {
        let bytes = Params::of(spec).size("bytes")?;
        let copies = bytes.div_ceil(PINNED_BYTES_MAX);
        // At most PINNED_BYTES_MAX.
        let len = (bytes / copies).div_ceil(8) as usize;
        let host = PinnedBuffer::alloc(&gpu.context, len)?;
        let device = DeviceBuffer::alloc(&gpu.context, len)?;
        if directions != Directions::One(Direction::ToDevice) {
            // Differs from the host memory before the first copy.
            device.fill_bytes(0x5a)?;
        }
        let back = (directions == Directions::Both).then(|| Back::new(gpu, len)).transpose()?;
        Ok(Self { directions, copies, host, device, back })
    }
}

impl Back {
    fn new(gpu: &Gpu, len: usize) -> Result<Self, DriverError> {
        let device = DeviceBuffer::alloc(&gpu.context, len)?;
        device.fill_bytes(0x5a)?;
        Ok(Self {
            host: PinnedBuffer::alloc(&gpu.context, len)?,
            device,
            stream: Stream::new(&gpu.context)?,
            from: Event::new(&gpu.context, EventKind::Mark)?,
            to: Event::new(&gpu.context, EventKind::Mark)?,
        })
    }

    /// Starts when the request starts.
    fn begin(&self, gpu: &Gpu, copies: u64) -> Result<(), DriverError> {
        self.from.record(&gpu.stream)?;
        self.stream.wait_event(&self.from)?;
        for _ in 0..copies {
            Direction::ToHost.copy(&self.device, &self.host, &self.stream)?;
        }
        self.to.record(&self.stream)
    }
}

impl Prepared for PinnedCopy {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        if let Some(back) = &self.back {
            back.begin(gpu, self.copies)?;
        }
        // `back` copies to the host where both directions are used.
        let direction = match self.directions {
            Directions::One(direction) => direction,
            Directions::Both => Direction::ToDevice,
        };
        for _ in 0..self.copies {
            direction.copy(&self.device, &self.host, &gpu.stream)?;
        }
        // The request ends when both directions have ended.
        match &self.back {
            Some(back) => gpu.stream.wait_event(&back.to),
            None => Ok(()),
        }
    }

    fn output(&self) -> Output<'_> {
        let direction = match self.directions {
            Directions::One(direction) => direction,
            Directions::Both => Direction::ToDevice,
        };
        let mut parts = vec![direction.target(&self.device, &self.host)];
        parts.extend(self.back.as_ref().map(|back| Part::Host(&back.host)));
        Output::Parts(parts)
    }

    fn work_per_request(&self) -> f64 {
        let directions = if self.directions == Directions::Both { 2 } else { 1 };
        (self.device.bytes() * self.copies * directions) as f64
    }
}

/// The copied data arrive unchanged, to the last word, in every used direction.
pub(super) fn verify_directions(
    workload: &'static str,
    gpu: &Gpu,
    directions: Directions,
) -> Result<(), LoadError> {
    let mut copy = PinnedCopy::new(gpu, &spec(workload, [("bytes", 64 << 10)]), directions)?;
    let len = copy.host.len();
    let (there, back) = (numbers(len, 1), numbers(len, 2));
    if directions == Directions::One(Direction::ToHost) {
        copy.device.write(0, &there)?;
    } else {
        copy.host.write(0, &there)?;
        copy.device.fill_bytes(0xff)?;
    }
    if let Some(other) = &copy.back {
        other.device.write(0, &back)?;
    }
    copy.step(gpu)?;
    gpu.stream.synchronize()?;
    let of_host = |host: &PinnedBuffer<u64>| {
        let mut values = vec![0; len];
        host.read(0, &mut values).map(|()| values)
    };
    let arrived = match directions {
        Directions::One(Direction::ToHost) => of_host(&copy.host)?,
        Directions::One(Direction::ToDevice) | Directions::Both => copy.device.to_vec()?,
    };
    same(workload, &arrived, &there)?;
    match &copy.back {
        Some(other) => same(workload, &of_host(&other.host)?, &back),
        None => Ok(()),
    }
}

fn numbers(len: usize, seed: u64) -> Vec<u64> {
    let number = |n: u64| (n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0u64..).map(number).take(len).collect()
}

fn same(workload: &'static str, found: &[u64], sent: &[u64]) -> Result<(), LoadError> {
    match sent.iter().zip(found).position(|(sent, found)| sent != found) {
        None if sent.len() == found.len() => Ok(()),
        at => Err(LoadError::Wrong { workload, what: format!("words differ from {at:?} on") }),
    }
}
