//! `pcie`: copies from page-locked host memory, at a pace that keeps to the victim's share.

use gpubench_record::WorkloadSpec;

use super::entry::Entry;
use super::paced_copy::{LINK_VICTIM, Paced, verify_paced};
use super::pinned_copy::{COUNTER, Way};
use super::{Gpu, LoadError, Prepared};

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "pcie",
    summary: "copies from page-locked host memory, at no more than its share of the link",
    resource: "host link, to the device",
    counter: Some(COUNTER),
    setup,
    verify,
    ..LINK_VICTIM
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(Paced::new(gpu, spec, Way::ToDevice)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_paced(name, gpu, Way::ToDevice)
}
