//! The facts of this host that decide what can run on it, gathered before anything is planned.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpubench_host::device::virtual_gpu::{
    DEFAULT, ENV, Machine, Session, TREE, TimeMode, kernel_log,
};
use gpubench_host::device::{DeviceSelector, Driver, Nvml, OUTSET, nvml};
use gpubench_host::mechanism;
use gpubench_host::mechanism::facts::hami_needs_wall_clock;
use gpubench_host::mechanism::labels::Label;
use gpubench_host::mechanism::{HostFacts, HostInputs};
use gpubench_plan::profile::{Profile, Wanted};
use gpubench_record::DeviceIdentity;
use gpubench_run::{KernelLog, RunClock};
use rustix::thread::{CapabilitySet, capabilities};

use super::device_session::{DeviceSession, find, identified};
use super::verdict;
use crate::error::ExpectedError;

#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    pub hami_lib: Option<PathBuf>,
    /// `--allow-reconfigure` and `--no-reconfigure`.
    pub reconfigure: Reconfigure,
}

/// Whether device settings may be changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reconfigure {
    /// No flag: only those of a virtual GPU, which no other user shares.
    #[default]
    OnVirtual,
    /// `--allow-reconfigure`.
    Allowed,
    /// `--no-reconfigure`.
    Refused,
}

/// A device that no run holds and its facts, without taking its lock. A virtual GPU is started for
/// this and removed again.
/// Fails when the device is real and NVML lists none.
pub fn of_device(
    device: Option<&DeviceSelector>,
    options: &HostOptions,
    profile: &Profile,
) -> Result<(DeviceIdentity, HostFacts), ExpectedError> {
    if device.is_some_and(DeviceSelector::is_virtual) {
        let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
        return Ok((session.identity().clone(), of_session(&session, options, profile)?));
    }
    // NVML is queried and not the device nodes: it answers wherever a driver can be used,
    // containers and a virtual GPU in the environment included.
    nvml::devices().map_err(verdict::no_devices)?;
    let nvml = Arc::new(find(device)?);
    Ok((identified(&nvml)?, gather(nvml, options, profile)?))
}

/// The facts of the device of a session.
/// Fails when the driver does not answer.
pub fn of_session(
    session: &DeviceSession,
    options: &HostOptions,
    profile: &Profile,
) -> Result<HostFacts, ExpectedError> {
    gather(session.nvml(), options, profile)
}

fn gather(
    nvml: Arc<Nvml>,
    options: &HostOptions,
    profile: &Profile,
) -> Result<HostFacts, ExpectedError> {
    // A virtual GPU offers beside its state what a host would have installed.
    let device = std::env::var_os(ENV).map(PathBuf::from);
    let virtual_folders = device.iter().filter_map(|device| Some(device.parent()?.to_path_buf()));
    let inputs = HostInputs {
        hami_lib: options.hami_lib.clone(),
        program: profile.user_victim.victim().map(|victim| victim.command),
        allow_reconfigure: match options.reconfigure {
            Reconfigure::OnVirtual => device.is_some(),
            Reconfigure::Allowed => true,
            Reconfigure::Refused => false,
        },
        may_change_settings: may_change_settings(device.as_deref()),
        virtual_folders: virtual_folders.collect(),
        control_groups: device.as_ref().map(|device| device.join(TREE)),
    };
    let doing = "asking NVML and nvidia-smi for the facts of the device";
    let gathered = nvml.ask_within(OUTSET, doing, move |driver| HostFacts::gather(driver, &inputs));
    gathered.map_err(verdict::no_answer)
}

/// Whether the driver lets this process change device settings: a real driver requires
/// CAP_SYS_ADMIN (open-gpu-kernel-modules, `NV_IS_SUSER`), a virtual GPU has a flag for it.
fn may_change_settings(virtual_device: Option<&Path>) -> bool {
    if let Some(device) = virtual_device {
        return Session::read(device).is_ok_and(|(session, _)| session.privileged);
    }
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// The clock of a virtual device: wall time where the user's program or the user's HAMi library
/// takes part, because their threads know no other clock.
pub fn time_mode(
    device: Option<&DeviceSelector>,
    options: &HostOptions,
    profile: &Profile,
) -> TimeMode {
    let wants_library = mechanism::CATALOGUE.iter().any(|mechanism| {
        let wanted = match &profile.mechanisms {
            Wanted::All => true,
            Wanted::Names(names) => names.iter().any(|name| name == mechanism.name()),
        };
        wanted && mechanism.entry().accounting_library
    });
    let brings_library = || {
        let stands_in = match device {
            Some(DeviceSelector::Virtual(name)) => {
                let machine = Machine::load(name.as_deref().unwrap_or(DEFAULT));
                machine.is_ok_and(|machine| machine.hami)
            }
            _ => false,
        };
        hami_needs_wall_clock(options.hami_lib.as_deref(), stands_in)
    };
    if profile.user_victim.victim().is_some() || wants_library && brings_library() {
        TimeMode::Wall
    } else {
        TimeMode::Virtual
    }
}

/// Circumstances of the host that readers of the figures must know, one line each.
pub fn labels(facts: &HostFacts) -> Vec<String> {
    let line = |label: &Label| format!("{}: {}", label.what, label.value);
    facts.labels.iter().map(line).collect()
}

// The kernel log of this host, which names the process of each Xid, and whether it can be read.

/// The device file of the kernel log.
const OF_THE_KERNEL: &str = "/dev/kmsg";

/// Opens the kernel log at its end. A virtual device has a log of its own.
pub fn open(session: &DeviceSession) -> Result<KernelLog, String> {
    let address = session.ask("reading the PCI address by NVML", Driver::pci_address);
    let address = address.map_err(|error| error.to_string())?;
    let Some(device) = std::env::var_os(ENV).map(PathBuf::from) else {
        return KernelLog::open(Path::new(OF_THE_KERNEL), address, 0);
    };
    // The stamps of a virtual device are those of its own clock.
    let epoch_ns = match session.clock() {
        RunClock::Virtual(_) => 0,
        RunClock::Wall => {
            let read = Session::read(&device).map_err(|error| error.to_string())?;
            read.0.wall_epoch_ns
        }
    };
    KernelLog::open(&kernel_log(&device), address, epoch_ns)
}

/// Whether the log can be read, in the words of records and `doctor`.
pub fn describe(opened: &Result<KernelLog, String>) -> String {
    match opened {
        Ok(log) if log.has_our_pids() => "read; it names the process of each Xid".to_owned(),
        Ok(_) => "read; its process ids belong to another PID namespace".to_owned(),
        Err(reason) => format!("not read, so Xids have no process and no MIG instance: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use gpubench_run::KernelLog;

    use super::describe;

    #[test]
    fn a_log_that_cannot_be_read_names_the_loss_and_the_reason() {
        let nowhere = KernelLog::open(std::path::Path::new("/nowhere/kmsg"), None, 0);
        assert_eq!(
            describe(&nowhere),
            "not read, so Xids have no process and no MIG instance: /nowhere/kmsg: No such file or \
             directory (os error 2)"
        );
    }
}
