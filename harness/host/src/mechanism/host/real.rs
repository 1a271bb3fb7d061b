//! This host: NVML, the vendor's commands, the file system.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;

use super::command::{LIST_POLICIES, policy, run_step, smi};
use super::command::{SLICES, slice_of, slice_remedy};
use super::mps_control;
use super::mps_control::DaemonConfig;
use super::mps_control::end_processes;
use super::{Control, ControlError, Step};
use crate::device::mig::{Instance, MigMode, Placement};
use crate::device::nvml::{CHANGE, named, words};
use crate::device::{Driver, NoAnswer, Nvml};

/// Time between two attempts to remove a control group.
const GROUP_STEP: Duration = Duration::from_millis(10);

/// How long the host may take to end what a mechanism needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// As long as a busy host may need.
    Patient,
    /// The guard process has 2 s for everything.
    Hurried,
}

impl Haste {
    /// Longest wait for the command that ends a daemon, and for the end of its processes after
    /// that, after SIGTERM and after SIGKILL.
    const fn of_daemon(self) -> (Duration, Duration) {
        match self {
            Self::Patient => (Duration::from_secs(5), Duration::from_secs(3)),
            Self::Hurried => (Duration::from_millis(500), Duration::from_millis(300)),
        }
    }

    /// How long a control group may stay busy.
    const fn of_group(self) -> Duration {
        match self {
            Self::Patient => Duration::from_secs(2),
            Self::Hurried => Duration::from_millis(500),
        }
    }
}

#[derive(Debug)]
pub struct RealHost {
    nvml: Option<Arc<Nvml>>,
    haste: Haste,
}

impl RealHost {
    pub fn new(nvml: Arc<Nvml>) -> Self {
        Self { nvml: Some(nvml), haste: Haste::Patient }
    }

    /// A host without its device, which is gone.
    pub fn without_device() -> Self {
        Self { nvml: None, haste: Haste::Patient }
    }

    /// The same with other limits.
    pub fn with(self, haste: Haste) -> Self {
        Self { haste, ..self }
    }

    fn nvml(&self, doing: &str) -> Result<&Nvml, ControlError> {
        let gone = || ControlError::new(doing, "the device is gone");
        self.nvml.as_deref().ok_or_else(gone)
    }

    fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&Driver) -> Result<T, NvmlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        answered(doing, self.nvml(doing)?.ask(doing, work))
    }

    fn change<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&Driver) -> Result<T, NvmlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        answered(doing, self.nvml(doing)?.ask_within(CHANGE, doing, work))
    }

    /// Runs nvidia-smi on the device. It recognises a subcommand only as its first argument.
    fn smi(&self, arguments: &[&OsStr], doing: &str) -> Result<String, ControlError> {
        smi(self.nvml(doing)?.uuid(), arguments, doing)
    }

    fn policy(&self, arguments: &[&str], doing: &str) -> Result<String, ControlError> {
        self.smi(&policy(arguments), doing).map_err(|error| {
            let remedy = error.status.and_then(slice_remedy);
            error.with_remedy(remedy)
        })
    }
}

impl Control for RealHost {
    fn compute_mode(&self) -> Result<String, ControlError> {
        self.call("reading the compute mode", |nvml| nvml.compute_mode().map(str::to_owned))
    }

    fn set_compute_mode(&self, name: &str) -> Result<(), ControlError> {
        let name = name.to_owned();
        self.change("setting the compute mode", move |nvml| nvml.set_compute_mode(&name))
    }

    fn timeslice(&self) -> Result<String, ControlError> {
        const DOING: &str = "reading the time slice";
        let policies = self.policy(&LIST_POLICIES, DOING)?;
        slice_of(&policies).map(str::to_owned).ok_or_else(|| {
            ControlError::new(DOING, format!("nvidia-smi does not report it: {policies:?}"))
        })
    }

    fn set_timeslice(&self, name: &str) -> Result<(), ControlError> {
        const DOING: &str = "setting the time slice";
        let number = SLICES.iter().position(|known| *known == name);
        let number = number.ok_or_else(|| {
            ControlError::new(DOING, format!("{name:?} is unknown (accepted: {SLICES:?})"))
        })?;
        self.policy(&["--set-timeslice", &number.to_string()], DOING).map(|_| ())
    }

    fn mig_mode(&self) -> Result<Option<MigMode>, ControlError> {
        self.call("reading the MIG mode", Driver::mig_mode)
    }

    fn set_mig(&self, on: bool) -> Result<(), ControlError> {
        self.change("switching MIG mode", move |nvml| nvml.set_mig(on))
    }

    fn mig_instances(&self) -> Result<Vec<Instance>, ControlError> {
        self.call("listing MIG instances", Driver::mig_instances)
    }

