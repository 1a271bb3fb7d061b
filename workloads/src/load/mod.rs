//! The catalogue of workloads: what a tenant can run, one file each.
//!
//! To add one, write its file with its `WORKLOADS` and add its line to `catalogue!`. All sizes come
//! from the properties of the device or from the calibration on it.

use std::sync::LazyLock;

use gpubench_record::Role;

mod calibrate;
mod chains;
mod error;
mod expected;
mod l2_reads;
mod measure;
mod one_launch;
mod paced_copy;
mod params;
mod pinned_copy;
mod window_copy;
mod workload;

pub use calibrate::{Calibrated, calibrate};
pub use error::LoadError;
use params::Params;
use workload::More;
pub use workload::{Ceiling, Gpu, Knob, LENGTHS_NS, Prepared, Throttle, Workload};

/// Declares the module of each workload and registers its `WORKLOADS`.
macro_rules! catalogue {
    ($( $module:ident, )*) => {
        $( mod $module; )*
        const MODULES: &[&[Workload]] = &[ $( $module::WORKLOADS, )* ];
    };
}

catalogue! {
    compute,
    stream,
    l2,
    pcie,
    pcie_download,
    fma_hog,
    block_slots,
    fp64,
    int,
    tensor,
    shared,
    l1,
    issue,
    inference,
    launch,
    launch_flood,
    alloc,
    alloc_storm,
    context_storm,
    module_storm,
    pin_storm,
    dram_copy,
    dram_read,
    dram_write,
    tlb,
    l2_stream,
    l2_thrash,
    atomics,
    pcie_h2d,
    pcie_d2h,
    pcie_both,
    reserve,
    memory_hog,
    power_virus,
}

/// Every workload: victims first, then aggressors, each in the order of the registry.
pub static CATALOGUE: LazyLock<Vec<&'static Workload>> = LazyLock::new(|| {
    let of = |role: Role| {
        let all = MODULES.iter().copied().flatten();
        all.filter(move |workload| workload.role == role)
    };
    of(Role::Victim).chain(of(Role::Aggressor)).collect()
});

/// The workload with that name.
///
/// # Errors
/// When it is unknown; the error lists the known ones.
pub fn find(name: &str) -> Result<&'static Workload, LoadError> {
    let found = CATALOGUE.iter().find(|workload| workload.name == name);
    found.copied().ok_or_else(|| {
        let known: Vec<_> = CATALOGUE.iter().map(|workload| workload.name).collect();
        LoadError::Unknown { name: name.to_owned(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests;
