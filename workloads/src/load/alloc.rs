//! `alloc`: allocating and freeing device memory, as requests. Counter: `cuMemGetInfo` while memory
//! is held; on the host, calls of `cuMemAlloc` and `cuMemFree`.

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError};
use gpubench_kernels::kernel::tlb_stride::TlbStride;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::spec;
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Workload};

/// An allocation is this fraction of the device memory.
const MEMORY_PART: u64 = 1024;

/// Request length in allocations, each freed at once.
pub(super) const ROUNDS_KNOB: Knob = Knob { param: "rounds", granule: 1, max: u32::MAX as u64 };

/// Counters of allocating and freeing.
pub(super) const COUNTER: &str = "cuMemGetInfo; nvmlDeviceGetMemoryInfo; calls of cuMemAlloc";

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "alloc",
    summary: "allocates device memory and frees it, repeatedly",
    role: Role::Victim,
    sub_axis: SubAxis::Driver,
    resource: "the driver's memory management",
    unit: "allocations",
    meets: &[],
    kernel: None,
    knob: Some(ROUNDS_KNOB),
    first_guess: rounds_spec,
    setup,
    verify: verify_rounds,
    more: More { counter: Some(COUNTER), ..More::NONE },
}];

/// Parameters before calibration: a thousandth of the memory at a time, in whole pages.
pub(super) fn rounds_spec(
    name: &'static str,
    props: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let page = TlbStride::PAGE_BYTES;
    let bytes = (props.total_bytes / MEMORY_PART / page).max(1) * page;
    Ok(spec(name, [("rounds", 1), ("bytes", bytes)]))
}

/// Rounds of allocating and freeing.
#[derive(Debug)]
pub(super) struct Rounds {
    rounds: u64,
    len: usize,
}

impl Rounds {
    pub(super) fn new(spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        Ok(Self {
            rounds: params.get("rounds", 1..=ROUNDS_KNOB.max)?,
            // The driver refuses a size beyond its memory.
            len: params.size("bytes")?.div_ceil(8) as usize,
        })
    }
}

impl Prepared for Rounds {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.rounds {
            DeviceBuffer::<u64>::alloc(&gpu.context, self.len)?.free()?;
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        self.rounds as f64
    }
}

pub(super) fn setup(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(Rounds::new(spec)?))
}

/// Memory holds what is written to it, and a request frees all that it allocates.
pub(super) fn verify_rounds(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let small = spec(name, [("rounds", 3), ("bytes", 1 << 20)]);
    let mut rounds = Rounds::new(&small)?;
    let values: Vec<u64> = (1..=rounds.len as u64).collect();
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
