//! A host in a file, for tests. It outlives the process that changes it, and can kill that process
//! before and after every step.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gpubench_workloads::command::{Inherits, command as process};
use serde::{Deserialize, Serialize};

use super::mps_control::DaemonConfig;
use super::{Control, ControlError, Step};
use crate::device::mig::{ComputeInstance, Instance, MigMode, Placement};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub compute_mode: String,
    pub slice: String,
    pub mig: bool,
    pub mig_needs_reset: bool,
    pub mig_pending: Option<bool>,
    pub instances: Vec<Instance>,
    pub daemons: Vec<PathBuf>,
    pub folders: Vec<PathBuf>,
    pub groups: Vec<(PathBuf, Option<u64>)>,
    /// Described mechanisms that were entered and not left.
    pub entered: Vec<String>,
}

/// A host with its state in a file.
pub struct FakeHost {
    file: PathBuf,
    /// Steps until the process is killed; `None` for a host that kills no process.
    left: Mutex<Option<Cell<u32>>>,
}

impl FakeHost {
    pub fn new(file: &Path, dies_after: Option<u32>) -> Self {
        Self { file: file.to_path_buf(), left: Mutex::new(dies_after.map(Cell::new)) }
    }

    pub fn state(&self) -> State {
        let text = std::fs::read_to_string(&self.file).expect("a host");
        serde_json::from_str(&text).expect("a state")
    }

    pub fn put(&self, state: &State) {
        // A change is made as a whole or not at all, as a driver does.
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_string(state).expect("text")).expect("written");
        std::fs::rename(new, &self.file).expect("renamed");
    }

    fn step(&self) {
        let left = self.left.lock().expect("one thread");
        if let Some(count) = &*left {
            if count.get() == 0 {
                let parent = std::process::id().to_string();
                let _ = process("kill", Inherits::Listed).args(["-9", &parent]).status();
                std::process::abort();
            }
            count.set(count.get() - 1);
        }
    }

    fn change(&self, edit: impl FnOnce(&mut State)) -> Result<(), ControlError> {
        self.try_change(|state| {
            edit(state);
            Ok(())
        })
    }

    fn try_change<T>(
        &self,
        edit: impl FnOnce(&mut State) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        self.step();
        let mut state = self.state();
        let made = edit(&mut state)?;
        self.put(&state);
        self.step();
        Ok(made)
    }
}

impl Control for FakeHost {
    fn compute_mode(&self) -> Result<String, ControlError> {
        Ok(self.state().compute_mode)
    }

    fn set_compute_mode(&self, name: &str) -> Result<(), ControlError> {
        self.change(|state| state.compute_mode = name.to_owned())
    }

    fn timeslice(&self) -> Result<String, ControlError> {
        Ok(self.state().slice)
    }

    fn set_timeslice(&self, name: &str) -> Result<(), ControlError> {
        self.change(|state| state.slice = name.to_owned())
    }

    fn mig_mode(&self) -> Result<Option<MigMode>, ControlError> {
        let state = self.state();
        let pending = state.mig_pending.unwrap_or(state.mig);
        Ok(Some(MigMode { current: state.mig, pending }))
    }

    fn set_mig(&self, on: bool) -> Result<(), ControlError> {
        self.try_change(|state| {
            if !state.instances.is_empty() {
                return Err(ControlError::new("switching MIG mode", "in use"));
            }
            if state.mig == on || !state.mig_needs_reset {
                (state.mig, state.mig_pending) = (on, None);
            } else {
                state.mig_pending = Some(on);
            }
            Ok(())
        })?;
        if self.state().mig == on {
            return Ok(());
        }
        Err(ControlError::new("switching MIG mode", "reset required"))
    }

    fn mig_instances(&self) -> Result<Vec<Instance>, ControlError> {
        let state = self.state();
        if !state.mig {
            return Err(ControlError::new("listing MIG instances", "MIG mode is off"));
        }
        Ok(state.instances)
    }

    fn create_instance(
        &self,
        profile_id: u32,
        placement: Placement,
    ) -> Result<Instance, ControlError> {
        self.try_change(|state| {
            let taken = state.instances.iter().any(|known| {
                let (a, b) = (known.placement, placement);
                a.start < b.start + b.size && b.start < a.start + a.size
            });
            if taken || !state.mig {
                return Err(ControlError::new("making a MIG instance", "no room"));
            }
            let id = state.instances.iter().map(|i| i.id).max().unwrap_or(0) + 1;
            let compute = vec![ComputeInstance {
                id: 0,
                profile_id: 0,
                uuid: format!("MIG-{id}-{}", placement.start),
            }];
            let instance = Instance { id, profile_id, placement, compute };
            state.instances.push(instance.clone());
            Ok(instance)
        })
    }

    fn destroy_instance(&self, id: u32) -> Result<(), ControlError> {
        self.change(|state| state.instances.retain(|instance| instance.id != id))
    }

    fn start_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError> {
        self.change(|state| state.daemons.push(daemon.pipes.clone()))
    }

    fn end_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError> {
        self.change(|state| state.daemons.retain(|known| *known != daemon.pipes))
    }

    fn make_group(&self, path: &Path) -> Result<(), ControlError> {
        self.change(|state| state.groups.push((path.to_path_buf(), None)))
    }

    fn remove_group(&self, path: &Path) -> Result<(), ControlError> {
        self.change(|state| state.groups.retain(|(known, _)| known != path))
    }

    fn limit_group(&self, group: &Path, hard_mib: Option<u64>) -> Result<(), ControlError> {
        self.change(|state| {
            let mut groups = state.groups.iter_mut();
            if let Some(found) = groups.find(|(known, _)| known == group) {
                found.1 = hard_mib;
            }
        })
    }

    fn make_folder(&self, path: &Path) -> Result<(), ControlError> {
        self.change(|state| state.folders.push(path.to_path_buf()))
    }

    /// `enter NAME`, and `leave NAME`.
    fn run_step(&self, step: &Step, _: &BTreeMap<String, String>) -> Result<(), ControlError> {
        let (verb, name) = step.run.split_once(' ').expect("a verb and a name");
        self.change(|state| {
            state.entered.retain(|known| known != name);
            if verb == "enter" {
                state.entered.push(name.to_owned());
            }
        })
    }

    fn remove_folder(&self, path: &Path) -> Result<(), ControlError> {
        self.change(|state| state.folders.retain(|known| known != path))
    }
}
