//! `l2`: reads of a buffer that fits in its share of L2, at no more than its share of bandwidth.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::calibrate::DEMAND_OF_SHARE;
use super::l2_reads::{L2Reads, PASSES_KNOB, reads_spec, verify_reads};
use super::params::whole_sms;
use super::{Gpu, Knob, LoadError, Prepared, Throttle, Workload};

/// See the module.
#[derive(Debug)]
pub struct L2;

impl Workload for L2 {
    fn name(&self) -> &'static str {
        "l2"
    }

    fn summary(&self) -> &'static str {
        "reads a buffer that fits in its share of L2, from few enough SMs to keep to its share"
    }

    fn role(&self) -> Role {
        Role::Victim
    }

    fn sub_axis(&self) -> SubAxis {
        SubAxis::L2
    }

    fn resource(&self) -> &'static str {
        "L2 bandwidth and capacity"
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel::L2Stream)
    }

    fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        let blocks = whole_sms(self.name(), props, share)?;
        if props.l2_bytes == 0 {
            let (needs, has) = ("an L2 cache".to_owned(), "none".to_owned());
            return Err(LoadError::TooSmall {
                workload: self.name(),
                needs,
                share,
                has,
            });
        }
        Ok(reads_spec(
            self.name(),
            blocks,
            props.l2_buffer_bytes(DEMAND_OF_SHARE * share),
        ))
    }

    fn knob(&self) -> Option<Knob> {
        Some(PASSES_KNOB)
    }

    fn throttle(&self) -> Throttle {
        Throttle::Blocks
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(L2Reads::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_reads(self.name(), gpu)
    }
}
