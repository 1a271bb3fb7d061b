//! The device code of the workloads in `gpubench-catalogue`.
//!
//! To add one, write its facts there, its code in the file of its resource, and the line of that
//! file in `MODULES`. All sizes come from the properties of the device or from the calibration on
//! it.

use std::sync::LazyLock;

use gpubench_catalogue::workload;

mod arithmetic;
mod calibrate;
mod capacity;
mod definition;
mod dram;
mod driver_calls;
mod error;
mod expected;
mod gpu;
mod inference;
mod l2;
mod launch;
mod on_chip;
mod output;
mod pcie;
mod pinned_copy;
mod power_virus;
mod stripes;

pub use calibrate::{Calibrated, calibrate};
use definition::{Guess, More};
pub use definition::{Load, Prepared};
pub use error::LoadError;
use error::Params;
pub use gpu::Gpu;
pub use output::{Output, Part};
pub(crate) use stripes::{Found, Stripes};

/// The loads, by the file that defines them.
const MODULES: &[&[Load]] = &[
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

/// Every load, in the order of the catalogue.
pub static LOADS: LazyLock<Vec<&'static Load>> = LazyLock::new(|| {
    let load = |facts: &&workload::Workload| {
        let mut all = MODULES.iter().copied().flatten();
        all.find(|load| load.facts.name == facts.name)
    };
    workload::CATALOGUE.iter().filter_map(load).collect()
});

pub fn find(name: &str) -> Result<&'static Load, LoadError> {
    let found = LOADS.iter().find(|load| load.facts.name == name);
    found.copied().ok_or_else(|| {
        let known: Vec<_> = LOADS.iter().map(|load| load.facts.name).collect();
        LoadError::Unknown { name: name.to_owned(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests;
