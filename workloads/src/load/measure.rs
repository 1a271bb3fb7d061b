//! Times requests of a workload on the device, as a cell does.

use std::sync::Arc;

use gpubench_record::WorkloadSpec;

use super::{Gpu, LoadError, Workload};
use crate::clock::Time;
use crate::device::{EventPool, Requests};
use crate::generator::{DeviceError, Reap, Submit};

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
    /// Times requests one at a time.
    fn measure(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<Measured, LoadError>;

    /// Requests per second when the next request is always queued.
    fn peak_rate_per_s(&mut self, spec: &WorkloadSpec, requests: usize) -> Result<f64, LoadError>;
}

/// The real or virtual device.
pub(super) struct OnDevice<'a> {
    pub(super) workload: &'a Workload,
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
        let mut device =
            Requests { gpu: self.gpu, pool: Arc::clone(&pool), prepared: &mut *prepared };
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
        LoadError::Failed { workload: self.workload.name, error }
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
    use super::rate_per_s;

    #[test]
    fn a_rate_counts_the_intervals() {
        assert_eq!(rate_per_s(&[0, 1_000_000, 2_000_000]), 1_000.0);
        assert_eq!(rate_per_s(&[5, 5]), 0.0);
        assert_eq!(rate_per_s(&[5]), 0.0);
        assert_eq!(rate_per_s(&[]), 0.0);
    }
}
