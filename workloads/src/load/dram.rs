//! DRAM bandwidth: `stream`, the victim, and `dram-copy`, `dram-read` and `dram-write`.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DevicePtr, DriverError, Grid};
use gpubench_kernels::kernel::memory::{PatternCheck, PatternFill};
use gpubench_kernels::kernel::streams::{StreamCopy, StreamRead, StreamWrite};
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::error::{spec, whole_sms};
use super::l2::NO_SUCH_SUM;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared, expected};

// A streaming copy through a buffer several times the size of L2, window after window.
//
// Successive requests copy different windows, so that a short request does not hit in L2 on the
// data of the one before it.

pub(super) const THREADS: u32 = 256;

/// Maximum number of windows: together they exceed L2 many times.
const WINDOWS_MAX: u64 = 16;

/// Whole cache lines, so that no two windows share one.
const GRANULE_BYTES: u64 = 128;

/// Parameters before calibration: one pass over as many bytes as L2 holds.
pub(super) fn copy_spec(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
    blocks: u64,
) -> Result<WorkloadSpec, LoadError> {
    let buffer_bytes = props.dram_buffer_bytes();
    let has_bytes = props.total_bytes as f64 * share;
    if 2.0 * buffer_bytes as f64 > has_bytes || buffer_bytes <= props.l2_bytes {
        return Err(LoadError::TooSmall {
            workload: name,
            needs: format!("two buffers above {} bytes of L2", props.l2_bytes),
            share,
            has: format!("{has_bytes:.0} bytes"),
        });
    }
    let bytes = props.l2_bytes.clamp(GRANULE_BYTES, buffer_bytes) / GRANULE_BYTES * GRANULE_BYTES;
    let threads = THREADS.into();
    Ok(spec(
        name,
        [
            ("blocks", blocks),
            ("threads", threads),
            ("bytes", bytes),
            ("buffer_bytes", buffer_bytes),
        ],
    ))
}

/// Parameters of an aggressor before calibration: every SM copies.
pub(super) fn from_every_sm(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    copy_spec(name, props, share, props.full_grid(THREADS).blocks.into())
}

/// One or more launches of the copy per request.
#[derive(Debug)]
pub(super) struct WindowCopy {
    src: DeviceBuffer<u64>,
    pub(super) dst: DeviceBuffer<u64>,
    grid: Grid,
    window_bytes: u64,
    windows: u64,
    launches: u64,
    next: u64,
}

impl WindowCopy {
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let grid = params.grid(&gpu.props)?;
        let bytes = params.size("bytes")?;
        let buffer_bytes = params.size("buffer_bytes")?;
        let cut = cut(bytes, buffer_bytes);
        gpu.kernels.prepare(&[Kernel::StreamCopy])?;
        // The driver refuses a buffer that does not fit in memory.
        let len = (cut.window_bytes * cut.windows / 8) as usize;
        let src = DeviceBuffer::alloc(&gpu.context, len)?;
        let dst = DeviceBuffer::alloc(&gpu.context, len)?;
        // Pages that were never written may have no backing store and cost nothing to read.
        src.fill_bytes(0x5a)?;
        dst.fill_bytes(0)?;
        let Cut { window_bytes, windows, launches } = cut;
        Ok(Self { src, dst, grid, window_bytes, windows, launches, next: 0 })
    }
}

/// The division of a buffer into requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes of one launch.
    pub(super) window_bytes: u64,
    pub(super) windows: u64,
    /// Launches of a request, each in the next window.
    pub(super) launches: u64,
}

/// Divides a request into launches over windows: as many windows as fit, and several launches where
/// one pass over the buffer is too short.
pub(super) fn cut(bytes: u64, buffer_bytes: u64) -> Cut {
    let launches = bytes.div_ceil(buffer_bytes.max(GRANULE_BYTES)).max(1);
    let window_bytes = (bytes / launches / GRANULE_BYTES).max(1) * GRANULE_BYTES;
    let windows = (buffer_bytes / window_bytes).clamp(1, WINDOWS_MAX);
    Cut { window_bytes, windows, launches }
}

