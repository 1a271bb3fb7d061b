//! The packing bound: n <= min(memory / m, compute / c), and u <= min(1, n u1).

use serde::Serialize;

/// Which resource runs out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// Memory.
    Memory,
    /// Compute.
    Compute,
    /// Both at the same number of tenants.
    Both,
}

/// How many equal tenants one GPU takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// As far as memory goes.
    pub by_memory: u64,
    /// As far as compute goes.
    pub by_compute: u64,
    /// The smaller of the two.
    pub tenants: u64,
    /// Which resource that was.
    pub binding: Binding,
    /// Most utilisation that so many tenants cause: min(1, n u1).
    pub utilisation: f64,
}

/// The bound for tenants that are all alike.
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
    Bound {
        by_memory,
        by_compute,
        tenants,
        binding,
        utilisation,
    }
}

/// The whole part; a quotient that misses a whole number by rounding alone counts as that number.
fn whole(quotient: f64) -> u64 {
    let nearest = quotient.round();
    let is_whole = (quotient - nearest).abs() <= 1e-9 * nearest.max(1.0);
    (if is_whole { nearest } else { quotient.floor() }) as u64
}

/// GPUs that tenants of several kinds need at least, and which resource says so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fill {
    /// GPUs' worth of memory that all tenants want.
    pub memory: f64,
    /// GPUs' worth of compute.
    pub compute: f64,
    /// The resource of which more is wanted.
    pub binding: Binding,
    /// GPUs on which first fit, the most demanding first, places them all.
    pub gpus_by_first_fit: u64,
    /// Tenants that fit on no GPU at all.
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

/// Fills GPUs with tenants of any kinds: one after another, the most demanding first, each on the
/// first GPU with room in both resources.
pub fn fill(tenants: &[Shares]) -> Fill {
    let memory: f64 = tenants.iter().map(|tenant| tenant.memory).sum();
    let compute: f64 = tenants.iter().map(|tenant| tenant.compute).sum();
    let mut order = tenants.to_vec();
    let most = |tenant: &Shares| tenant.memory.max(tenant.compute);
    order.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let mut gpus: Vec<Shares> = Vec::new();
    let mut unplaceable = 0;
    let fits = |used: f64, wanted: f64| used + wanted <= 1.0 + 1e-9;
    for tenant in order {
        let room = gpus
            .iter_mut()
            .find(|used| fits(used.memory, tenant.memory) && fits(used.compute, tenant.compute));
        match room {
            Some(used) => {
                used.memory += tenant.memory;
                used.compute += tenant.compute;
            }
            None if most(&tenant) > 1.0 => unplaceable += 1,
            None => gpus.push(tenant),
        }
    }
    let binding = match memory.total_cmp(&compute) {
        std::cmp::Ordering::Greater => Binding::Memory,
        std::cmp::Ordering::Equal => Binding::Both,
        std::cmp::Ordering::Less => Binding::Compute,
    };
    Fill {
        memory,
        compute,
        binding,
        gpus_by_first_fit: gpus.len() as u64,
        unplaceable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_quotient_binds() {
        // The worked case: 80 / 6 = 13, 1 / 0.12 = 8.
        let found = bound(80.0, 6.0, 0.12, 0.12);
        assert_eq!(
            (found.by_memory, found.by_compute, found.tenants),
            (13, 8, 8)
        );
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
        let big = Shares {
            memory: 0.6,
            compute: 0.2,
        };
        let small = Shares {
            memory: 0.2,
            compute: 0.4,
        };
        let found = fill(&[small, big, small, big, small]);
        assert_eq!((found.gpus_by_first_fit, found.unplaceable), (2, 0));
        assert_eq!(found.binding, Binding::Memory);
        assert_eq!(
            fill(&[Shares {
                memory: 1.2,
                compute: 0.1
            }])
            .unplaceable,
            1
        );
    }
}
