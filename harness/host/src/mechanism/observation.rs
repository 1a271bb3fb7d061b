//! Observations of a cell, on which proofs rest. Unobserved values are `None`.

use std::collections::BTreeMap;

use gpubench_record::{Condition, ProofTime};

#[derive(Debug, Clone)]
pub struct Observation {
    pub condition: Condition,
    /// Tenants whose context was open, by process id.
    pub ours: Vec<u32>,
    /// The same tenants with their reports, the victim first. A user's program reports nothing and
    /// is not in the list.
    pub tenants: Vec<TenantObservation>,
    /// Our processes that serve the mechanism, such as an MPS server.
    pub services: Vec<u32>,
    /// Processes with a compute context, as NVML lists them.
    pub listed: Option<Vec<u32>>,
    /// The GPU instance in which NVML lists each of them, where it reports one.
    pub instances: Vec<(u32, Option<u32>)>,
    pub mps_clients: Option<Vec<u32>>,
    /// Clients of our MPS daemon, as the daemon lists them, or its error; `None` without a daemon.
    pub daemon_clients: Option<Result<Vec<u32>, String>>,
    /// What the command printed that proves a described mechanism, or its error.
    pub proof_command: Option<Result<String, String>>,
    /// Attempts of neighbours or an outsider to open a context, which the mechanism must refuse:
    /// the name, and the `CUresult` of the refusal; `None` if the context was opened.
    pub access_attempts: Vec<(String, Option<i32>)>,
    pub compute_mode: Option<String>,
    /// The user's program, if it is the victim.
    pub program: Option<ProgramObservation>,
    /// SMs of the whole device, as a native tenant reports them.
    pub native_sm_count: Option<u32>,
    /// When the lists above were read, on the clock of the tenants; `None` if they were not.
    pub listed_at_ns: Option<u64>,
    pub attempted_at_ns: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantObservation {
    /// Its slot in the tenant set: 0 is the victim's.
    pub slot: usize,
    pub pid: u32,
    /// Facts of the device as its context reports them, by name.
    pub facts: BTreeMap<String, String>,
    /// The SMs on which blocks of a kernel of its own ran.
    pub sm_placement: Option<Vec<u32>>,
    /// When its traced kernel ran, on the device's clock.
    pub spans_ns: Option<Vec<(u64, u64)>>,
    /// The result of an allocation beyond its limit.
    pub over_limit: Option<OverLimit>,
    /// Files mapped into its process while the samples were taken.
    pub mapped: Option<Vec<String>>,
    /// Lines of its standard error, however much it wrote, in which an accounting library reports
    /// that a limit is off.
    pub library_faults: Vec<String>,
    /// Its `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// The instance that was assigned to it, where MIG divides the device.
    pub handed_instance: Option<u32>,
    pub opened_at_ns: Option<u64>,
    /// When it had done the checks that each process does once.
    pub checked_at_ns: Option<u64>,
    /// `CUDA_MPS_CLIENT_PRIORITY` in its `/proc/PID/environ`; `None` if it is not set.
    pub priority: Option<String>,
}

/// An allocation beyond the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverLimit {
    pub bytes: u64,
    /// `CUresult` of the refusal; `None` if it was granted.
    pub refused_with: Option<i32>,
}

impl Observation {
    /// An observation with a condition and its tenants only.
    pub fn new(condition: Condition, ours: Vec<u32>) -> Self {
        Self {
            condition,
            ours,
            tenants: Vec::new(),
            services: Vec::new(),
            listed: None,
            instances: Vec::new(),
            mps_clients: None,
            daemon_clients: None,
            proof_command: None,
            access_attempts: Vec::new(),
            compute_mode: None,
            program: None,
            native_sm_count: None,
            listed_at_ns: None,
            attempted_at_ns: None,
        }
    }

    /// The instant of a proof: that of the last observation on which it rests.
    pub fn instant_of(&self, when: ProofTime) -> Option<u64> {
        let last =
            |of: fn(&TenantObservation) -> Option<u64>| self.tenants.iter().filter_map(of).max();
        match when {
            ProofTime::AtOpen => last(|tenant| tenant.opened_at_ns).max(self.attempted_at_ns),
            ProofTime::Once => last(|tenant| tenant.checked_at_ns),
            ProofTime::During => self.listed_at_ns,
            ProofTime::Before | ProofTime::After => None,
        }
    }

    /// Processes on the device that are not ours; `None` if NVML's process ids are of another PID
    /// namespace, so that no process can be identified.
    pub fn other_processes(&self) -> Option<Vec<u32>> {
        let listed = self.listed.as_ref()?;
        let mine = |pid: &u32| self.ours.contains(pid) || self.services.contains(pid);
        let recognised = self.ours.is_empty() || listed.iter().any(mine);
        recognised.then(|| listed.iter().copied().filter(|pid| !mine(pid)).collect())
    }

    /// How many of our tenants NVML lists.
    pub fn ours_listed(&self) -> Option<usize> {
        let listed = self.listed.as_ref()?;
        Some(self.ours.iter().filter(|pid| listed.contains(pid)).count())
    }
}

impl TenantObservation {
    pub fn number(&self, fact: &str) -> Option<u64> {
        self.facts.get(fact)?.parse().ok()
    }

    pub fn name(&self) -> String {
        if self.slot == 0 { "victim".to_owned() } else { format!("neighbour-{}", self.slot) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramObservation {
    /// Its processes that NVML or a daemon lists with a context; its first process if none is
    /// listed.
    pub working: Vec<u32>,
    /// Files that each of these has mapped; empty if they cannot be read.
    pub mapped: Vec<(u32, Vec<String>)>,
    /// Variables of the mechanism that one of these processes was started without, or with another
    /// value.
    pub lacking: Vec<(u32, String)>,
    /// The GPU instance that was assigned to it, if MIG divides the device.
    pub handed_instance: Option<u32>,
}

impl ProgramObservation {
    /// Its working processes that have not mapped a file. The shell that started them does not
    /// count.
    pub(super) fn without(&self, path: &str) -> Vec<u32> {
        let has = |files: &[String]| files.iter().any(|file| file == path);
        let bare = self.mapped.iter().filter(|(_, files)| !has(files));
        bare.map(|(pid, _)| *pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::Observation;

    #[test]
    fn process_ids_of_another_namespace_identify_no_process() {
        let observed = |ours: &[u32], listed: &[u32]| Observation {
            listed: Some(listed.to_vec()),
            ..Observation::new(Condition::N, ours.to_vec())
        };
        assert_eq!(observed(&[7, 8], &[7, 8, 9]).other_processes(), Some(vec![9]));
        assert_eq!(observed(&[7], &[7]).other_processes(), Some(vec![]));
        assert_eq!(observed(&[7], &[30_123]).other_processes(), None);
    }
}
