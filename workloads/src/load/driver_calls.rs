//! Calls of the driver as requests, and storms of them that keep its locks busy.

use gpubench_catalogue::workload::{self, COUNT_MAX};
use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{
    Context, DeviceBuffer, DeviceProps, DriverError, Module, PinnedBuffer, WaitMode,
};
use gpubench_kernels::kernel::memory::TlbStride;
use gpubench_record::WorkloadSpec;

use super::error::spec;
use super::pinned_copy::PINNED_BYTES_MAX;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Prepared};

// `alloc`: allocating and freeing device memory, as requests. Counter: `cuMemGetInfo` while memory
// is held; on the host, calls of `cuMemAlloc` and `cuMemFree`.

/// An allocation is this fraction of the device memory.
const MEMORY_PART: u64 = 1024;

pub(super) const ALLOC: &[Load] = &[Load {
    facts: &workload::ALLOC,
    kernel: None,
    first_guess: rounds_spec,
    setup: setup_alloc,
    verify: Some(verify_rounds),
    more: More::NONE,
}];

/// Parameters before calibration: a thousandth of the memory at a time, in whole pages.
fn rounds_spec(name: &'static str, props: &DeviceProps, _share: f64) -> Guess {
    let page = TlbStride::PAGE_BYTES;
    let bytes = (props.total_bytes / MEMORY_PART / page).max(1) * page;
    Ok(spec(name, [("rounds", 1), ("bytes", bytes)]))
}

pub(super) const NO_OUTPUT: Output<'_> = Output::None("driver calls compute nothing");

/// The same call of the driver several times per request.
struct Calls<F> {
    rounds: u64,
    call: F,
}

impl<F: Fn(&Gpu) -> Result<(), DriverError>> Calls<F> {
    fn boxed(rounds: u64, call: F) -> Result<Box<dyn Prepared>, LoadError>
    where
        F: 'static,
    {
        Ok(Box::new(Self { rounds, call }))
    }
}

impl<F: Fn(&Gpu) -> Result<(), DriverError>> Prepared for Calls<F> {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        (0..self.rounds).try_for_each(|_| (self.call)(gpu))
    }

    fn output(&self) -> Output<'_> {
        NO_OUTPUT
    }

    fn work_per_request(&self) -> f64 {
        self.rounds as f64
    }
}

/// Allocates device memory and frees it.
pub(super) fn setup_alloc(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    // The driver refuses a size beyond its memory.
    let len = params.size("bytes")?.div_ceil(8) as usize;
    Calls::boxed(params.get("rounds", 1..=COUNT_MAX)?, move |gpu| {
        DeviceBuffer::<u64>::alloc(&gpu.context, len)?.free()
    })
}

/// Memory holds what is written to it, and a request frees all that it allocates.
pub(super) fn verify_rounds(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let bytes = 1 << 20;
    let mut rounds = setup_alloc(gpu, &spec(name, [("rounds", 3), ("bytes", bytes)]))?;
    let values: Vec<u64> = (1..=bytes / 8).collect();
    let found = DeviceBuffer::from_slice(&gpu.context, &values)?.to_vec()?;
    let before = gpu.context.mem_info()?.free_bytes;
    rounds.step(gpu)?;
    let after = gpu.context.mem_info()?.free_bytes;
    let what = if found != values {
        "device memory does not hold the written values".to_owned()
    } else if after < before {
        format!("{} bytes were not freed", before - after)
    } else {
        return Ok(());
    };
    Err(LoadError::Wrong { workload: name, what })
}

// `alloc-storm`: allocations and frees without a pause, which keep the driver's locks busy.
// Counter: as in `alloc`.

pub(super) const ALLOC_STORM: &[Load] = &[Load {
    facts: &workload::ALLOC_STORM,
    kernel: None,
    first_guess: rounds_spec,
    setup: setup_alloc,
    verify: Some(verify_rounds),
    more: More::NONE,
}];

// `context-storm`: creates contexts and destroys them. Counter: the memory of a context
// (`nvmlDeviceGetMemoryInfo`); on the host, calls of `cuCtxCreate`.
//
// A request is one context; its length is not adjustable.

