//! The rate of a workload that follows from what a device reports: SMs, clocks and bus width. The
//! driver reports the same figures on every device of a model, so calibration that starts from them
//! gives every device of a model the same victims.
//!
//! The figures are work per clock and SM, by compute capability. They say what one block on an SM
//! reaches and what a full SM reaches, and need to be right within the tolerance of a request's
//! length only: calibration measures the request and searches where they are not.

use std::sync::Arc;

use gpubench_kernels::driver::DeviceProps;
use gpubench_record::WorkloadSpec;

use super::{Gpu, Load, LoadError};
use crate::clock::Time;
use crate::device::{EventPool, Requests};
use crate::generator::{DeviceError, Reap, Submit};

/// Work per second of a workload with these parameters; `None` where no figure gives it.
pub(super) type Expected = fn(&DeviceProps, &WorkloadSpec) -> Option<f64>;

/// Bytes per second that one SM copies through DRAM, in round figures.
const SM_COPY_PER_S: f64 = 65e9;
const SM_COPY_PER_S_BEFORE_8: f64 = 24e9;

/// The part of clock times width that DRAM reaches: 0.83 of 3.35e12 bytes/s on an H100.
const DRAM_REACHED: f64 = 0.83;

/// Page translations for each byte of DRAM bandwidth.
const TRANSLATIONS_PER_BYTE: f64 = 0.0049;

/// SMs of a device for each SM that saturates L2, or address translation, with loads.
const SMS_OF_LOADS: f64 = 2.6;

const SMS_OF_ATOMICS: f64 = 11.0;

/// No figure gives the rate.
pub(super) const UNKNOWN: Expected = |_, _| None;

/// Single-precision operations: two for each lane and clock; eight warps reach 240 of 256.
pub(super) const SINGLE_PRECISION: Expected = |props, spec| {
    let has_64_lanes = matches!(props.compute_capability, (7, _) | (8, 0));
    let per_clock = if has_64_lanes { 128.0 } else { 240.0 };
    per_sm(props, spec, [per_clock; 2])
};

pub(super) const DOUBLE_PRECISION: Expected = |props, spec| {
    let per_clock = match props.compute_capability {
        (7, 0) | (8, 0) => [64.0; 2],
        (9 | 10, 0) => [96.0, 128.0],
        _ => [4.0; 2],
    };
    per_sm(props, spec, per_clock)
};

/// 32-bit integer operations.
pub(super) const INT: Expected = |props, spec| per_sm(props, spec, [119.0; 2]);

/// Operations of two kinds in turn.
pub(super) const ISSUE: Expected = |props, spec| per_sm(props, spec, [123.0, 170.0]);

/// Operations of tensor cores.
pub(super) const TENSOR: Expected = |props, spec| {
    let per_clock = match props.compute_capability {
        (7, _) | (8, 6) => 1012.0,
        (8, _) => 2024.0,
        _ => 4048.0,
    };
    per_sm(props, spec, [per_clock; 2])
};

/// Bytes of L1.
pub(super) const L1: Expected = |props, spec| per_sm(props, spec, [58.0, shared_width(props)]);

/// Bytes of shared memory.
pub(super) const SHARED: Expected = |props, spec| per_sm(props, spec, [shared_width(props); 2]);

/// Bytes of L2.
pub(super) const L2: Expected = |props, spec| {
    let one = match props.compute_capability.0 {
        ..=7 => 40.0,
        8 => 62.0,
        _ => 47.5,
    };
    per_sm(props, spec, [one, 21.0])
};

/// Atomic additions in L2.
pub(super) const ATOMICS: Expected = |props, spec| {
    let one = match props.compute_capability.0 {
        ..=7 => 8.1,
        8 => 11.0,
        _ => 9.8,
    };
    per_sm(props, spec, [one, 1.0])
};

/// Bytes of DRAM, read and written.
pub(super) const DRAM: Expected = |props, spec| {
    let of_sms = sms(props, spec) * sm_copy_per_s(props);
    known(of_sms.min(dram_per_s(props)))
};

