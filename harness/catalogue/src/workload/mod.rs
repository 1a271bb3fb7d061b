//! The catalogue of workloads: what a tenant can run.
//!
//! To add one, write its facts in the file of its resource, its line in [`CATALOGUE`], and its
//! device code in `gpubench-workloads`, where a workload without code fails a test.

use gpubench_record::{Role, SubAxis};

mod compute;
mod memory;

pub use compute::*;
pub use memory::*;

/// The facts of a load that a tenant can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    pub summary: &'static str,
    /// Whether it is measured (victim) or stresses a resource (aggressor).
    pub role: Role,
    pub sub_axis: SubAxis,
    /// The resource that it depends on (victim) or exhausts (aggressor).
    pub resource: &'static str,
    pub unit: &'static str,
    /// Workloads of the other role with which it is paired, beside those that list it. A pair is
    /// scored under the sub-axis of its aggressor.
    pub meets: &'static [&'static str],
    /// The counter that shows the use of the resource.
    pub counter: &'static str,
    /// The parameter proportional to the length of a request; `None` where a request is one driver
    /// call of fixed length.
    pub knob: Option<Knob>,
    /// How the demand of a victim is limited to its share.
    pub throttle: Throttle,
    /// Driver error codes that answer a request as success does. They stay in the rows, and no
    /// number of them ends the cell.
    pub answers: &'static [i32],
    /// The resource of an aggressor, where the clocks and widths of a device give its highest rate
    /// in the unit of the workload.
    pub ceiling: Option<Ceiling>,
    /// Its needs beyond those of every device and mechanism; empty for none.
    pub needs: &'static str,
}

impl Workload {
    /// The possible lengths of a request, as text.
    pub fn lengths(&self) -> String {
        match self.knob {
            None => "one driver call of fixed length".to_owned(),
            Some(Knob { param, granule, .. }) => {
                let [shortest_ms, longest_ms] = LENGTHS_NS.map(|length_ns| length_ns as f64 / 1e6);
                format!("{shortest_ms} to {longest_ms} ms, in steps of {granule} {param}")
            }
        }
    }
}

/// A resource with a highest rate that follows from clocks and widths. A multiply-add counts as two
/// operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// Bytes of DRAM, read and written.
    Dram,
    Single,
    Double,
    /// 32-bit integer multiply-adds.
    Int,
    /// Operations of tensor cores on half-precision inputs with single-precision sums.
    Tensor,
    /// Bytes of the host link, in one direction.
    Link,
    /// Bytes of the host link, in both directions together.
    LinkBothWays,
}

impl Ceiling {
    /// Whether it follows from the SM clock, which boards lower under load.
    pub const fn is_of_sm_clock(self) -> bool {
        matches!(self, Self::Single | Self::Double | Self::Int | Self::Tensor)
    }
}

/// How a victim's demand for a resource is limited to its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// By its shape: the resource belongs to its SMs.
    None,
    /// By fewer or smaller blocks: a few SMs already use more than the share of the resource.
    Blocks,
    /// By pauses between the parts of a request, each of which uses the whole resource. The
    /// parameter `rate_per_s` is the maximum work per second, 0 for no pauses.
    Pauses,
}

/// A parameter that sets the length of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    pub param: &'static str,
    pub granule: u64,
    pub max: u64,
}

/// Maximum of a parameter that counts.
pub const COUNT_MAX: u64 = u32::MAX as u64;

/// Longest time that a block stays on its SM.
pub const STAY_NS_MAX: u64 = 1_000_000_000;

/// Shortest and longest request for which every workload with a knob is made. Where one step of the
/// knob is long compared with the shortest, only whole steps are possible.
pub const LENGTHS_NS: [u64; 2] = [100_000, 10_000_000];

const USUAL: Workload = Workload {
    name: "",
    summary: "",
    role: Role::Victim,
    sub_axis: SubAxis::Sm,
    resource: "",
    unit: "operations",
    meets: &[],
    counter: "",
    knob: None,
    throttle: Throttle::None,
    answers: &[],
    ceiling: None,
    needs: "",
};

const fn count(param: &'static str) -> Option<Knob> {
    Some(Knob { param, granule: 1, max: COUNT_MAX })
}

/// Every workload: victims first, then aggressors, in report order.
pub static CATALOGUE: &[&Workload] = &[
    &COMPUTE,
    &STREAM,
    &L2,
    &PCIE,
    &PCIE_DOWNLOAD,
    &FP64,
    &INT,
    &TENSOR,
    &SHARED,
    &L1,
    &ISSUE,
    &INFERENCE,
    &LAUNCH,
    &LAUNCH_SYNC,
    &ALLOC,
    &TLB,
    &ATOMIC,
    &RESERVE,
    &FMA_HOG,
    &BLOCK_SLOTS,
    &FP64_HOG,
    &INT_HOG,
    &TENSOR_HOG,
    &SHARED_HOG,
    &L1_HOG,
    &ISSUE_HOG,
    &LAUNCH_FLOOD,
    &ALLOC_STORM,
    &CONTEXT_STORM,
    &MODULE_STORM,
    &PIN_STORM,
    &DRAM_COPY,
    &DRAM_READ,
    &DRAM_WRITE,
    &TLB_STRIDE,
    &L2_STREAM,
    &L2_THRASH,
    &ATOMICS,
    &PCIE_H2D,
    &PCIE_D2H,
    &PCIE_BOTH,
    &MEMORY_HOG,
    &POWER_VIRUS,
];

pub fn find(name: &str) -> Option<&'static Workload> {
    CATALOGUE.iter().find(|workload| workload.name == name).copied()
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Role, SubAxis};

    use super::{CATALOGUE, Workload, find};
    use std::collections::BTreeSet;

    #[test]
    fn entries_are_unique_and_complete() {
        let names: BTreeSet<_> = CATALOGUE.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for workload in CATALOGUE.iter() {
            let name = workload.name;
            let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(fit), "{name}: a name fit for files");
            assert!(workload.summary.len() > 20 && !workload.summary.ends_with('.'), "{name}");
            for text in [workload.resource, workload.unit, workload.counter] {
                assert!(!text.is_empty(), "{name} leaves something unsaid");
            }
            assert!(find(name).is_some_and(|found| found.name == name));
        }
    }

    #[test]
    fn each_sub_axis_has_its_victim_and_its_aggressor() {
        for workload in CATALOGUE.iter() {
            let other = match workload.role {
                Role::Victim => Role::Aggressor,
                Role::Aggressor => Role::Victim,
                Role::Peer | Role::Idle => panic!("{} is idle", workload.name),
            };
            // Every kernel draws power, so any victim may slow when the budget is exhausted.
            if workload.sub_axis == SubAxis::Power {
                continue;
            }
            let partner = |w: &&&Workload| w.role == other && w.sub_axis == workload.sub_axis;
            assert!(CATALOGUE.iter().any(|w| partner(&w)), "{} has no partner", workload.name);
        }
    }
}
