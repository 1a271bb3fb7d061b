//! The reference model: three queues over the same arrivals. It is fixed and gets no refinements.
//!
//! MIG has a queue per tenant on a slower device. MPS has a queue per tenant; each tenant that is
//! busy at an arrival, the own one included, lengthens the service time. Time-slicing has one
//! queue, with a cost for each change of tenant. The order of floating-point operations is part of
//! the model.

use super::arrivals::Arrivals;
use super::scenario::Scenario;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One served request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Its tenant.
    pub tenant: usize,
    /// From arrival to end.
    pub latency_s: f64,
    /// Time in service, the change of tenant included.
    pub busy_s: f64,
    /// Time of its end.
    pub end_s: f64,
}

/// MIG: each tenant on its own instance.
pub fn mig(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let service_s: Vec<f64> =
        loads.iter().map(|load| scenario.slice_service_s(load.service_s)).collect();
    let mut free_s = vec![0.0_f64; loads.len()];
    for (now_s, tenant) in arrivals.iter() {
        let start_s = later(now_s, free_s[tenant]);
        let end_s = start_s + service_s[tenant];
        free_s[tenant] = end_s;
        let latency_s = start_s - now_s + service_s[tenant];
        sink(Service { tenant, latency_s, busy_s: service_s[tenant], end_s });
    }
}

/// MPS: tenants side by side, slowed by the tenants that are busy at the arrival of a request.
pub fn mps(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let hostile = scenario.hostile.as_ref();
    let hostile = hostile.map(|hostile| (hostile.tenant as usize, hostile.contention));
    // Factors by number of busy tenants, from a table: each request depends on the end of the one
    // before, so every operation in between adds to the run time.
    let stretches = |contention: f64| -> Vec<f64> {
        (0..=loads.len()).map(|concurrent| 1.0 + contention * concurrent as f64).collect()
    };
    let beside_normal = stretches(scenario.contention);
    let beside_hostile = hostile.map(|(index, contention)| (index, stretches(contention)));
    let last_end_bits: Vec<AtomicU64> = loads.iter().map(|_| AtomicU64::new(0)).collect();
    let last_end_s = |tenant: usize| f64::from_bits(last_end_bits[tenant].load(Relaxed));
    for (now_s, tenant) in arrivals.iter() {
        let concurrent = busy_after(&last_end_bits, now_s);
        let stretch = match &beside_hostile {
            Some((index, stretch)) if *index != tenant && last_end_s(*index) > now_s => stretch,
            _ => &beside_normal,
        };
        let service_s = loads[tenant].service_s * stretch[concurrent];
        let start_s = later(now_s, last_end_s(tenant));
        let end_s = start_s + service_s;
        last_end_bits[tenant].store(end_s.to_bits(), Relaxed);
        let latency_s = start_s - now_s + service_s;
        sink(Service { tenant, latency_s, busy_s: service_s, end_s });
    }
}

/// The later of two times, in one instruction; `f64::max` has an additional check for NaN.
#[inline]
fn later(a_s: f64, b_s: f64) -> f64 {
    if b_s > a_s { b_s } else { a_s }
}

/// The number of ends after a time. The loads are atomic to prevent vector loads: a vector load
/// right after the narrower store of an end stalls, which costs more than the count.
#[inline]
fn busy_after(end_bits: &[AtomicU64], now_s: f64) -> usize {
    // Bits of non-negative floats are ordered like the floats.
    let now_bits = now_s.to_bits();
    end_bits.iter().map(|end_bits| usize::from(end_bits.load(Relaxed) > now_bits)).sum()
}

/// Time-slicing: one queue for all tenants, with a cost for each change of tenant.
pub fn time_slice(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let switch_s = scenario.switch_ms / 1000.0;
    let mut free_s = 0.0_f64;
    let mut last = arrivals.iter().next().map_or(0, |(_, tenant)| tenant);
    for (now_s, tenant) in arrivals.iter() {
        let service_s = loads[tenant].service_s;
        // A select instead of a branch; adding zero changes no bit.
        let is_change = tenant != last;
        let paid_s = std::hint::select_unpredictable(is_change, switch_s, 0.0);
        let start_s = later(now_s, free_s) + paid_s;
        last = tenant;
        free_s = start_s + service_s;
        let latency_s = start_s - now_s + service_s;
        sink(Service { tenant, latency_s, busy_s: paid_s + service_s, end_s: free_s });
    }
}
