//! The result of setting up a host stage: daemon, instances, control groups, folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::host::{DaemonConfig, Step, front_end, mps_control, mps_processes, run_step};
use crate::device::mig::Instance;

/// The command that proves a mechanism, with its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofCommand {
    pub step: Step,
    pub variables: BTreeMap<String, String>,
}

/// What a mechanism set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    pub daemon: Option<DaemonConfig>,
    /// SM partition of each slot, under static partitioning.
    pub partitions: Vec<String>,
    /// MIG instance of each slot, the victim's first.
    pub instances: Vec<Instance>,
    /// Control group of each slot, the victim's first; empty if tenants are in none.
    pub groups: Vec<PathBuf>,
    pub folder: Option<PathBuf>,
    /// The command that proves a described mechanism.
    pub proof: Option<ProofCommand>,
}

impl InForce {
    /// The MIG instance of a slot; the last serves every further one.
    pub fn instance_id(&self, slot: usize) -> Option<u32> {
        let instance = self.instances.get(slot).or(self.instances.last());
        instance.map(|instance| instance.id)
    }

    /// Servers of the daemon, by process id.
    pub fn servers(&self) -> Result<Vec<u32>, String> {
        match &self.daemon {
            Some(daemon) => mps_control::servers(daemon).map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
    }

    /// That a server of the daemon did not end by request, as its log says.
    pub fn ended_server(&self) -> Option<String> {
        let log = self.daemon.as_ref()?.logs.join("control.log");
        // A daemon that starts no server has no log.
        let log = std::fs::read_to_string(log).ok()?;
        let ends = log.lines().filter_map(|line| line.split_once(" exited with status "));
        let mut unasked = ends.map(|(_, status)| status.trim()).filter(|status| *status != "0");
        let status = unasked.next_back()?;
        Some(format!("a server of the MPS daemon exited with status {status}"))
    }

    /// Clients of these servers, by process id; `None` without a daemon.
    pub fn clients(&self, servers: &[u32]) -> Option<Result<Vec<u32>, String>> {
        let daemon = self.daemon.as_ref()?;
        let listed = mps_control::clients(daemon, servers);
        Some(listed.map_err(|error| error.to_string()).map(|mut all| {
            all.sort_unstable();
            all
        }))
    }

    /// Our control daemons, by process id: the processes of its folder that are neither servers nor
    /// our front end.
    pub fn daemon_processes(&self) -> Result<Vec<u32>, String> {
        let Some(daemon) = &self.daemon else {
            return Ok(Vec::new());
        };
        let servers = self.servers()?;
        let own = front_end::pid(&daemon.pipes);
        let mut pids = mps_processes(&daemon.pipes);
        pids.retain(|pid| !servers.contains(pid) && own != Some(*pid));
        Ok(pids)
    }

    /// Runs the command that proves a described mechanism, for these processes with a context on
    /// the device. Returns what it printed; `None` without such a command.
    pub fn prove(&self, processes: &[u32]) -> Option<Result<String, String>> {
        let proof = self.proof.as_ref()?;
        let mut variables = proof.variables.clone();
        let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
        variables.insert("GPUBENCH_PIDS".to_owned(), pids.join(" "));
        Some(run_step(&proof.step, &variables).map_err(|error| error.to_string()))
    }

    /// Disconnects a client through the daemon.
    pub fn terminate(&self, pid: u32) -> Result<(), String> {
        let daemon = self.daemon.as_ref();
        let daemon = daemon.ok_or("there is no MPS daemon to disconnect a client")?;
        mps_control::terminate_client(daemon, pid).map_err(|error| error.to_string())
    }

    /// The pre-kill hook of a tenant. A failure is ignored: the tenant is killed in any case.
    pub fn before_kill(&self, pid: u32) {
        if self.daemon.is_some() {
            let _ = self.terminate(pid);
        }
    }
}
