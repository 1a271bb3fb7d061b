//! `pcie-d2h`: copies to page-locked host memory without a pause. Counter: bytes that the device
//! sends over the link.

use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::pinned_copy::{COUNTER_TO_HOST, Direction, Directions, PinnedCopy, verify_directions};
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, pinned_copy};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "pcie-d2h",
    summary: "copies to page-locked host memory without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the host",
    unit: "bytes",
    meets: &["pcie-download"],
    kernel: None,
    knob: Some(pinned_copy::COPY_KNOB),
    first_guess: pinned_copy::any_device,
    setup,
    verify,
    more: More { ceiling: Some(Ceiling::Link), counter: Some(COUNTER_TO_HOST), ..More::NONE },
}];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(PinnedCopy::new(gpu, spec, Directions::One(Direction::ToHost))?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_directions(name, gpu, Directions::One(Direction::ToHost))
}
