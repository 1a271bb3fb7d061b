//! How concurrent kernels share the device: max-min fair speeds under a list of capacities.
//!
//! All kernels start at speed zero and rise together. When a capacity is full, every kernel that
//! uses it keeps its speed and the others rise further, at most to full speed. This is progressive
//! filling (Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2) with the speed of a
//! kernel, not its demand, as the shared quantity: all users of a bottleneck are slowed by the same
//! factor, as by first-come-first-served hardware queues. Kernels of higher priority are filled
//! first.

use crate::state::{ONE, RESOURCES, STREAMS};

/// Share of each resource of the whole device that a kernel uses at full speed, in fixed point.
pub type Demand = [u32; RESOURCES];

/// A set of kernels, one bit per stream.
pub type Members = u128;

const _: () = assert!(STREAMS <= Members::BITS as usize);

/// A running kernel.
#[derive(Debug, Clone, Copy)]
pub struct Runner {
    /// Its demand.
    pub demand: Demand,
    /// Lower numbers go first.
    pub priority: i32,
}

/// A capacity and its users.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The resource.
    pub resource: usize,
    /// Capacity for the members as a share of the whole device's, in fixed point.
    pub capacity: u64,
    /// Kernels that use it.
    pub members: Members,
}

/// Fills `speeds` with the speed of each kernel, in fixed point.
pub fn fair_speeds(runners: &[Runner], limits: &[Limit], speeds: &mut Vec<u64>) {
    speeds.clear();
    speeds.resize(runners.len(), 0);
    let mut load = vec![0u64; limits.len()];
    let mut classes: Vec<i32> = runners.iter().map(|runner| runner.priority).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let rising = (0..runners.len()).filter(|&k| runners[k].priority == class);
        fill(runners, limits, rising.collect(), &mut load, speeds);
    }
}

/// Raises the kernels of one priority class together, within what is left.
fn fill(
    runners: &[Runner],
    limits: &[Limit],
    mut rising: Vec<usize>,
    load: &mut [u64],
    speeds: &mut [u64],
) {
    while !rising.is_empty() {
        let found = tightest(runners, limits, &rising, load);
        let (stops, level) = found.map_or((None, ONE), |(at, level)| (Some(&limits[at]), level));
        let stopping = |k: usize| {
            stops.is_none_or(|limit| {
                limit.members >> k & 1 == 1 && runners[k].demand[limit.resource] > 0
            })
        };
        rising.retain(|&k| {
            if !stopping(k) {
                return true;
            }
            speeds[k] = level;
            for (load, limit) in load.iter_mut().zip(limits) {
                if limit.members >> k & 1 == 1 {
                    *load += level * u64::from(runners[k].demand[limit.resource]);
                }
            }
            false
        });
    }
}

/// The limit that fills first while `rising` rise together, and the speed at that point; `None` if
/// all of them reach full speed.
fn tightest(
    runners: &[Runner],
    limits: &[Limit],
    rising: &[usize],
    load: &[u64],
) -> Option<(usize, u64)> {
    let mut found: Option<(usize, u64)> = None;
    for (at, limit) in limits.iter().enumerate() {
        let sum: u64 = rising
            .iter()
            .filter(|&&k| limit.members >> k & 1 == 1)
            .map(|&k| u64::from(runners[k].demand[limit.resource]))
            .sum();
        if sum == 0 {
            continue;
        }
        let level = (limit.capacity * ONE).saturating_sub(load[at]) / sum;
        if level < ONE && found.is_none_or(|(_, lowest)| level < lowest) {
            found = Some((at, level));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Demand, Limit, Runner, fair_speeds};
    use crate::state::{ONE, RESOURCES, Resource};

    fn runner(pairs: &[(Resource, f64)], priority: i32) -> Runner {
        let mut demand: Demand = [0; RESOURCES];
        for &(resource, share) in pairs {
            demand[resource as usize] = (share * ONE as f64) as u32;
        }
        Runner { demand, priority }
    }

    fn limit(resource: Resource, capacity: f64, members: u128) -> Limit {
        Limit {
            resource: resource as usize,
            capacity: (capacity * ONE as f64) as u64,
            members,
        }
    }

    /// The capacities of the whole device, used by every kernel.
    fn whole() -> Vec<Limit> {
        Resource::ALL.map(|r| limit(r, 1.0, u128::MAX)).to_vec()
    }

    fn close(runners: &[Runner], limits: &[Limit], want: &[f64]) {
        let mut speeds = Vec::new();
        fair_speeds(runners, limits, &mut speeds);
        let got: Vec<f64> = speeds.iter().map(|&s| s as f64 / ONE as f64).collect();
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() < 1e-5, "{got:?} is not {want:?}");
        }
    }

    #[test]
    fn kernels_on_different_resources_run_at_full_speed() {
        let a = runner(&[(Resource::SmSlots, 0.4), (Resource::Fp32, 0.4)], 0);
        let b = runner(&[(Resource::SmSlots, 0.5), (Resource::Dram, 1.0)], 0);
        close(&[a, b], &whole(), &[1.0, 1.0]);
    }

    #[test]
    fn a_full_resource_slows_all_its_users_equally_and_no_others() {
        let victim = runner(&[(Resource::Dram, 0.4)], 0);
        let hog = runner(&[(Resource::Dram, 1.0)], 0);
        let outsider = runner(&[(Resource::Fp32, 0.9)], 0);
        let want = 1.0 / 1.4;
        close(&[victim, hog, outsider], &whole(), &[want, want, 1.0]);
    }

    #[test]
    fn capacity_that_a_bottleneck_leaves_is_used() {
        // The first two halve each other on DRAM and then leave three quarters of L2 to the third.
        let a = runner(&[(Resource::Dram, 1.0), (Resource::L2, 0.25)], 0);
        let c = runner(&[(Resource::L2, 1.0)], 0);
        close(&[a, a, c], &whole(), &[0.5, 0.5, 0.75]);
    }

    #[test]
    fn a_limit_slows_only_its_members() {
        let hog = runner(&[(Resource::Dram, 1.0)], 0);
        let limits = [
            limit(Resource::Dram, 0.25, 0b01),
            limit(Resource::Dram, 0.75, 0b10),
        ];
        close(&[hog, hog], &limits, &[0.25, 0.75]);
    }

    #[test]
    fn higher_priority_is_filled_first() {
        let low = runner(&[(Resource::Fp32, 1.0)], 0);
        let high = runner(&[(Resource::Fp32, 0.6)], -1);
        close(&[low, high], &whole(), &[0.4, 1.0]);
    }
}
