//! `l2-stream`: reads that keep L2 busy from every SM.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::l2_reads::{L2Reads, PASSES_KNOB, THREADS, reads_spec, verify_reads};
use super::{Gpu, Knob, LoadError, Prepared, Workload};

/// Part of L2 that it reads: safely inside, also where the cache is cut in two halves that each
/// keep a copy of what is read from the other side (as on GA100 and GH100).
const PART_OF_L2: f64 = 0.4;

/// See the module.
#[derive(Debug)]
pub struct L2Stream;

impl Workload for L2Stream {
    fn name(&self) -> &'static str {
        "l2-stream"
    }

    fn summary(&self) -> &'static str {
        "reads a buffer that stays in L2 from every SM"
    }

    fn role(&self) -> Role {
        Role::Aggressor
    }

    fn sub_axis(&self) -> SubAxis {
        SubAxis::L2
    }

    fn resource(&self) -> &'static str {
        "L2 bandwidth"
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel::L2Stream)
    }

    fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        if props.l2_bytes == 0 {
            let (needs, has) = ("an L2 cache".to_owned(), "none".to_owned());
            return Err(LoadError::TooSmall {
                workload: self.name(),
                needs,
                share,
                has,
            });
        }
        let blocks = props.full_grid(THREADS).blocks.into();
        Ok(reads_spec(
            self.name(),
            blocks,
            props.l2_buffer_bytes(PART_OF_L2),
        ))
    }

    fn knob(&self) -> Option<Knob> {
        Some(PASSES_KNOB)
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        Ok(Box::new(L2Reads::new(gpu, spec)?))
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        verify_reads(self.name(), gpu)
    }
}
