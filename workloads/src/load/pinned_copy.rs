//! Copies between page-locked host memory and the device, one way or both at once.

use gpubench_kernels::driver::{
    DeviceBuffer, DeviceProps, DriverError, Event, EventKind, PinnedBuffer, Stream,
};
use gpubench_record::WorkloadSpec;

use super::params::spec;
use super::{Gpu, Knob, LoadError, Params, Prepared};

/// Most page-locked memory of one tenant; longer requests copy it more than once. It belongs to
/// the host, which has many tenants and cannot swap it.
pub(super) const PINNED_BYTES_MAX: u64 = 64 << 20;

/// Whole pages.
const GRANULE_BYTES: u64 = 4096;

/// The length of a request in bytes copied, of each direction.
pub(super) const COPY_KNOB: Knob = Knob {
    param: "bytes",
    granule: GRANULE_BYTES,
    max: 1 << 40,
};

/// Counter of the host link towards the device.
pub(super) const COUNTER: &str =
    "pcie__read_bytes.sum; DCGM_FI_PROF_PCIE_RX_BYTES; nvmlDeviceGetPcieThroughput";

/// Counter of the host link towards the host.
pub(super) const COUNTER_TO_HOST: &str =
    "pcie__write_bytes.sum; DCGM_FI_PROF_PCIE_TX_BYTES; nvmlDeviceGetPcieThroughput";

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the host.
    ToDevice,
    /// To the host.
    ToHost,
}

impl Way {
    /// Copies the whole of a host buffer over, or fills it.
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

/// What the ways of the link are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    /// One is, the other rests.
    One(Way),
    /// As many bytes go one way as the other, at the same time.
    Both,
}

/// Parameters before calibration.
pub(super) fn copy_spec(name: &str) -> WorkloadSpec {
    // A first guess of a few dozen microseconds on any link; calibration takes it from there.
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

/// One or more copies a request.
#[derive(Debug)]
pub(super) struct PinnedCopy {
    ways: Ways,
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
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec, ways: Ways) -> Result<Self, LoadError> {
        let bytes = Params::of(spec).size("bytes")?;
        let copies = bytes.div_ceil(PINNED_BYTES_MAX);
        // At most PINNED_BYTES_MAX.
        let len = (bytes / copies).div_ceil(8) as usize;
        let host = PinnedBuffer::alloc(&gpu.context, len)?;
        let device = DeviceBuffer::alloc(&gpu.context, len)?;
        if ways != Ways::One(Way::ToDevice) {
            device.fill_bytes(0)?;
        }
        let back = (ways == Ways::Both)
            .then(|| Back::new(gpu, len))
            .transpose()?;
        Ok(Self {
            ways,
            copies,
            host,
            device,
            back,
        })
    }
}

impl Back {
    fn new(gpu: &Gpu, len: usize) -> Result<Self, DriverError> {
        let device = DeviceBuffer::alloc(&gpu.context, len)?;
        device.fill_bytes(0)?;
        Ok(Self {
            host: PinnedBuffer::alloc(&gpu.context, len)?,
            device,
            stream: Stream::new(&gpu.context)?,
            from: Event::new(&gpu.context, EventKind::Mark)?,
            to: Event::new(&gpu.context, EventKind::Mark)?,
        })
    }

    /// Begins when the request does.
    fn begin(&self, gpu: &Gpu, copies: u64) -> Result<(), DriverError> {
        self.from.record(&gpu.stream)?;
        self.stream.wait_event(&self.from)?;
        for _ in 0..copies {
            Way::ToHost.copy(&self.device, &self.host, &self.stream)?;
        }
        self.to.record(&self.stream)
    }
}

impl Prepared for PinnedCopy {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        if let Some(back) = &self.back {
            back.begin(gpu, self.copies)?;
        }
        // The way back is used by `back`, where both are.
        let way = match self.ways {
            Ways::One(way) => way,
            Ways::Both => Way::ToDevice,
        };
        for _ in 0..self.copies {
            way.copy(&self.device, &self.host, &gpu.stream)?;
        }
        // The request has ended when both directions have.
        match &self.back {
            Some(back) => gpu.stream.wait_event(&back.to),
            None => Ok(()),
        }
    }

    fn work_per_request(&self) -> f64 {
        let ways = if self.ways == Ways::Both { 2 } else { 1 };
        (self.device.bytes() * self.copies * ways) as f64
    }
}

/// What arrives is what was sent, to the last word, in every direction that is used.
pub(super) fn verify_ways(workload: &'static str, gpu: &Gpu, ways: Ways) -> Result<(), LoadError> {
    let mut copy = PinnedCopy::new(gpu, &spec(workload, [("bytes", 64 << 10)]), ways)?;
    let len = copy.host.len();
    let (there, back) = (numbers(len, 1), numbers(len, 2));
    if ways == Ways::One(Way::ToHost) {
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
    let arrived = match ways {
        Ways::One(Way::ToHost) => of_host(&copy.host)?,
        Ways::One(Way::ToDevice) | Ways::Both => copy.device.to_vec()?,
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
    match sent
        .iter()
        .zip(found)
        .position(|(sent, found)| sent != found)
    {
        None if sent.len() == found.len() => Ok(()),
        at => Err(LoadError::Wrong {
            workload,
            what: format!("words differ from {at:?} on"),
        }),
    }
}
