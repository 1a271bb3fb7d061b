//! The facts of this host that decide what can run on it, gathered before anything is planned.

use std::path::{Path, PathBuf};

use gpubench_virtual_gpu::cgroup::TREE;
use gpubench_virtual_gpu::machine::{self, Machine};
use gpubench_virtual_gpu::session::{ENV, Session, TimeMode};
use rustix::thread::{CapabilitySet, capabilities};

use super::device_session::{DeviceSession, find};
use super::expected;
use crate::device::{DeviceSelector, Nvml, nvml};
use crate::error::ExpectedError;
use crate::mechanism::facts::hami_needs_wall_clock;
use crate::mechanism::labels::Label;
use crate::mechanism::{self, HostFacts, HostInputs};
use crate::profile::{Profile, Wanted};

/// Options of the command line about the host.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// `--hami-lib`.
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

/// The facts of a device that no run holds, without taking its lock. A virtual GPU is started for
/// this and removed again.
///
/// # Errors
/// When the device is real and NVML lists none.
pub fn of_device(
    device: Option<&DeviceSelector>,
    options: &HostOptions,
    profile: &Profile,
) -> Result<HostFacts, ExpectedError> {
    if device.is_some_and(DeviceSelector::is_virtual) {
        let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
        return Ok(of_session(&session, options, profile));
    }
    // NVML is queried and not the device nodes: it answers wherever a driver can be used,
    // containers and a virtual GPU in the environment included.
    nvml::devices().map_err(expected::no_devices)?;
    Ok(gather(&find(device)?, options, profile))
}

/// The facts of a device that this process holds.
#[must_use]
pub fn of_session(session: &DeviceSession, options: &HostOptions, profile: &Profile) -> HostFacts {
    gather(&session.nvml(), options, profile)
}

fn gather(nvml: &Nvml, options: &HostOptions, profile: &Profile) -> HostFacts {
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
    HostFacts::gather(nvml, &inputs)
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
#[must_use]
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
                let machine = Machine::load(name.as_deref().unwrap_or(machine::DEFAULT));
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
#[must_use]
pub fn labels(facts: &HostFacts) -> Vec<String> {
    let line = |label: &Label| format!("{}: {}", label.what, label.value);
    facts.labels.iter().map(line).collect()
}
