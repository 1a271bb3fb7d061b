//! `dram-read`: a streaming read from every SM. Counter: that of `stream_read`.

use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, DriverError, Grid};
use gpubench_kernels::kernel::stream_read::StreamRead;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::l2_reads::NO_SUCH_SUM;
use super::one_launch::verify_kernel;
use super::window_copy::{COPY_KNOB, Cut, cut, from_every_sm};
use super::{Ceiling, Gpu, LoadError, More, Params, Prepared, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "dram-read",
    summary: "reads through DRAM from every SM, over a footprint well above L2",
    role: Role::Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth, reads",
    unit: "bytes",
    meets: &["stream"],
    kernel: Some(Kernel::StreamRead),
    knob: Some(COPY_KNOB),
    first_guess: from_every_sm,
    setup,
    verify,
    more: More { expected: expected::DRAM, ceiling: Some(Ceiling::Dram), ..More::NONE },
}];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
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
    Ok(Box::new((Windowed::new(gpu, spec, read)?, hits)))
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::StreamRead)
}

/// Launches over successive windows of a buffer.
pub(super) struct Windowed<F> {
    buffer: DeviceBuffer<u64>,
    grid: Grid,
    cut: Cut,
    next: u64,
    launch: F,
}

impl<F> Windowed<F> {
    /// A filled buffer, divided into windows; `launch` builds the launch over one of them.
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec, launch: F) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let grid = params.grid(&gpu.props)?;
        let cut = cut(params.size("bytes")?, params.size("buffer_bytes")?);
        // The driver refuses a buffer that does not fit in memory.
        let len = (cut.window_bytes * cut.windows / 8) as usize;
        let buffer = DeviceBuffer::alloc(&gpu.context, len)?;
        // Pages that were never written may have no backing store and cost nothing to read.
        buffer.fill_bytes(0x5a)?;
        Ok(Self { buffer, grid, cut, next: 0, launch })
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

    fn work_per_request(&self) -> f64 {
        self.0.work_per_request()
    }

    fn cycle(&self) -> usize {
        self.0.cycle()
    }
}
