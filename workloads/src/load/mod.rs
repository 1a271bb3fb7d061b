//! The catalogue of workloads: what a tenant can run.
//!
//! To add one, write it in the file of its resource and add its line to `MODULES`. All sizes come
//! from the properties of the device or from the calibration on it.

use std::sync::LazyLock;

use gpubench_record::Role;

mod arithmetic;
mod calibrate;
mod capacity;
mod dram;
mod driver_calls;
mod error;
mod expected;
mod inference;
mod l2;
mod launch;
mod on_chip;
mod pcie;
mod pinned_copy;
mod power_virus;
mod workload;

pub use calibrate::{Calibrated, calibrate};
pub use error::LoadError;
use error::Params;
use workload::More;
pub use workload::{Ceiling, Gpu, Knob, LENGTHS_NS, Prepared, Throttle, Workload};

/// The workloads, by the file that defines them.
const MODULES: &[&[Workload]] = &[
    arithmetic::COMPUTE,
    dram::STREAM,
    l2::L2,
    pcie::PCIE,
    pcie::PCIE_DOWNLOAD,
    arithmetic::FMA_HOG,
    on_chip::BLOCK_SLOTS,
    arithmetic::FP64,
    arithmetic::INT,
    arithmetic::TENSOR,
    on_chip::SHARED,
    on_chip::L1,
    arithmetic::ISSUE,
    inference::INFERENCE,
    launch::LAUNCH,
    launch::LAUNCH_FLOOD,
    driver_calls::ALLOC,
    driver_calls::ALLOC_STORM,
    driver_calls::CONTEXT_STORM,
    driver_calls::MODULE_STORM,
    driver_calls::PIN_STORM,
    dram::DRAM_COPY,
    dram::DRAM_READ,
    dram::DRAM_WRITE,
    on_chip::TLB,
    l2::L2_STREAM,
    l2::L2_THRASH,
    l2::ATOMICS,
    pcie::PCIE_H2D,
    pcie::PCIE_D2H,
    pcie::PCIE_BOTH,
    capacity::RESERVE,
    capacity::MEMORY_HOG,
    power_virus::POWER_VIRUS,
];

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
