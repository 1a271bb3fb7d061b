//! What is observed of a mechanism while the samples of a cell are taken: the processes on the
//! device, the clients of daemons, and mapped files.

use std::collections::BTreeMap;

use gpubench_workloads::user_victim::process_tree;

use super::clock::RunClock;
use super::device_processes::DeviceProcesses;
use super::observe::{self, Serving};
use crate::device::Nvml;
use crate::mechanism::InForce;

/// One observation during a cell.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub on_device: DeviceProcesses,
    /// The servers of the mechanism and their clients.
    pub serving: Serving,
    /// The files that each tenant process has mapped, where the mechanism preloads a library;
    /// `None` for an unreadable list.
    pub mapped: BTreeMap<u32, Option<Vec<String>>>,
    /// The instant after all of it, on the clock of the tenants; `None` without a snapshot.
    pub t_ns: Option<u64>,
}

/// What a snapshot of a mechanism reads.
#[derive(Debug, Clone, Default)]
pub struct SnapshotScope {
    /// What the mechanism set up.
    pub set_up: InForce,
    /// Tenant processes of which it reads mapped files.
    pub mapped_of: Vec<u32>,
    /// A tenant that runs a user's program: the mapped files of its processes are read too.
    pub program_of: Option<u32>,
}

impl Snapshot {
    /// Takes one. It can block: a daemon has its own time limit.
    pub fn take(clock: &RunClock, nvml: &Nvml, scope: &SnapshotScope) -> Self {
        let of_program = scope.program_of.map(process_tree::descendants);
        let mapped = scope.mapped_of.iter().copied();
        let mapped = mapped.chain(of_program.unwrap_or_default());
        Self {
            on_device: DeviceProcesses::now(nvml),
            serving: Serving::of(&scope.set_up),
            mapped: mapped.map(|pid| (pid, observe::mapped(pid))).collect(),
            t_ns: Some(clock.now_ns()),
        }
    }
}
