//! `context-storm`: creates contexts and destroys them. Counter: the memory of a context
//! (`nvmlDeviceGetMemoryInfo`); on the host, calls of `cuCtxCreate`.
//!
//! A request is one context; its length is not adjustable.

use gpubench_kernels::driver::{Context, DeviceProps, DriverError, WaitMode};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::spec;
use super::{Gpu, LoadError, More, Params, Prepared, Workload};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "context-storm",
    summary: "creates contexts and destroys them without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's context management",
    unit: "contexts",
    meets: &["alloc"],
    kernel: None,
    knob: None,
    first_guess: one,
    setup,
    verify,
    more: More {
        counter: Some("nvmlDeviceGetMemoryInfo; calls of cuCtxCreate"),
        needs: "a compute mode that allows more than one context",
        ..More::NONE
    },
}];

fn one(name: &'static str, _: &DeviceProps, _share: f64) -> Result<WorkloadSpec, LoadError> {
    Ok(spec(name, [("contexts", 1)]))
}

#[derive(Debug)]
struct Contexts(u64);

impl Prepared for Contexts {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for _ in 0..self.0 {
            let made = Context::create(gpu.context.device(), WaitMode::BlockingSync);
            drop(made?);
            // The new context was current on this thread and no longer exists.
            gpu.context.bind()?;
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        self.0 as f64
    }
}

fn setup(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let contexts = Params::of(spec).get("contexts", 1..=64)?;
    Ok(Box::new(Contexts(contexts)))
}

/// A context uses memory while it exists, and frees it.
fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
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
