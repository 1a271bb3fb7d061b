//! The state of a virtual device that runs change and must restore.

use std::path::PathBuf;

use gpubench_virtual_gpu::cgroup::TREE;
use gpubench_virtual_gpu::device::Device;

use super::Error;

/// Every state of a device that a mechanism can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub compute_mode: u32,
    pub mig: (bool, bool),
    pub slice_level: u32,
    pub instances: Vec<(u32, u32)>,
    pub engines: usize,
    pub daemons: usize,
    pub servers: usize,
    pub contexts: usize,
    pub limited_groups: usize,
    pub groups: Vec<PathBuf>,
}

impl Settings {
    /// The settings now. What dead processes held is freed first.
    pub fn of(device: &Device) -> Result<Self, Error> {
        device.reap_dead_processes()?;
        let folders = std::fs::read_dir(device.dir().join(TREE));
        let folders = folders.into_iter().flatten().flatten().map(|entry| entry.path());
        let groups = folders.filter(|path| path.is_dir()).collect();
        Ok(device.shared().read(|state| {
            let rows = state.instances.live().iter().filter(|row| row.live);
            Self {
                compute_mode: state.compute_mode as u32,
                mig: (state.mig.current, state.mig.pending),
                slice_level: state.slice_level,
                instances: rows.map(|row| (row.profile, row.slot_start)).collect(),
                engines: state.engines.live().iter().filter(|row| row.live).count(),
                daemons: state.daemons.live().iter().filter(|row| row.live).count(),
                servers: state.servers.live().iter().filter(|row| row.live).count(),
                contexts: state.contexts.live().iter().filter(|row| row.live).count(),
                limited_groups: state.memory_groups.live().iter().filter(|row| row.live).count(),
                groups,
            }
        })?)
    }
}
