//! `pcie-d2h`: copies to page-locked host memory that leave the link no rest. Counter: bytes that
//! the device sends over the link.

use gpubench_record::WorkloadSpec;

use super::entry::Entry;
use super::pinned_copy::{COUNTER_TO_HOST, LINK_AGGRESSOR, PinnedCopy, Way, Ways, verify_ways};
use super::{Gpu, LoadError, Prepared};

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "pcie-d2h",
    summary: "copies to page-locked host memory without a pause",
    resource: "host link, to the host",
    counter: Some(COUNTER_TO_HOST),
    setup,
    verify,
    ..LINK_AGGRESSOR
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(PinnedCopy::new(
        gpu,
        spec,
        Ways::One(Way::ToHost),
    )?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_ways(name, gpu, Ways::One(Way::ToHost))
}
