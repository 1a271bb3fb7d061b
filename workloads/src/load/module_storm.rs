//! `module-storm`: loads a module from PTX and unloads it. Counter: calls of `cuModuleLoadDataEx`.
//!
//! The driver caches compiled code on disk, so after the first request this stresses loading and
//! the driver's locks, as a starting program does, and not compilation.

use gpubench_kernels::driver::{DeviceProps, DriverError, Module};
use gpubench_kernels::{Kernel, KernelInfo};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::spec;
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Workload};

/// Request length in modules.
const MODULES_KNOB: Knob = Knob { param: "modules", granule: 1, max: u32::MAX as u64 };

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "module-storm",
    summary: "loads a module and unloads it without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's module loading",
    unit: "modules",
    meets: &["alloc"],
    kernel: None,
    knob: Some(MODULES_KNOB),
    first_guess: few,
    setup,
    verify,
    more: More { counter: Some("calls of cuModuleLoadDataEx"), ..More::NONE },
}];

fn few(name: &'static str, _: &DeviceProps, _share: f64) -> Result<WorkloadSpec, LoadError> {
    Ok(spec(name, [("modules", 1)]))
}

#[derive(Debug)]
struct Modules(u64);

impl Modules {
    /// A kernel of a typical size.
    fn info() -> &'static KernelInfo {
        Kernel::Softmax.info()
    }
}

impl Prepared for Modules {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        let info = Self::info();
        for _ in 0..self.0 {
            drop(Module::load(&gpu.context, info.name, info.ptx)?);
        }
        Ok(())
    }

    fn work_per_request(&self) -> f64 {
        self.0 as f64
    }
}

fn setup(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let modules = Params::of(spec).get("modules", 1..=MODULES_KNOB.max)?;
    Ok(Box::new(Modules(modules)))
}

/// Every loaded module has its entry point.
fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let info = Modules::info();
    for _ in 0..2 {
        Module::load(&gpu.context, info.name, info.ptx)?.function(info.name)?;
    }
    Ok(())
}
