//! In place of `virtual_gpu.rs` in a build without the feature of that name: nothing starts, and
//! the error says so. What another build left on this host is still recognized.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::limits::LimitError;

/// See `virtual_gpu.rs`; the names are part of the format of a virtual device's folder.
pub const ENV: &str = "GPUBENCH_VIRTUAL_GPU";
pub const SAMPLE_ENV: &str = "GPUBENCH_VIRTUAL_GPU_SAMPLE";
pub const MACHINE_FILE: &str = "machine.toml";
pub const TREE: &str = "cgroup";
pub const DEFAULT: &str = "h100-80";

/// The only error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this gpubench was built without the virtual GPU (cargo feature virtual-gpu)")]
pub struct Absent;

/// Why a virtual GPU cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum VirtualGpuError {
    #[error(transparent)]
    Machine(#[from] Absent),
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Another reason, of which there is none.
    #[error("{0}")]
    Other(Infallible),
}

/// How time passes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeMode {
    Virtual,
    Wall,
}

/// A running virtual GPU, of which there is none.
#[derive(Debug)]
pub struct VirtualGpu(Infallible);

impl VirtualGpu {
    pub fn start(_machine: &str, _time: TimeMode, _seed: u64) -> Result<Self, VirtualGpuError> {
        Err(Absent.into())
    }

    pub fn memory_on_disk(&self) -> Option<PathBuf> {
        match self.0 {}
    }

    pub fn machine(&self) -> &Machine {
        match self.0 {}
    }

    pub fn library_dir(&self) -> PathBuf {
        match self.0 {}
    }

    pub fn open(&self) -> Result<Device, VirtualGpuError> {
        match self.0 {}
    }

    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        match self.0 {}
    }

    /// Whether the virtual GPU of this state folder is gone.
    pub fn is_gone(device_dir: &Path) -> bool {
        !device_dir.is_dir()
    }
}

/// A machine of the virtual GPU, of which there is none.
#[derive(Debug)]
pub struct Machine {
    pub name: String,
    pub hami: bool,
}

impl Machine {
    pub fn load(_name: &str) -> Result<Self, Absent> {
        Err(Absent)
    }

    pub fn parse(_file: &str, _text: &str) -> Result<Self, Absent> {
        Err(Absent)
    }

    pub fn planted(&self) -> Vec<String> {
        Vec::new()
    }

    pub fn noise_lines(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a virtual device was started.
#[derive(Debug)]
pub struct Session {
    pub privileged: bool,
    pub wall_epoch_ns: u64,
}

impl Session {
    pub fn read(_device: &Path) -> Result<(Self, Machine), Absent> {
        Err(Absent)
    }
}

/// The clock of a virtual device, of which there is none.
#[derive(Debug)]
pub struct Device(Infallible);

impl Device {
    pub fn now_ns(&self) -> u64 {
        match self.0 {}
    }

    pub fn join(&self, _id: u32) -> Result<(), Absent> {
        match self.0 {}
    }

    pub fn leave(&self) -> Result<(), Absent> {
        match self.0 {}
    }

    pub fn sleep_until(&self, _t_ns: u64) -> Result<(), Absent> {
        match self.0 {}
    }

    pub fn has_process(&self, _pid: u32) -> Result<bool, Absent> {
        match self.0 {}
    }

    pub fn expect(&self, _id: u32) -> Result<(), Absent> {
        match self.0 {}
    }

    pub fn abandon(&self, _id: u32) -> Result<(), Absent> {
        match self.0 {}
    }

    pub fn reap_dead_processes(&self) -> Result<(), Absent> {
        match self.0 {}
    }
}

pub fn kernel_log(device: &Path) -> PathBuf {
    device.join("kernel-log")
}

/// Folders of virtual GPUs that were removed: another build may still use them.
pub const fn remove_leftovers() -> Vec<PathBuf> {
    Vec::new()
}

/// Its parent folders, of which there are none.
pub const fn remove_empty_parents() {}

/// The built-in machine with this UUID, of which this build has none.
pub const fn machine_of(_uuid: &str) -> Option<&'static str> {
    None
}
