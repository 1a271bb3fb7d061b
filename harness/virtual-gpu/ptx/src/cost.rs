//! Timing of one warp: when it can issue, and when each register is ready.

use crate::counts::Class;

/// Cycles that a warp spends per instruction. Indices are those of [`Class`].
///
/// A warp issues in order. An instruction waits until the registers that it reads are ready, holds
/// the issue port of its class for `issue` cycles, and its results are ready `latency` cycles after
/// issue. Contention between warps is modelled elsewhere, by the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycleModel {
    pub clock_mhz: u32,
    /// Cycles for which an instruction holds its issue port: 32 lanes over the port's width.
    pub issue_cycles: [u32; Class::COUNT],
    /// Cycles from issue to a usable result.
    pub latency_cycles: [u32; Class::COUNT],
    /// Cycles of a read of `%globaltimer`. The register ticks about once a microsecond on real
    /// devices; charging each read accordingly keeps spin loops short without changing their end.
    pub globaltimer_cycles: u32,
    /// Cycles from the issue of a load that hits L1 to a usable result.
    pub l1_hit_cycles: u32,
}

impl Default for CycleModel {
    /// Volta's figures: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
    /// Microbenchmarking" (arXiv 1804.06826): 4 cycles dependent issue of core arithmetic, 8 for
    /// FP64, shared memory 19, L1 hit 28, L2 hit 193, L2 miss about 375; widths per scheduler
    /// from the V100 whitepaper (16 FP32, 16 INT, 8 FP64, 4 SFU lanes, 8 load/store lanes).
    fn default() -> Self {
        let mut issue_cycles = [2; Class::COUNT];
        let mut latency_cycles = [4; Class::COUNT];
        let mut set = |class: Class, issue: u32, latency: u32| {
            issue_cycles[class as usize] = issue;
            latency_cycles[class as usize] = latency;
        };
        set(Class::Fp64, 4, 8);
        set(Class::Sfu, 8, 18);
        set(Class::Convert, 8, 14);
        set(Class::LoadGlobal, 4, 375);
        set(Class::StoreGlobal, 4, 4);
        set(Class::Shared, 4, 19);
        set(Class::Local, 4, 28);
        set(Class::Atomic, 4, 375);
        set(Class::Barrier, 2, 16);
        set(Class::Control, 2, 8);
        Self {
            clock_mhz: 1380,
            issue_cycles,
            latency_cycles,
            globaltimer_cycles: 690,
            l1_hit_cycles: 28,
        }
    }
}

impl CycleModel {
    /// Cycles as nanoseconds, rounded down.
    pub fn cycles_to_ns(&self, cycles: u64) -> u64 {
        // u128: a cycle count near 2^64 must not wrap.
        (u128::from(cycles) * 1000 / u128::from(self.clock_mhz.max(1))) as u64
    }

    /// Nanoseconds as cycles, rounded up.
    pub fn ns_to_cycles(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.clock_mhz)).div_ceil(1000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_cycles_convert_both_ways() {
        let model = CycleModel { clock_mhz: 1500, ..CycleModel::default() };
        assert_eq!(model.cycles_to_ns(3000), 2000);
        assert_eq!(model.ns_to_cycles(2000), 3000);
        assert_eq!(model.ns_to_cycles(1), 2);
    }
}
