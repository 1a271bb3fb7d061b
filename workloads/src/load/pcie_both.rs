//! `pcie-both`: copies in both directions at once. Counter: bytes of the link, both ways.
//!
//! Waived where there is one copy engine, which does one copy after the other.

use gpubench_record::WorkloadSpec;

use super::entry::Entry;
use super::pinned_copy::{COUNTER, LINK_AGGRESSOR, PinnedCopy, Ways, verify_ways};
use super::{Gpu, LoadError, Prepared};

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "pcie-both",
    summary: "copies to and from page-locked host memory at the same time without a pause",
    resource: "host link, both ways",
    counter: Some(COUNTER),
    needs: "two copy engines",
    lacks,
    setup,
    verify,
    ..LINK_AGGRESSOR
};

fn lacks(gpu: &Gpu) -> Result<Option<String>, LoadError> {
    let engines = gpu.props.copy_engines;
    Ok((engines < 2).then(|| format!("{engines} copy engines, two are needed for both ways")))
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(PinnedCopy::new(gpu, spec, Ways::Both)?))
}

fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_ways(name, gpu, Ways::Both)
}
