//! `dram-copy`: a streaming copy from every SM.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::window_copy::{COPY_KNOB, THREADS, WindowCopy, copy_spec, verify_copy};
use super::{Gpu, Knob, LoadError, Prepared, Workload};

/// See the module.
#[derive(Debug)]
pub struct DramCopy;

impl Workload for DramCopy {
    fn name(&self) -> &'static str {
        "dram-copy"
    }

    fn summary(&self) -> &'static str {
        "copies through DRAM from every SM, over a footprint well above L2"
    }

    fn role(&self) -> Role {
        Role::Aggressor
    }

    fn sub_axis(&self) -> SubAxis {
        SubAxis::Dram
    }

    fn resource(&self) -> &'static str {
        "DRAM bandwidth"
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel::StreamCopy)
    }

    fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        copy_spec(
            self.name(),
            props,
            share,
            props.full_grid(THREADS).blocks.into(),
        )
    }

    fn knob(&self) -> Option<Knob> {
        Some(COPY_KNOB)
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(WindowCopy::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_copy(self.name(), gpu)
    }
}
