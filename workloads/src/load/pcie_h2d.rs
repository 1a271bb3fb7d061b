//! `pcie-h2d`: copies from page-locked host memory that leave the link no rest.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::pinned_copy::{COPY_KNOB, COUNTER, PinnedCopy, Way, Ways, copy_spec, verify_ways};
use super::{Gpu, Knob, LoadError, Prepared, Workload};

/// See the module.
#[derive(Debug)]
pub struct PcieH2d;

impl Workload for PcieH2d {
    fn name(&self) -> &'static str {
        "pcie-h2d"
    }

    fn summary(&self) -> &'static str {
        "copies from page-locked host memory without a pause"
    }

    fn role(&self) -> Role {
        Role::Aggressor
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

    fn knob(&self) -> Option<Knob> {
        Some(COPY_KNOB)
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(PinnedCopy::new(
            gpu,
            spec,
            Ways::One(Way::ToDevice),
        )?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_ways(self.name(), gpu, Ways::One(Way::ToDevice))
    }
}