impl Prepared for WindowCopy {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.launches {
            let at = self.next * self.window_bytes;
            self.next = (self.next + 1) % self.windows;
            let launch = StreamCopy {
                dst: self.dst.device_ptr().offset_bytes(at),
                src: self.src.device_ptr().offset_bytes(at),
                bytes: self.window_bytes,
                grid: self.grid,
            };
            launch.launch(&gpu.kernels, &gpu.stream)?;
        }
        Ok(())
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![Part::written(&self.dst)])
    }

    fn work_per_request(&self) -> f64 {
        // Each byte copied is read once and written once.
        (2 * self.window_bytes * self.launches) as f64
    }

    fn cycle(&self) -> usize {
        // At most [`WINDOWS_MAX`]; with several launches per request the windows repeat sooner.
        self.windows as usize
    }
}

/// Every window of a small copy arrives, in as many requests as there are windows.
pub(super) fn verify_copy(workload: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    (Kernel::StreamCopy.info().verify)(&gpu.kernels)?;
    let small = spec(
        workload,
        [("blocks", 2), ("threads", 64), ("bytes", 4 << 10), ("buffer_bytes", 16 << 10)],
    );
    let mut copy = WindowCopy::new(gpu, &small)?;
    let (words, seed) = (copy.src.bytes() / 4, 41);
    let dst = copy.src.device_ptr();
    PatternFill { dst, words, seed, grid: copy.grid }.launch(&gpu.kernels, &gpu.stream)?;
    for _ in 0..copy.windows {
        copy.step(gpu)?;
    }
    let wrong = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let (src, mismatches) = (copy.dst.device_ptr(), wrong.device_ptr());
    PatternCheck { src, words, seed, mismatches, grid: copy.grid }
        .launch(&gpu.kernels, &gpu.stream)?;
    gpu.stream.synchronize()?;
    match wrong.to_vec()?.first() {
        Some(0) => Ok(()),
        count => Err(LoadError::Wrong {
            workload,
            what: format!("{count:?} of {words} words differ after the copy"),
        }),
    }
}

// `stream`: a streaming copy that uses at most its share of DRAM bandwidth.

pub(super) const STREAM: &[Load] = &[Load {
    facts: &workload::STREAM,
    first_guess: from_sms_of_share,
    more: More { saturating_sms: expected::sms_of_copies, ..COPY.more },
    ..COPY
}];

fn from_sms_of_share(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    copy_spec(name, props, share, whole_sms(name, props, share)?)
}

// `dram-copy`: a streaming copy from every SM.

pub(super) const DRAM_COPY: &[Load] = &[COPY];

const COPY: Load = Load {
    facts: &workload::DRAM_COPY,
    kernel: Some(Kernel::StreamCopy),
    first_guess: from_every_sm,
    setup: |gpu, spec| Ok(Box::new(WindowCopy::new(gpu, spec)?)),
    verify: Some(verify_copy),
    more: More { expected: expected::DRAM, ..More::NONE },
};

// `dram-read`: a streaming read from every SM. Counter: that of `stream_read`.

pub(super) const DRAM_READ: &[Load] = &[Load {
    facts: &workload::DRAM_READ,
    kernel: Some(Kernel::StreamRead),
    setup: setup_dram_read,
    verify: None,
    ..COPY
}];

fn setup_dram_read(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    gpu.kernels.prepare(&[Kernel::StreamRead])?;
    let hits = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let hits_at = hits.device_ptr();
    let read = move |src: DevicePtr, bytes: u64, grid: Grid| StreamRead {
        src,
        bytes,
        trigger: NO_SUCH_SUM,
        hits: hits_at,
        grid,
    };
    Ok(Box::new((Windowed::new(gpu, spec, Part::kept, read)?, hits)))
}

