//! `stream`: a streaming copy that asks for no more DRAM bandwidth than its share.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::whole_sms;
use super::window_copy::{COPY_KNOB, WindowCopy, copy_spec, verify_copy};
use super::{Gpu, Knob, LoadError, Prepared, Throttle, Workload};

/// See the module.
#[derive(Debug)]
pub struct Stream;

impl Workload for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn summary(&self) -> &'static str {
        "copies through DRAM from few enough SMs that it demands no more than its share"
    }

    fn role(&self) -> Role {
        Role::Victim
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
            whole_sms(self.name(), props, share)?,
        )
    }

    fn knob(&self) -> Option<Knob> {
        Some(COPY_KNOB)
    }

    fn throttle(&self) -> Throttle {
        Throttle::Blocks
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(WindowCopy::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_copy(self.name(), gpu)
    }
}
