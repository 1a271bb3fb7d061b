//! The folders, device and options of an MPS daemon: what is needed to start, query and end it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The folders, device and options of an MPS daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonConfig {
    /// `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipes: PathBuf,
    /// `CUDA_MPS_LOG_DIRECTORY`.
    pub logs: PathBuf,
    /// UUID of the one device that it serves.
    pub device: String,
    /// Whether SMs are partitioned (`-S`).
    pub static_partitions: bool,
    /// Version of its control interface.
    #[serde(default = "version_2")]
    pub protocol: u32,
}

/// A journal without a version is of a daemon with version 2 of the interface.
const fn version_2() -> u32 {
    2
}

impl DaemonConfig {
    /// Name of the one server of a daemon with version 3 of the interface.
    pub const SERVER: &str = "tenants";

    /// The folder in which clients connect to that server.
    #[must_use]
    pub fn server_folder(&self) -> PathBuf {
        self.pipes.join(Self::SERVER)
    }
}