pub(super) const CONTEXT_STORM: &[Load] = &[Load {
    facts: &workload::CONTEXT_STORM,
    kernel: None,
    first_guess: |name, _, _| Ok(spec(name, [("contexts", 1)])),
    setup: |_, spec| Calls::boxed(Params::of(spec).get("contexts", 1..=64)?, one_context),
    verify: Some(verify_context_storm),
    more: More::NONE,
}];

fn one_context(gpu: &Gpu) -> Result<(), DriverError> {
    drop(Context::create(gpu.context.device(), WaitMode::BlockingSync)?);
    // The new context was current on this thread and no longer exists.
    gpu.context.bind()
}

/// A context uses memory while it exists, and frees it.
fn verify_context_storm(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let free = || gpu.context.mem_info().map(|info| info.free_bytes);
    let before = free()?;
    let other = Context::create(gpu.context.device(), WaitMode::BlockingSync)?;
    gpu.context.bind()?;
    let with = free()?;
    drop(other);
    gpu.context.bind()?;
    let after = free()?;
    if with < before && after > with {
        return Ok(());
    }
    let what = format!("{before} bytes free, {with} beside a context and {after} after it");
    Err(LoadError::Wrong { workload: name, what })
}

// `module-storm`: loads a module from PTX and unloads it. Counter: calls of `cuModuleLoadDataEx`.
//
// The driver caches compiled code on disk, so after the first request this stresses loading and
// the driver's locks, as a starting program does, and not compilation.

pub(super) const MODULE_STORM: &[Load] = &[Load {
    facts: &workload::MODULE_STORM,
    kernel: None,
    first_guess: |name, _, _| Ok(spec(name, [("modules", 1)])),
    setup: |_, spec| {
        Calls::boxed(Params::of(spec).get("modules", 1..=COUNT_MAX)?, |gpu| module(gpu).map(drop))
    },
    // Every loaded module has its entry point.
    verify: Some(|_, gpu| {
        for _ in 0..2 {
            module(gpu)?.function(MODULE.info().name)?;
        }
        Ok(())
    }),
    more: More::NONE,
}];

/// A kernel of a typical size.
const MODULE: Kernel = Kernel::Softmax;

fn module(gpu: &Gpu) -> Result<Module, DriverError> {
    Module::load(&gpu.context, MODULE.info().name, MODULE.info().ptx)
}

// `pin-storm`: page-locks host memory and unlocks it. Counter: calls of `cuMemHostAlloc`; on the
// host, `VmLck` and `VmPin` of /proc/PID/status.

pub(super) const PIN_STORM: &[Load] = &[Load {
    facts: &workload::PIN_STORM,
    kernel: None,
    first_guess: pinned_spec,
    setup: setup_pin_storm,
    verify: Some(verify_pin_storm),
    more: More::NONE,
}];

/// Bytes locked at a time: this fraction of the device memory, but no more than the host can spare.
const PINNED_PART: u64 = 16_384;

/// Parameters before calibration.
fn pinned_spec(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let mut spec = rounds_spec(name, props, share)?;
    let bytes = (props.total_bytes / PINNED_PART).clamp(4096, PINNED_BYTES_MAX);
    spec.params.insert("bytes".to_owned(), bytes / 4096 * 4096);
    Ok(spec)
}

fn setup_pin_storm(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    // The bound makes the cast exact.
    let len = params.get("bytes", 8..=PINNED_BYTES_MAX)? as usize / 8;
    Calls::boxed(params.get("rounds", 1..=COUNT_MAX)?, move |gpu| {
        PinnedBuffer::<u64>::alloc_and_free(&gpu.context, len)
    })
}

/// Locked memory holds what is written to it, and a request unlocks all of it.
fn verify_pin_storm(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let bytes = 64 << 10;
    let mut pins = setup_pin_storm(gpu, &spec(name, [("rounds", 3), ("bytes", bytes)]))?;
    let (sent, mut found) = ([1_u64, 2, 3], [0_u64; 3]);
    let mut buffer = PinnedBuffer::<u64>::alloc(&gpu.context, bytes as usize / 8)?;
    buffer.write(5, &sent)?;
    buffer.read(5, &mut found)?;
    pins.step(gpu)?;
    if sent == found {
        return Ok(());
    }
    let what = format!("page-locked memory holds {found:?} where {sent:?} was written");
    Err(LoadError::Wrong { workload: name, what })
}