pub(super) const PAGES: Expected = |props, spec| {
    let total = dram_per_s(props) * TRANSLATIONS_PER_BYTE;
    // One SM translates twice its equal part.
    let of_sms = 2.0 * total / f64::from(props.sm_count.max(1)) * sms(props, spec);
    known(of_sms.min(total))
};

/// SMs that saturate DRAM with copies.
pub(super) fn sms_of_copies(props: &DeviceProps) -> f64 {
    DRAM_REACHED * dram_per_s(props) / sm_copy_per_s(props)
}

/// SMs that saturate L2, or address translation, with loads.
pub(super) fn sms_of_loads(props: &DeviceProps) -> f64 {
    f64::from(props.sm_count) / SMS_OF_LOADS
}

/// SMs that saturate L2 with atomic additions.
pub(super) fn sms_of_atomics(props: &DeviceProps) -> f64 {
    f64::from(props.sm_count) / SMS_OF_ATOMICS
}

/// SMs on which a launch of this shape runs.
fn sms(props: &DeviceProps, spec: &WorkloadSpec) -> f64 {
    let blocks = spec.params.get("blocks").copied().unwrap_or(0);
    blocks.min(props.sm_count.into()) as f64
}

fn per_sm(props: &DeviceProps, spec: &WorkloadSpec, [one_block, full]: [f64; 2]) -> Option<f64> {
    let is_full = spec.params.get("blocks")? > &u64::from(props.sm_count);
    let per_clock = if is_full { full } else { one_block };
    known(per_clock * sms(props, spec) * f64::from(props.sm_clock_khz) * 1e3)
}

/// Bytes of shared memory that an SM reads in a clock.
fn shared_width(props: &DeviceProps) -> f64 {
    if props.compute_capability == (7, 5) { 64.0 } else { 128.0 }
}

fn sm_copy_per_s(props: &DeviceProps) -> f64 {
    if props.compute_capability < (8, 0) { SM_COPY_PER_S_BEFORE_8 } else { SM_COPY_PER_S }
}

/// Two transfers a clock on every line of the bus.
fn dram_per_s(props: &DeviceProps) -> f64 {
    2.0 * f64::from(props.memory_clock_khz) * 1e3 * f64::from(props.memory_bus_bits) / 8.0
}

/// A rate of 0 means that the driver reports no clock.
fn known(per_s: f64) -> Option<f64> {
    (per_s > 0.0).then_some(per_s)
}

// Times requests of a workload on the device, as a cell does.

/// Minimum number of requests before the measurement: the first ones load code and fill caches.
const WARM_UP: usize = 3;

/// Figures of a few requests, one at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Median of the time from issue to completion.
    pub(super) service_ns: u64,
    /// Requests per second.
    pub(super) rate_per_s: f64,
    pub(super) work_per_request: f64,
}

