//! `pcie-h2d`: copies from page-locked host memory without a pause.

use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::pinned_copy::{
    COPY_KNOB, COUNTER, Direction, Directions, PinnedCopy, verify_directions,
};
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, pinned_copy};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "pcie-h2d",
    summary: "copies from page-locked host memory without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the device",
    unit: "bytes",
    meets: &["pcie"],
    kernel: None,
    knob: Some(COPY_KNOB),
    first_guess: pinned_copy::any_device,
    setup,
    verify,
    more: More { ceiling: Some(Ceiling::Link), counter: Some(COUNTER), ..More::NONE },
}];

const DIRECTIONS: Directions = Directions::One(Direction::ToDevice);

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(PinnedCopy::new(gpu, spec, DIRECTIONS)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_directions(name, gpu, DIRECTIONS)
}
