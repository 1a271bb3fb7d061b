//! The packing bound: n <= min(memory / m, compute / c), and u <= min(1, n u1).

use serde::Serialize;

/// The resource that limits the number of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// Memory.
    Memory,
    /// Compute.
    Compute,
    /// Both, at the same number of tenants.
    Both,
}

/// Number of equal tenants on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// Limit by memory.
    pub by_memory: u64,
    /// Limit by compute.
    pub by_compute: u64,
    /// The smaller of the two.
    pub tenants: u64,
    /// The limiting resource.
    pub binding: Binding,
    /// Largest utilisation by this number of tenants: min(1, n u1).
    pub utilisation: f64,
}

/// The bound for equal tenants.
pub fn bound(gpu_memory_gb: f64, memory_gb: f64, compute: f64, utilisation: f64) -> Bound {
    let by_memory = whole(gpu_memory_gb / memory_gb);
    let by_compute = whole(1.0 / compute);
    let tenants = by_memory.min(by_compute);
    let binding = match by_memory.cmp(&by_compute) {
        std::cmp::Ordering::Less => Binding::Memory,
        std::cmp::Ordering::Equal => Binding::Both,
        std::cmp::Ordering::Greater => Binding::Compute,
    };
    let utilisation = (tenants as f64 * utilisation).min(1.0);
    Bound { by_memory, by_compute, tenants, binding, utilisation }
}

/// The whole part; a quotient within rounding of a whole number counts as that number.
fn whole(quotient: f64) -> u64 {
    let nearest = quotient.round();
    let is_whole = (quotient - nearest).abs() <= 1e-9 * nearest.max(1.0);
    (if is_whole { nearest } else { quotient.floor() }) as u64
}

/// GPUs needed by tenants of several kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fill {
    /// Memory of all tenants, in GPUs.
    pub memory: f64,
    /// Compute of all tenants, in GPUs.
    pub compute: f64,
    /// The resource with the larger demand.
    pub binding: Binding,
    /// GPUs after first fit, in order of falling demand.
    pub gpus_by_first_fit: u64,
    /// Tenants that are too large for a GPU.
    pub unplaceable: u64,
}

/// One tenant's demands as shares of a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Of its memory.
    pub memory: f64,
    /// Of its compute.
    pub compute: f64,
}

/// Fills GPUs by first fit in order of falling demand: each tenant on the first GPU with enough
/// memory and compute.
pub fn fill(tenants: &[Shares]) -> Fill {
    let memory: f64 = tenants.iter().map(|tenant| tenant.memory).sum();
    let compute: f64 = tenants.iter().map(|tenant| tenant.compute).sum();
    let mut order = tenants.to_vec();
    let larger = |tenant: &Shares| tenant.memory.max(tenant.compute);
    order.sort_by(|a, b| larger(b).total_cmp(&larger(a)));
    let mut gpus: Vec<Shares> = Vec::new();
    let mut unplaceable = 0;
    let fits = |used: f64, needed: f64| used + needed <= 1.0 + 1e-9;
    for tenant in order {
        let room = gpus
            .iter_mut()
            .find(|used| fits(used.memory, tenant.memory) && fits(used.compute, tenant.compute));
        match room {
            Some(used) => {
                used.memory += tenant.memory;
                used.compute += tenant.compute;
            }
            None if larger(&tenant) > 1.0 => unplaceable += 1,
            None => gpus.push(tenant),
        }
    }
    let binding = match memory.total_cmp(&compute) {
        std::cmp::Ordering::Greater => Binding::Memory,
        std::cmp::Ordering::Equal => Binding::Both,
        std::cmp::Ordering::Less => Binding::Compute,
    };
    Fill { memory, compute, binding, gpus_by_first_fit: gpus.len() as u64, unplaceable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_quotient_binds() {
        // The worked case: 80 / 6 = 13, 1 / 0.12 = 8.
        let found = bound(80.0, 6.0, 0.12, 0.12);
        assert_eq!((found.by_memory, found.by_compute, found.tenants), (13, 8, 8));
        assert_eq!(found.binding, Binding::Compute);
        assert!((found.utilisation - 0.96).abs() < 1e-12);
        assert_eq!(bound(24.0, 12.0, 0.1, 0.1).binding, Binding::Memory);
        assert_eq!(bound(24.0, 2.4, 0.1, 0.5).binding, Binding::Both);
        assert_eq!(bound(24.0, 2.4, 0.1, 0.5).utilisation, 1.0);
        // 0.7 / 0.1 is 6.999999999999999 in floating point.
        assert_eq!(bound(0.7, 0.1, 0.01, 0.01).by_memory, 7);
    }

    #[test]
    fn first_fit_places_every_kind() {
        let big = Shares { memory: 0.6, compute: 0.2 };
        let small = Shares { memory: 0.2, compute: 0.4 };
        let found = fill(&[small, big, small, big, small]);
        assert_eq!((found.gpus_by_first_fit, found.unplaceable), (2, 0));
        assert_eq!(found.binding, Binding::Memory);
        assert_eq!(fill(&[Shares { memory: 1.2, compute: 0.1 }]).unplaceable, 1);
    }
}