    fn create_instance(
        &self,
        profile_id: u32,
        placement: Placement,
    ) -> Result<Instance, ControlError> {
        self.change("making a MIG instance", move |nvml| {
            nvml.create_instance(profile_id, placement)
        })
    }

    fn destroy_instance(&self, id: u32) -> Result<(), ControlError> {
        self.change("destroying a MIG instance", move |nvml| nvml.destroy_instance(id))
    }

    fn start_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError> {
        mps_control::start(daemon)
    }

    fn end_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError> {
        // A daemon that does not answer gets no time to end by itself.
        let (limit, grace) = self.haste.of_daemon();
        let quit = mps_control::quit(daemon, limit);
        let patience = quit.map_or(Duration::ZERO, |()| grace);
        if end_processes(&daemon.pipes, patience, grace) {
            return Ok(());
        }
        let doing = "ending the MPS daemon";
        Err(ControlError::new(doing, "its processes do not end after SIGKILL"))
    }

    fn make_group(&self, path: &Path) -> Result<(), ControlError> {
        std::fs::create_dir(path)
            .map_err(|error| ControlError::new(format!("making {}", path.display()), error))
    }

    fn remove_group(&self, path: &Path) -> Result<(), ControlError> {
        let mut last = None;
        // A group is busy until its last process has ended.
        for _ in 0..=self.haste.of_group().as_millis() / GROUP_STEP.as_millis() {
            match remove_group(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => last = Some(error),
                _ => return Ok(()),
            }
            std::thread::sleep(GROUP_STEP);
        }
        let what = last.map_or_else(String::new, |error| error.to_string());
        Err(ControlError::new(format!("removing {}", path.display()), what))
    }

    fn limit_group(&self, group: &Path, hard_mib: Option<u64>) -> Result<(), ControlError> {
        const DOING: &str = "limiting the memory of a control group";
        // With equal limits no group borrows memory.
        let (soft, hard) = match hard_mib {
            Some(mib) => (mib.to_string(), mib.to_string()),
            None => ("0".to_owned(), "max".to_owned()),
        };
        let options =
            ["memory-limits", "--set", "--soft-limit", &soft, "--hard-limit", &hard, "-n"];
        let options = options.into_iter().map(OsStr::new);
        let all: Vec<&OsStr> = options.chain([group.as_os_str()]).collect();
        self.smi(&all, DOING).map(|_| ()).map_err(|error| {
            let remedy = error.status.and_then(limit_remedy);
            error.with_remedy(remedy)
        })
    }

    fn make_folder(&self, path: &Path) -> Result<(), ControlError> {
        let made = std::fs::DirBuilder::new().mode(0o700).create(path);
        made.map_err(|error| ControlError::new(format!("making {}", path.display()), error))
    }

    fn run_step(
        &self,
        step: &Step,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), ControlError> {
        let limit_s = match self.haste {
            Haste::Patient => step.limit_s,
            Haste::Hurried => step.limit_s.min(1),
        };
        run_step(&Step { limit_s, ..step.clone() }, variables).map(|_| ())
    }

    fn remove_folder(&self, path: &Path) -> Result<(), ControlError> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ControlError::new(format!("removing {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }
}

fn answered<T>(
    doing: &str,
    answer: Result<Result<T, NvmlError>, NoAnswer>,
) -> Result<T, ControlError> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let remedy = remedy_for(&error);
            let what = if remedy.is_some() { named(&error) } else { words(&error) };
            Err(ControlError::new(doing, what).with_remedy(remedy))
        }
        Err(hang) => Err(ControlError::new(doing, hang)),
    }
}

/// What the user can do about an error of NVML with a known reason.
const fn remedy_for(error: &NvmlError) -> Option<&'static str> {
    match error {
        NvmlError::NoPermission => Some("run as root"),
        NvmlError::InUse => Some("end the processes that use the GPU (`gpubench plan` names them)"),
        NvmlError::ResetRequired => Some(
            "nvidia-smi --gpu-reset (with -i and this GPU) when no process uses it; then run again",
        ),
        _ => None,
    }
}

/// What the user can do if nvidia-smi does not limit a control group, by its exit status.
const fn limit_remedy(status: i32) -> Option<&'static str> {
    match status {
        3 => Some("by = \"namespace\" in the table of the mechanism"),
        4 => Some("run as root"),
        _ => None,
    }
}

/// Removes a control group. The group of a virtual device is a plain folder with a member file.
fn remove_group(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            std::fs::remove_file(path.join("cgroup.procs"))?;
            std::fs::remove_dir(path)
        }
        done => done,
    }
}
