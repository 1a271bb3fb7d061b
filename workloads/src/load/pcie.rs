//! `pcie`: copies from page-locked host memory, at a rate within the victim's share.

use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::paced_copy::{Paced, verify_paced};
use super::pinned_copy::{COUNTER, Direction};
use super::{Gpu, LoadError, More, Prepared, Throttle, Workload, paced_copy, pinned_copy};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "pcie",
    summary: "copies from page-locked host memory, at no more than its share of the link",
    role: Role::Victim,
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the device",
    unit: "bytes",
    meets: &[],
    kernel: None,
    knob: Some(pinned_copy::COPY_KNOB),
    first_guess: paced_copy::unpaced,
    setup,
    verify,
    more: More { counter: Some(COUNTER), throttle: Throttle::Pauses, ..More::NONE },
}];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(Paced::new(gpu, spec, Direction::ToDevice)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_paced(name, gpu, Direction::ToDevice)
}
