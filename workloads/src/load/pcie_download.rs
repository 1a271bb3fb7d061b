//! `pcie-download`: copies to page-locked host memory, at a pace that keeps to the victim's share.
//! Counter: bytes that the device sends over the link.

use gpubench_record::WorkloadSpec;

use super::entry::Entry;
use super::paced_copy::{LINK_VICTIM, Paced, verify_paced};
use super::pinned_copy::{COUNTER_TO_HOST, Way};
use super::{Gpu, LoadError, Prepared};

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "pcie-download",
    summary: "copies to page-locked host memory, at no more than its share of the link",
    resource: "host link, to the host",
    counter: Some(COUNTER_TO_HOST),
    setup,
    verify,
    ..LINK_VICTIM
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(Paced::new(gpu, spec, Way::ToHost)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_paced(name, gpu, Way::ToHost)
}
