//! Which cores the threads of a run have, where cores are real and there are enough of them.
//!
//! An issuer that follows a schedule has a core to itself. All other threads keep off: the
//! coordinator, which asks the driver for counters and may be in the kernel for a millisecond at a
//! time, and whatever it starts, since a process begins on the cores of the one that started it.

use gpubench_workloads::clock::ClockError;
use gpubench_workloads::clock::thread::Cores;

use super::Setup;

/// Cores left over once each issuer has its own: as many again for the reapers, and two for the
/// coordinator, the kernel and the rest of the host.
const OTHERS_MIN: usize = 2;

/// The cores of the issuers, and those of all other threads.
pub struct Placement {
    /// Of each slot in order; empty where threads run wherever the kernel puts them.
    issuers: Vec<u32>,
    found: Option<Cores>,
}

impl Placement {
    /// Chooses them for a run, and moves the calling thread off those of the issuers.
    ///
    /// # Errors
    /// When the kernel refuses cores that this thread may use.
    pub fn settle(setup: &Setup) -> Result<Self, ClockError> {
        let unplaced = Self {
            issuers: Vec::new(),
            found: None,
        };
        // A program of the user's has the whole host, as it would have without us.
        if setup.clock.is_virtual() || setup.plan.user_victim.is_some() {
            return Ok(unplaced);
        }
        let found = Cores::of_this_thread()?;
        let issuers = issuers(&found.list(), setup.plan.tenants as usize);
        if issuers.is_empty() {
            return Ok(unplaced);
        }
        let others = issuers.iter().fold(found, |cores, cpu| cores.without(*cpu));
        others.apply()?;
        Ok(Self {
            issuers,
            found: Some(found),
        })
    }

    /// The core of an issuer, if it has one.
    #[must_use]
    pub fn issuer(&self, slot: usize) -> Option<u32> {
        self.issuers.get(slot).copied()
    }

    /// Lets the calling thread go where it could before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn leave(&self) -> Result<(), ClockError> {
        self.found.as_ref().map_or(Ok(()), Cores::apply)
    }
}

/// A core for each issuer, with one between them, and not the first, to which interrupts go.
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
    fn each_issuer_has_a_core_of_those_that_are_allowed_or_none_has() {
        assert_eq!(issuers(&[0, 1, 2, 3, 4, 5], 2), [2, 4]);
        assert_eq!(issuers(&[1, 5, 7, 8, 9, 12, 13], 2), [7, 9]);
        assert!(issuers(&[0, 1, 2, 3, 4], 2).is_empty());
        assert_eq!(issuers(&[0, 1, 2, 3], 1), [2]);
        assert!(issuers(&[], 1).is_empty());
    }
}
