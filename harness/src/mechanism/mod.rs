//! The catalogue of mechanisms as this host runs them: environment of the tenants, and the proof
//! that the mechanism was in force while samples were taken.
//!
//! What can be told of a mechanism without a host stands in `catalogue`. To add one, add its file,
//! its `mod` line and its line in [`CATALOGUE`].

mod exclusive;
pub mod host;
mod time_slicing;

use std::collections::BTreeMap;
use std::ffi::OsString;

use gpubench_record::{Condition, Proof};

/// What was looked at while a cell ran.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Condition of the cell.
    pub condition: Condition,
    /// Tenants whose context was open, by process id.
    pub ours: Vec<u32>,
    /// Processes with a compute context, as NVML lists them; absent if it did not tell.
    pub listed: Option<Vec<u32>>,
    /// Whether NVML lists clients of an MPS server; absent if it did not tell.
    pub mps_clients: Option<usize>,
    /// Compute mode of the device, as NVML names it; absent if it did not tell.
    pub compute_mode: Option<String>,
}

/// One way to share a GPU, on this host.
pub trait Mechanism: Sync {
    /// Name, as in `catalogue`.
    fn name(&self) -> &'static str;

    /// Variables that every tenant under it gets.
    fn tenant_env(&self) -> BTreeMap<OsString, OsString> {
        BTreeMap::new()
    }

    /// Judges what was seen while one of its cells ran. `None` if the cell can show nothing.
    fn prove(&self, seen: &Seen) -> Option<Proof>;
}

/// Every mechanism, in the order of `catalogue`.
pub const CATALOGUE: &[&dyn Mechanism] = &[&exclusive::Exclusive, &time_slicing::TimeSlicing];

/// The mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Mechanism> {
    CATALOGUE
        .iter()
        .copied()
        .find(|mechanism| mechanism.name() == name)
}

impl Seen {
    /// Processes on the device that are none of ours; absent where NVML's numbers are not those of
    /// this process namespace, so that nobody's can be told.
    #[must_use]
    pub fn foreign(&self) -> Option<Vec<u32>> {
        let listed = self.listed.as_ref()?;
        let recognised = self.ours.is_empty() || self.ours.iter().any(|pid| listed.contains(pid));
        recognised.then(|| {
            listed
                .iter()
                .copied()
                .filter(|pid| !self.ours.contains(pid))
                .collect()
        })
    }

    /// How many of our tenants NVML lists.
    #[must_use]
    pub fn ours_listed(&self) -> Option<usize> {
        let listed = self.listed.as_ref()?;
        Some(self.ours.iter().filter(|pid| listed.contains(pid)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, Seen};
    use gpubench_record::Condition;

    #[test]
    fn both_catalogues_have_the_same_names_in_the_same_order() {
        let here: Vec<&str> = CATALOGUE.iter().map(|mechanism| mechanism.name()).collect();
        assert_eq!(here, crate::catalogue::names());
    }

    #[test]
    fn numbers_of_another_namespace_accuse_nobody() {
        let seen = |ours: &[u32], listed: &[u32]| Seen {
            condition: Condition::N,
            ours: ours.to_vec(),
            listed: Some(listed.to_vec()),
            mps_clients: None,
            compute_mode: None,
        };
        assert_eq!(seen(&[7, 8], &[7, 8, 9]).foreign(), Some(vec![9]));
        assert_eq!(seen(&[7], &[7]).foreign(), Some(vec![]));
        assert_eq!(seen(&[7], &[30_123]).foreign(), None);
    }
}
