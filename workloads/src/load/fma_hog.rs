//! `fma-hog`: single-precision arithmetic in every thread slot of every SM.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::compute::{CHAIN_KNOB, Chain, THREADS, chain_spec, verify_chain};
use super::{Gpu, Knob, LoadError, Prepared, Workload};

/// See the module.
#[derive(Debug)]
pub struct FmaHog;

impl Workload for FmaHog {
    fn name(&self) -> &'static str {
        "fma-hog"
    }

    fn summary(&self) -> &'static str {
        "multiply-adds in single precision that fill every SM with as many threads as it takes"
    }

    fn role(&self) -> Role {
        Role::Aggressor
    }

    fn sub_axis(&self) -> SubAxis {
        SubAxis::Sm
    }

    fn resource(&self) -> &'static str {
        "SMs"
    }

    fn unit(&self) -> &'static str {
        "operations"
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel::Fp32Chain)
    }

    fn first_guess(&self, props: &DeviceProps, _share: f64) -> Result<WorkloadSpec, LoadError> {
        Ok(chain_spec(
            self.name(),
            props.full_grid(THREADS).blocks.into(),
        ))
    }

    fn knob(&self) -> Option<Knob> {
        Some(CHAIN_KNOB)
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(Chain::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_chain(self.name(), gpu)
    }
}
