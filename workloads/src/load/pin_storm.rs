//! `pin-storm`: page-locks host memory and unlocks it. Counter: calls of `cuMemHostAlloc`; on the
//! host, `VmLck` and `VmPin` of /proc/PID/status.

use gpubench_kernels::driver::{DeviceProps, DriverError, PinnedBuffer};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::alloc::{ROUNDS_KNOB, rounds_spec};
use super::params::spec;
use super::pinned_copy::PINNED_BYTES_MAX;
use super::{Gpu, LoadError, More, Params, Prepared, Workload};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "pin-storm",
    summary: "page-locks host memory and unlocks it without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's page-locking",
    unit: "allocations",
    meets: &["alloc"],
    kernel: None,
    knob: Some(ROUNDS_KNOB),
    first_guess: pinned_spec,
    setup,
    verify,
    more: More {
        counter: Some("calls of cuMemHostAlloc; VmPin of /proc/PID/status"),
        ..More::NONE
    },
}];

/// Bytes locked at a time: this fraction of the device memory, but no more than the host can spare.
const MEMORY_PART: u64 = 16_384;

/// Parameters before calibration.
fn pinned_spec(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let mut spec = rounds_spec(name, props, share)?;
    let bytes = (props.total_bytes / MEMORY_PART).clamp(4096, PINNED_BYTES_MAX);
    spec.params.insert("bytes".to_owned(), bytes / 4096 * 4096);
    Ok(spec)
}

#[derive(Debug)]
struct Pins {
    rounds: u64,
    len: usize,
}

impl Prepared for Pins {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.rounds {
            PinnedBuffer::<u64>::alloc_and_free(&gpu.context, self.len)?;
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        self.rounds as f64
    }
}

fn pins(spec: &WorkloadSpec) -> Result<Pins, LoadError> {
    let params = Params::of(spec);
    Ok(Pins {
        rounds: params.get("rounds", 1..=ROUNDS_KNOB.max)?,
        // The bound makes the cast exact.
        len: params.get("bytes", 8..=PINNED_BYTES_MAX)? as usize / 8,
    })
}

fn setup(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(pins(spec)?))
}

/// Locked memory holds what is written to it, and a request unlocks all of it.
fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let mut pins = pins(&spec(name, [("rounds", 3), ("bytes", 64 << 10)]))?;
    let (sent, mut found) = ([1_u64, 2, 3], [0_u64; 3]);
    let mut buffer = PinnedBuffer::<u64>::alloc(&gpu.context, pins.len)?;
    buffer.write(5, &sent)?;
    buffer.read(5, &mut found)?;
    pins.step(gpu)?;
    if sent == found {
        return Ok(());
    }
    let what = format!("page-locked memory holds {found:?} where {sent:?} was written");
    Err(LoadError::Wrong { workload: name, what })
}
