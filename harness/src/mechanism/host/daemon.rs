//! The place of an MPS daemon: what to know to start one, to talk to it and to end it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where an MPS daemon lives, and what it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonPlace {
    /// `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipes: PathBuf,
    /// `CUDA_MPS_LOG_DIRECTORY`.
    pub logs: PathBuf,
    /// UUID of the one device that it serves.
    pub device: String,
    /// Whether SMs are partitioned (`-S`).
    pub static_partitions: bool,
    /// Version of the interface that it speaks.
    #[serde(default = "second_version")]
    pub protocol: u32,
}

/// Journals of daemons of the second version may not say so.
const fn second_version() -> u32 {
    2
}

impl DaemonPlace {
    /// Name of the one server of a daemon of the third version.
    pub const SERVER: &str = "tenants";

    /// Where the clients of that server connect.
    #[must_use]
    pub fn server_folder(&self) -> PathBuf {
        self.pipes.join(Self::SERVER)
    }
}