/// Launches over successive windows of a buffer.
pub(super) struct Windowed<F> {
    buffer: DeviceBuffer<u64>,
    grid: Grid,
    cut: Cut,
    next: u64,
    launch: F,
    /// The buffer as an output: read or written.
    part: fn(&DeviceBuffer<u64>) -> Part<'static>,
}

impl<F> Windowed<F> {
    /// A filled buffer, divided into windows; `launch` builds the launch over one of them.
    pub(super) fn new(
        gpu: &Gpu,
        spec: &WorkloadSpec,
        part: fn(&DeviceBuffer<u64>) -> Part<'static>,
        launch: F,
    ) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let grid = params.grid(&gpu.props)?;
        let cut = cut(params.size("bytes")?, params.size("buffer_bytes")?);
        // The driver refuses a buffer that does not fit in memory.
        let len = (cut.window_bytes * cut.windows / 8) as usize;
        let buffer = DeviceBuffer::alloc(&gpu.context, len)?;
        // Pages that were never written may have no backing store and cost nothing to read.
        buffer.fill_bytes(0x5a)?;
        Ok(Self { buffer, grid, cut, next: 0, launch, part })
    }
}

impl<L: Launcher, F: Fn(DevicePtr, u64, Grid) -> L> Prepared for Windowed<F> {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.cut.launches {
            let at = self.next * self.cut.window_bytes;
            self.next = (self.next + 1) % self.cut.windows;
            let from = self.buffer.device_ptr().offset_bytes(at);
            let launch = (self.launch)(from, self.cut.window_bytes, self.grid);
            launch.launch(&gpu.kernels, &gpu.stream)?;
        }
        Ok(())
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![(self.part)(&self.buffer)])
    }

    fn work_per_request(&self) -> f64 {
        (self.cut.window_bytes * self.cut.launches) as f64
    }

    fn cycle(&self) -> usize {
        // With several launches per request the windows repeat sooner.
        self.cut.windows as usize
    }
}

/// A request and a buffer that its launches use.
impl<P: Prepared> Prepared for (P, DeviceBuffer<u32>) {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.0.step(gpu)
    }

    fn output(&self) -> Output<'_> {
        let mut output = self.0.output();
        if let Output::Parts(parts) = &mut output {
            parts.push(Part::kept(&self.1));
        }
        output
    }

    fn work_per_request(&self) -> f64 {
        self.0.work_per_request()
    }

    fn cycle(&self) -> usize {
        self.0.cycle()
    }
}

// `dram-write`: a streaming write from every SM. Counter: that of `stream_write`.

pub(super) const DRAM_WRITE: &[Load] = &[Load {
    facts: &workload::DRAM_WRITE,
    kernel: Some(Kernel::StreamWrite),
    setup: setup_dram_write,
    verify: None,
    ..COPY
}];

fn setup_dram_write(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    gpu.kernels.prepare(&[Kernel::StreamWrite])?;
    let write = |dst: DevicePtr, bytes: u64, grid: Grid| StreamWrite { dst, bytes, value: 1, grid };
    Ok(Box::new(Windowed::new(gpu, spec, Part::written, write)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_to_fit_the_buffer() {
        let mib = 1 << 20;
        for (bytes, buffer_bytes, window_bytes, windows, launches) in [
            (12 * mib, 32 * mib, 12 * mib, 2, 1),
            (mib, 32 * mib, mib, 16, 1),
            (32 * mib, 32 * mib, 32 * mib, 1, 1),
            (48 * mib, 32 * mib, 24 * mib, 1, 2),
            (1_000, 32 * mib, 896, 16, 1),
            (1, 32 * mib, 128, 16, 1),
            (1, 1, 128, 1, 1),
        ] {
            let expected = Cut { window_bytes, windows, launches };
            assert_eq!(cut(bytes, buffer_bytes), expected, "{bytes} in {buffer_bytes}");
        }
    }
}
