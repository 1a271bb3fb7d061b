//! The reference model: three queues over the same arrivals, with no refinement ever added.
//!
//! MIG is a queue per tenant on a slower device; MPS a queue per tenant whose service stretches
//! with every tenant busy at the arrival, itself included; time-slicing one queue that pays for
//! every change of tenant. The order of the floating-point operations is part of the model.

use super::arrivals::Arrivals;
use super::scenario::Scenario;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One request, served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Whose.
    pub tenant: usize,
    /// From arrival to end.
    pub latency_s: f64,
    /// Time in service, the change of tenant included.
    pub busy_s: f64,
    /// When it ended.
    pub end_s: f64,
}

/// MIG: every tenant on a slice of its own.
pub fn mig(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let service_s: Vec<f64> = loads
        .iter()
        .map(|load| scenario.slice_service_s(load.service_s))
        .collect();
    let mut free_s = vec![0.0_f64; loads.len()];
    for (now_s, tenant) in arrivals.iter() {
        let start_s = later(now_s, free_s[tenant]);
        let end_s = start_s + service_s[tenant];
        free_s[tenant] = end_s;
        let latency_s = start_s - now_s + service_s[tenant];
        sink(Service {
            tenant,
            latency_s,
            busy_s: service_s[tenant],
            end_s,
        });
    }
}

/// MPS: tenants side by side, each stretched by those that are busy when its request arrives.
pub fn mps(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let hostile = scenario.hostile.as_ref();
    let hostile = hostile.map(|hostile| (hostile.tenant as usize, hostile.contention));
    // How much a request is stretched, by the number of busy tenants: looked up, as each request
    // waits for the end of the one before it, and every operation in between is waited for as well.
    let stretches = |contention: f64| -> Vec<f64> {
        (0..=loads.len())
            .map(|concurrent| 1.0 + contention * concurrent as f64)
            .collect()
    };
    let beside_normal = stretches(scenario.contention);
    let beside_hostile = hostile.map(|(who, contention)| (who, stretches(contention)));
    let last_end_bits: Vec<AtomicU64> = loads.iter().map(|_| AtomicU64::new(0)).collect();
    let last_end_s = |tenant: usize| f64::from_bits(last_end_bits[tenant].load(Relaxed));
    for (now_s, tenant) in arrivals.iter() {
        let concurrent = busy_after(&last_end_bits, now_s);
        let stretch = match &beside_hostile {
            Some((who, stretch)) if *who != tenant && last_end_s(*who) > now_s => stretch,
            _ => &beside_normal,
        };
        let service_s = loads[tenant].service_s * stretch[concurrent];
        let start_s = later(now_s, last_end_s(tenant));
        let end_s = start_s + service_s;
        last_end_bits[tenant].store(end_s.to_bits(), Relaxed);
        let latency_s = start_s - now_s + service_s;
        sink(Service {
            tenant,
            latency_s,
            busy_s: service_s,
            end_s,
        });
    }
}

/// The later of two times. One instruction; `f64::max` asks first whether either is no number, and
/// every request waits for it.
#[inline]
fn later(a_s: f64, b_s: f64) -> f64 {
    if b_s > a_s { b_s } else { a_s }
}

/// How many of the ends lie after a time. The loads are atomic so that they stay single: a vector
/// load right behind the narrower store of an end waits for it, which costs more than the count.
#[inline]
fn busy_after(end_bits: &[AtomicU64], now_s: f64) -> usize {
    // Bits of floats that are not negative order as the floats do.
    let now_bits = now_s.to_bits();
    end_bits
        .iter()
        .map(|end_bits| usize::from(end_bits.load(Relaxed) > now_bits))
        .sum()
}

/// Time-slicing: one queue for all, and a price for every change of tenant.
pub fn time_slice(scenario: &Scenario, arrivals: &Arrivals, mut sink: impl FnMut(Service)) {
    let loads = scenario.loads();
    let switch_s = scenario.switch_ms / 1000.0;
    let mut free_s = 0.0_f64;
    let mut last = arrivals.iter().next().map_or(0, |(_, tenant)| tenant);
    for (now_s, tenant) in arrivals.iter() {
        let service_s = loads[tenant].service_s;
        // Adding zero changes no bit, and no branch depends on the tenant that is served.
        let is_change = tenant != last;
        let paid_s = std::hint::select_unpredictable(is_change, switch_s, 0.0);
        let start_s = later(now_s, free_s) + paid_s;
        last = tenant;
        free_s = start_s + service_s;
        let latency_s = start_s - now_s + service_s;
        sink(Service {
            tenant,
            latency_s,
            busy_s: paid_s + service_s,
            end_s: free_s,
        });
    }
}
