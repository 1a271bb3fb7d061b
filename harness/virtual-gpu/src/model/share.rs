//! How concurrent kernels share the device: max-min fair speeds under one capacity for each
//! resource.
//!
//! All kernels start at speed zero and rise together; when a resource is full, every kernel that
//! uses it keeps the speed it has and the others go on rising, at most to full speed. This is
//! progressive filling (Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2) with the
//! speed of a kernel, not its demand, as the shared quantity: everyone who meets a bottleneck is
//! slowed by the same factor, which is what first-come-first-served hardware queues do.

use crate::state::{ONE, RESOURCES};

/// Share of each resource used while running alone, in fixed point.
pub type Demand = [u32; RESOURCES];

/// Fills `speeds` with the speed of each kernel, in fixed point.
pub fn fair_speeds(demands: &[Demand], speeds: &mut Vec<u64>) {
    speeds.clear();
    speeds.resize(demands.len(), 0);
    let mut frozen_load = [0u64; RESOURCES];
    let mut rising: Vec<usize> = (0..demands.len()).collect();
    while !rising.is_empty() {
        let Some((bottleneck, level)) = tightest(demands, &rising, &frozen_load) else {
            for &k in &rising {
                speeds[k] = ONE;
            }
            return;
        };
        rising.retain(|&k| {
            let share = u64::from(demands[k][bottleneck]);
            if share == 0 {
                return true;
            }
            speeds[k] = level;
            for (load, &demand) in frozen_load.iter_mut().zip(&demands[k]) {
                *load += level * u64::from(demand);
            }
            false
        });
    }
}

/// The resource that fills first while `rising` rise together, and the speed at which it does;
/// `None` if all of them reach full speed.
fn tightest(
    demands: &[Demand],
    rising: &[usize],
    frozen_load: &[u64; RESOURCES],
) -> Option<(usize, u64)> {
    let mut found: Option<(usize, u64)> = None;
    for (resource, &load) in frozen_load.iter().enumerate() {
        let sum: u64 = rising
            .iter()
            .map(|&k| u64::from(demands[k][resource]))
            .sum();
        if sum == 0 {
            continue;
        }
        let level = (ONE * ONE).saturating_sub(load) / sum;
        if level < ONE && found.is_none_or(|(_, lowest)| level < lowest) {
            found = Some((resource, level));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Demand, fair_speeds};
    use crate::state::{ONE, RESOURCES, Resource};

    fn demand(pairs: &[(Resource, f64)]) -> Demand {
        let mut out = [0; RESOURCES];
        for &(resource, share) in pairs {
            out[resource as usize] = (share * ONE as f64) as u32;
        }
        out
    }

    fn speeds(demands: &[Demand]) -> Vec<f64> {
        let mut out = Vec::new();
        fair_speeds(demands, &mut out);
        out.iter().map(|&s| s as f64 / ONE as f64).collect()
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() < 1e-5, "{got:?} is not {want:?}");
        }
    }

    #[test]
    fn disjoint_kernels_do_not_meet() {
        let a = demand(&[(Resource::SmSlots, 0.4), (Resource::Fp32, 0.4)]);
        let b = demand(&[(Resource::SmSlots, 0.5), (Resource::Dram, 1.0)]);
        close(&speeds(&[a, b]), &[1.0, 1.0]);
    }

    #[test]
    fn a_full_resource_slows_its_users_alike_and_nobody_else() {
        let victim = demand(&[(Resource::Dram, 0.4)]);
        let hog = demand(&[(Resource::Dram, 1.0)]);
        let bystander = demand(&[(Resource::Fp32, 0.9)]);
        let want = 1.0 / 1.4;
        close(&speeds(&[victim, hog, bystander]), &[want, want, 1.0]);
    }

    #[test]
    fn what_a_bottleneck_frees_elsewhere_is_used() {
        // The first two halve each other on DRAM and then leave three quarters of L2 to the third.
        let a = demand(&[(Resource::Dram, 1.0), (Resource::L2, 0.25)]);
        let b = demand(&[(Resource::Dram, 1.0), (Resource::L2, 0.25)]);
        let c = demand(&[(Resource::L2, 1.0)]);
        close(&speeds(&[a, b, c]), &[0.5, 0.5, 0.75]);
    }
}
