//! What stands while a stage does: the daemons, the instances and the folders that were set up.

use std::path::PathBuf;

use super::host::{DaemonPlace, mps_control};
use crate::device::mig::Instance;

/// What was set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    /// MPS daemon of our own.
    pub daemon: Option<DaemonPlace>,
    /// SM partition of each place, under static partitioning.
    pub partitions: Vec<String>,
    /// MIG instance of each place, the victim's first.
    pub instances: Vec<Instance>,
    /// A private folder.
    pub folder: Option<PathBuf>,
}

impl InForce {
    /// Servers of the daemon, by process id.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn servers(&self) -> Result<Vec<u32>, String> {
        match &self.daemon {
            Some(daemon) => mps_control::servers(daemon).map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
    }

    /// Clients of these servers, by process id; absent where there is no daemon.
    #[must_use]
    pub fn clients(&self, servers: &[u32]) -> Option<Result<Vec<u32>, String>> {
        let daemon = self.daemon.as_ref()?;
        let mut all = Vec::new();
        for &server in servers {
            match mps_control::clients(daemon, server) {
                Ok(clients) => all.extend(clients),
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        all.sort_unstable();
        Some(Ok(all))
    }

    /// To be done before a tenant is killed. What cannot be done is not: the tenant is killed
    /// because it does not do as it is told, and that must not fail.
    pub fn before_kill(&self, pid: u32) {
        if let Some(daemon) = &self.daemon {
            let _ = mps_control::terminate_client(daemon, pid);
        }
    }
}
