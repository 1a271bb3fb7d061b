//! `pcie-both`: copies in both directions at once. Counter: bytes of the link, both ways.
//!
//! Waived where there is one copy engine, which runs one copy after the other.

use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::pinned_copy::{COUNTER, Directions, PinnedCopy, verify_directions};
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, pinned_copy};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "pcie-both",
    summary: "copies to and from page-locked host memory at the same time without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, both ways",
    unit: "bytes",
    meets: &["pcie"],
    kernel: None,
    knob: Some(pinned_copy::COPY_KNOB),
    first_guess: pinned_copy::any_device,
    setup,
    verify,
    more: More {
        ceiling: Some(Ceiling::LinkBothWays),
        counter: Some(COUNTER),
        needs: "two copy engines",
        lacks,
        ..More::NONE
    },
}];

fn lacks(gpu: &Gpu) -> Result<Option<String>, LoadError> {
    let engines = gpu.props.copy_engines;
    Ok((engines < 2).then(|| format!("{engines} copy engines, both directions need two")))
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(PinnedCopy::new(gpu, spec, Directions::Both)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_directions(name, gpu, Directions::Both)
}
