//! `pcie`: a copy from page-locked host memory a request.
//!
//! While a copy runs it takes the whole link: what it demands over time follows from how often
//! requests come, so in the closed loop it asks for more than its share.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::pinned_copy::{COPY_KNOB, COUNTER, PinnedCopy, copy_spec, verify_copy};
use super::{Gpu, Knob, LoadError, Prepared, Workload};

/// See the module.
#[derive(Debug)]
pub struct Pcie;

impl Workload for Pcie {
    fn name(&self) -> &'static str {
        "pcie"
    }

    fn summary(&self) -> &'static str {
        "copies from page-locked host memory, one request at a time"
    }

    fn role(&self) -> Role {
        Role::Victim
    }

    fn sub_axis(&self) -> SubAxis {
        SubAxis::Pcie
    }

    fn resource(&self) -> &'static str {
        "host link, to the device"
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn kernel(&self) -> Option<Kernel> {
        None
    }

    fn counter(&self) -> &'static str {
        COUNTER
    }

    fn first_guess(&self, _props: &DeviceProps, _share: f64) -> Result<WorkloadSpec, LoadError> {
        Ok(copy_spec(self.name()))
    }

    fn knob(&self) -> Knob {
        COPY_KNOB
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(PinnedCopy::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_copy(self.name(), gpu)
    }
}
