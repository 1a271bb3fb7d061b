//! Waivers that several mechanisms share: why one cannot run here, with the remedy.

use gpubench_plan::Availability;

use super::facts::{DEFAULT_MODE, EXCLUSIVE_PROCESS};
use super::{HostFacts, MechanismContext};

pub(super) fn waived(reason: impl Into<String>, remedy: Option<&str>) -> Availability {
    Availability::Waived { reason: reason.into(), remedy: remedy.map(str::to_owned) }
}

/// The waiver of a change of device settings that the user did not allow.
pub(super) fn needs_permission(what: &str) -> Availability {
    waived(format!("it would change device settings ({what})"), Some("--allow-reconfigure"))
}

/// The waiver of a change of a device setting without permission or privilege.
pub(super) fn settings_locked(facts: &HostFacts, what: &str) -> Option<Availability> {
    if !facts.allow_reconfigure {
        return Some(needs_permission(what));
    }
    (!facts.may_change_settings).then(|| {
        waived(
            format!("changing the {what} takes CAP_SYS_ADMIN, which this user does not have"),
            Some("run as root"),
        )
    })
}

/// The waiver where the limit of a tenant is below the victim's share.
pub(super) fn too_little_for_share(
    cx: &MechanismContext<'_>,
    what: &str,
    pct: u32,
) -> Option<Availability> {
    let share = cx.profile.share.value();
    (f64::from(pct) / 100.0 < share).then(|| {
        waived(
            format!("{pct} % of the {what} is less than the victim's share of {share:.3}"),
            Some("a larger percentage, or a smaller share"),
        )
    })
}

/// The waiver of what needs an unused device; `None` if no process uses it.
pub(super) fn held_by_others(facts: &HostFacts, consequence: &str) -> Option<Availability> {
    if let Some(problem) = &facts.holders_problem {
        return Some(waived(
            format!("NVML does not list the processes on the device ({problem}): {consequence}"),
            Some("run where NVML lists them, outside a sandbox"),
        ));
    }
    (!facts.holders.is_empty()).then(|| {
        waived(
            format!("processes {:?} use the device: {consequence}", facts.holders),
            Some("end them, or choose another --device"),
        )
    })
}

/// A command with this device's UUID. Without it the command would change all devices of the host.
pub(super) fn on_this(device: &str, command: &str) -> String {
    format!("{command} -i {device}")
}

/// The waiver where the compute mode refuses every process.
pub(super) fn prohibited(facts: &HostFacts) -> Option<Availability> {
    (facts.compute_mode.as_deref() == Some("PROHIBITED")).then(|| {
        waived(
            "compute mode PROHIBITED keeps every process out",
            Some(&on_this(&facts.uuid, DEFAULT_MODE)),
        )
    })
}

/// The waiver where a process cannot have the whole device.
pub(super) fn whole_device_is_closed(facts: &HostFacts) -> Option<Availability> {
    device_is_partitioned(facts).or_else(|| prohibited(facts))
}

/// The waiver where several processes cannot share the device.
pub(super) fn sharing_is_off(facts: &HostFacts) -> Option<Availability> {
    let prohibited = prohibited(facts);
    let mode = facts.compute_mode.as_deref()?;
    prohibited.or_else(|| {
        matches!(mode, EXCLUSIVE_PROCESS | "EXCLUSIVE_THREAD").then(|| {
            waived(
                format!("compute mode {mode} keeps a second process out"),
                Some(&on_this(&facts.uuid, DEFAULT_MODE)),
            )
        })
    })
}

/// The waiver of what needs the whole device, where MIG divides it.
pub(super) fn device_is_partitioned(facts: &HostFacts) -> Option<Availability> {
    if let (None, Some(problem)) = (facts.mig, &facts.mig_problem) {
        return Some(waived(
            format!("it is unknown whether MIG divides the device: {problem}"),
            Some("a driver that reports the MIG mode"),
        ));
    }
    (facts.mig == Some(true)).then(|| {
        waived(
            "MIG mode is on, so there is no whole device",
            Some(&on_this(&facts.uuid, "nvidia-smi -mig 0")),
        )
    })
}

/// The waiver of every mechanism where no figure of this host could be trusted.
pub fn unfit(facts: &HostFacts) -> Option<Availability> {
    let found = facts.findings.iter().find(|found| found.blocks)?;
    Some(waived(found.what.clone(), found.remedy.as_deref()))
}

/// Why no process can open a context on the device as it is; `None` if one can.
pub fn without_context(facts: &HostFacts) -> Option<String> {
    if let Some(Availability::Waived { reason, .. }) = unfit(facts) {
        return Some(reason);
    }
    if let Some(Availability::Waived { reason, .. }) = prohibited(facts) {
        return Some(reason);
    }
    let mut instances = facts.mig_instances.iter();
    let is_empty = instances.all(|instance| instance.compute.is_empty());
    (facts.mig == Some(true) && is_empty)
        .then(|| "MIG mode is on, and there is no instance".to_owned())
}
