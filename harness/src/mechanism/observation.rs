//! Observations around a cell: the material of every proof. Unobserved values are `None`.

use std::collections::BTreeMap;

use gpubench_record::{Condition, Proof};

use super::ProgramObservation;

/// One observation of a cell.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Condition of the cell.
    pub condition: Condition,
    /// Tenants whose context was open, by process id.
    pub ours: Vec<u32>,
    /// The same tenants with their reports, the victim first. A program of the user's reports
    /// nothing and is not among them.
    pub tenants: Vec<TenantObservation>,
    /// Processes of our own that serve the mechanism, as an MPS server.
    pub services: Vec<u32>,
    /// Processes with a compute context, as NVML lists them.
    pub listed: Option<Vec<u32>>,
    /// Clients of MPS servers, as NVML lists them.
    pub mps_clients: Option<Vec<u32>>,
    /// Clients of our MPS daemon, as it lists them itself, or why it did not; `None` where there is
    /// no daemon.
    pub daemon_clients: Option<Result<Vec<u32>, String>>,
    /// Attempts of neighbours or an outsider to get a context that the mechanism must refuse: the
    /// name, and the `CUresult` of the refusal; `None` for one that got a context.
    pub access_attempts: Vec<(String, Option<i32>)>,
    /// Compute mode of the device.
    pub compute_mode: Option<String>,
    /// The user's own program, where the victim is one.
    pub program: Option<ProgramObservation>,
    /// SMs of the whole device, as a native tenant reports them.
    pub native_sm_count: Option<u32>,
}

/// The report of one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantObservation {
    /// Its slot in the tenant set: 0 is the victim's.
    pub slot: usize,
    /// Its process id.
    pub pid: u32,
    /// What the device looks like from inside its context, by name.
    pub facts: BTreeMap<String, String>,
    /// The SMs on which blocks of a kernel of its own ran.
    pub sm_placement: Option<Vec<u32>>,
    /// The answer to an allocation beyond its limit.
    pub over_limit: Option<OverLimit>,
    /// Files mapped into its process.
    pub mapped: Option<Vec<String>>,
    /// The end of what it wrote to its standard error.
    pub stderr_tail: String,
    /// Value of `CUDA_VISIBLE_DEVICES` that it was given.
    pub given: Option<String>,
    /// Value of `CUDA_MPS_CLIENT_PRIORITY` in the environment that its process was started with, as
    /// the system tells it; absent if there is none.
    pub priority: Option<String>,
}

/// An allocation beyond the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverLimit {
    /// How much was asked for.
    pub bytes: u64,
    /// `CUresult` of the refusal; `None` if it was granted.
    pub refused_with: Option<i32>,
}

impl Observation {
    /// The tenants of a condition, and nothing else observed.
    #[must_use]
    pub fn new(condition: Condition, ours: Vec<u32>) -> Self {
        Self {
            condition,
            ours,
            tenants: Vec::new(),
            services: Vec::new(),
            listed: None,
            mps_clients: None,
            daemon_clients: None,
            access_attempts: Vec::new(),
            compute_mode: None,
            program: None,
            native_sm_count: None,
        }
    }

    /// Processes on the device that are not ours; `None` where NVML's process ids are those of
    /// another PID namespace, so that no process can be identified.
    #[must_use]
    pub fn other_processes(&self) -> Option<Vec<u32>> {
        let listed = self.listed.as_ref()?;
        let mine = |pid: &u32| self.ours.contains(pid) || self.services.contains(pid);
        let recognised = self.ours.is_empty() || listed.iter().any(mine);
        recognised.then(|| listed.iter().copied().filter(|pid| !mine(pid)).collect())
    }

    /// How many of our tenants NVML lists.
    #[must_use]
    pub fn ours_listed(&self) -> Option<usize> {
        let listed = self.listed.as_ref()?;
        Some(self.ours.iter().filter(|pid| listed.contains(pid)).count())
    }
}

impl TenantObservation {
    /// A figure of the report.
    #[must_use]
    pub fn number(&self, fact: &str) -> Option<u64> {
        self.facts.get(fact)?.parse().ok()
    }

    /// Its name in evidence.
    #[must_use]
    pub fn name(&self) -> String {
        if self.slot == 0 {
            "victim".to_owned()
        } else {
            format!("neighbour-{}", self.slot)
        }
    }
}

/// A piece of evidence. The caller writes down when it was taken.
pub(super) fn proof_of(check: &str, holds: bool, evidence: String) -> Proof {
    Proof {
        when: String::new(),
        check: check.to_owned(),
        holds,
        evidence,
        hardware: false,
        limiter: false,
    }
}

#[cfg(test)]
mod tests {
    use super::Observation;
    use gpubench_record::Condition;

    #[test]
    fn processes_of_another_pid_namespace_are_not_counted_as_others() {
        let observed = |ours: &[u32], listed: &[u32]| Observation {
            listed: Some(listed.to_vec()),
            ..Observation::new(Condition::N, ours.to_vec())
        };
        assert_eq!(
            observed(&[7, 8], &[7, 8, 9]).other_processes(),
            Some(vec![9])
        );
        assert_eq!(observed(&[7], &[7]).other_processes(), Some(vec![]));
        assert_eq!(observed(&[7], &[30_123]).other_processes(), None);
    }
}
