//! Cores for the threads of a run on the wall clock, where the host has enough.
//!
//! An issuer that follows a schedule has a core to itself. All other threads stay off it: the
//! coordinator, which reads counters and may be in the kernel for a millisecond at a time, and its
//! child processes, which inherit its cores.

use gpubench_workloads::clock::ClockError;
use gpubench_workloads::clock::thread::Cores;

use super::Setup;

/// Cores for the coordinator, the kernel and the rest of the host, beside one for each issuer and
/// one for each reaper.
const OTHERS_MIN: usize = 2;

/// The cores of the issuers, and those of all other threads.
pub struct Placement {
    /// The core of each slot in order; empty where the kernel places all threads.
    issuers: Vec<u32>,
    original: Option<Cores>,
}

impl Placement {
    /// Chooses them for a run, and moves the calling thread off those of the issuers.
    ///
    /// # Errors
    /// When the kernel refuses cores that this thread may use.
    pub fn settle(setup: &Setup) -> Result<Self, ClockError> {
        let unplaced = Self {
            issuers: Vec::new(),
            original: None,
        };
        // A user's program has the whole host, as without gpubench.
        if setup.clock.is_virtual() || setup.plan.user_victim.is_some() {
            return Ok(unplaced);
        }
        let original = Cores::of_this_thread()?;
        let issuers = issuers(&original.list(), setup.plan.tenants as usize);
        if issuers.is_empty() {
            return Ok(unplaced);
        }
        let others = issuers
            .iter()
            .fold(original, |cores, cpu| cores.without(*cpu));
        others.apply()?;
        Ok(Self {
            issuers,
            original: Some(original),
        })
    }

    /// The core of an issuer, if it has one.
    #[must_use]
    pub fn issuer(&self, slot: usize) -> Option<u32> {
        self.issuers.get(slot).copied()
    }

    /// Restores the cores of the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn leave(&self) -> Result<(), ClockError> {
        self.original.as_ref().map_or(Ok(()), Cores::apply)
    }
}

/// A core for each issuer: every second one from the third on. Interrupts go to the first.
fn issuers(allowed: &[u32], tenants: usize) -> Vec<u32> {
    if allowed.len() < 2 * tenants + OTHERS_MIN {
        return Vec::new();
    }
    let from_third = allowed.iter().skip(2).step_by(2);
    from_third.take(tenants).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::issuers;

    #[test]
    fn gives_each_issuer_an_allowed_core_or_none_at_all() {
        assert_eq!(issuers(&[0, 1, 2, 3, 4, 5], 2), [2, 4]);
        assert_eq!(issuers(&[1, 5, 7, 8, 9, 12, 13], 2), [7, 9]);
        assert!(issuers(&[0, 1, 2, 3, 4], 2).is_empty());
        assert_eq!(issuers(&[0, 1, 2, 3], 1), [2]);
        assert!(issuers(&[], 1).is_empty());
    }
}