/// A device that can time requests.
pub(super) trait Bench {
    fn measure(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<Measured, LoadError>;

    /// Requests per second when the next request is always queued.
    fn peak_rate_per_s(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<f64, LoadError>;
}

/// The real or virtual device.
pub(super) struct OnDevice<'a> {
    pub(super) workload: &'a Load,
    pub(super) gpu: &'a Gpu,
    pub(super) time: &'a dyn Time,
}

impl Bench for OnDevice<'_> {
    fn measure(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<Measured, LoadError> {
        let (work_per_request, times) = self.timed(spec, 1, requests)?;
        let mut services_ns: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        services_ns.sort_unstable();
        // Calibration times at least two requests, so there is a difference.
        let service_ns = services_ns.get(services_ns.len() / 2).copied().unwrap_or(0);
        Ok(Measured { service_ns, rate_per_s: rate_per_s(&times), work_per_request })
    }

    fn peak_rate_per_s(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<f64, LoadError> {
        Ok(rate_per_s(&self.timed(spec, 2, requests)?.1))
    }
}

impl OnDevice<'_> {
    /// The work of a request, and the end times of `requests` of them, with one end before the
    /// first. Up to `depth` are outstanding; at 1, a request is issued when the last one has ended.
    fn timed(
        &self,
        spec: &WorkloadSpec,
        depth: usize,
        requests: usize,
    ) -> Result<(f64, Vec<u64>), LoadError> {
        let mut prepared = self.workload.setup(self.gpu, spec)?;
        let work_per_request = prepared.work_per_request();
        let warm_up = WARM_UP.max(prepared.cycle());
        let pool = Arc::new(EventPool::new(&self.gpu.context, self.gpu.spin, depth)?);
        let mut device = Requests::new(self.gpu, Arc::clone(&pool), &mut *prepared);
        let mut ended_ns = Vec::with_capacity(requests + 1);
        let failed = |error: DeviceError| self.failed(error);
        // Requests continue until the last measured end. Without them a request that keeps the host
        // busy would be missing from the last intervals.
        let issued = warm_up + requests + depth - 1;
        for number in 0..issued + depth {
            if number >= depth {
                pool.wait(number % depth).map_err(failed)?;
                if number >= warm_up + depth - 1 && ended_ns.len() <= requests {
                    ended_ns.push(self.time.now_ns());
                }
            }
            if number < issued {
                device.submit(number % depth).map_err(failed)?;
            }
        }
        Ok((work_per_request, ended_ns))
    }

    fn failed(&self, error: DeviceError) -> LoadError {
        LoadError::Failed { workload: self.workload.facts.name, error }
    }
}

/// Ends per second between the first and the last instant.
fn rate_per_s(ended_ns: &[u64]) -> f64 {
    match ended_ns {
        [first, .., last] if last > first => {
            (ended_ns.len() - 1) as f64 * 1e9 / (last - first) as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small_device;
    use super::*;
    use crate::load::error::spec;

    /// As the driver reports it.
    fn h100() -> DeviceProps {
        DeviceProps {
            sm_count: 132,
            compute_capability: (9, 0),
            sm_clock_khz: 1_980_000,
            memory_clock_khz: 2_619_000,
            memory_bus_bits: 5120,
            ..small_device()
        }
    }

    /// Rates in `reports/examples/h100_580.159.04_matrix`.
    #[test]
    fn rates_on_an_h100_are_those_of_its_record() {
        for (name, rate, blocks, measured, allowed) in [
            ("compute", SINGLE_PRECISION, 56, 2.54e13, 0.1),
            ("fma-hog", SINGLE_PRECISION, 1056, 6.07e13, 0.25),
            ("dram-copy", DRAM, 1056, 2.774e12, 0.25),
        ] {
            let found = rate(&h100(), &spec(name, [("blocks", blocks)])).expect("a rate");
            assert!((found / measured - 1.0).abs() < allowed, "{name}: {found:e} for {measured:e}");
        }
        // The record has 17 blocks within 0.386 of the bandwidth.
        assert!((15.0..=18.0).contains(&(0.9 * 3.0 / 7.0 * sms_of_copies(&h100()))));
    }

    #[test]
    fn a_device_without_clocks_has_no_expected_rate() {
        let silent = DeviceProps { sm_clock_khz: 0, memory_clock_khz: 0, ..h100() };
        let one = spec("compute", [("blocks", 56)]);
        for rate in
            [SINGLE_PRECISION, DOUBLE_PRECISION, INT, TENSOR, L1, SHARED, L2, ATOMICS, DRAM, PAGES]
        {
            assert_eq!(rate(&silent, &one), None);
        }
    }

    #[test]
    fn a_rate_counts_the_intervals() {
        assert_eq!(rate_per_s(&[0, 1_000_000, 2_000_000]), 1_000.0);
        assert_eq!(rate_per_s(&[5, 5]), 0.0);
        assert_eq!(rate_per_s(&[5]), 0.0);
        assert_eq!(rate_per_s(&[]), 0.0);
    }
}
