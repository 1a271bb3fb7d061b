//! The MIG instances of a layout on this device, whether they can be made, and their set-up.

use super::host::{Change, ControlError, Guard, HostError, Made};
use super::mig_layout::{Wanted, find, fit, largest, names, short_name};
use super::waivers::{
    held_by_others, needs_permission, on_this, prohibited, settings_locked, waived,
};
use super::{HostFacts, MechanismContext};
use crate::device::mig::{Instance, InstanceProfile};
use crate::plan::Availability;

/// Fraction of its share that a victim demands.
const DEMAND: f64 = 0.9;

/// The instances of a layout, and whether they exist.
#[derive(Debug)]
pub(super) enum Layout {
    /// Existing instances, one for each slot.
    Existing(Vec<Instance>),
    /// Instances to make.
    Make(Vec<Wanted>),
}

/// The profiles of a layout with `count` instances on this device.
fn profiles<'a>(
    cx: &MechanismContext<'a>,
    layout: &str,
    count: usize,
) -> Result<Vec<&'a InstanceProfile>, String> {
    let all = &cx.facts.mig_profiles;
    if layout == "auto" {
        let profile = largest(all, count);
        let profile = profile.ok_or_else(|| format!("{count} equal instances do not fit"))?;
        return Ok(vec![profile; count]);
    }
    let known = || {
        let names: Vec<&str> = all.iter().map(|profile| profile.name.as_str()).collect();
        names.join(", ")
    };
    let names = names(layout);
    if names.len() < count {
        return Err(format!("layout {layout} has {} instances for {count} tenants", names.len()));
    }
    names
        .iter()
        .map(|name| {
            find(all, name).ok_or_else(|| format!("no profile {name} (known: {})", known()))
        })
        .collect()
}

/// The instances of a layout, or why it is not possible.
pub(super) fn layout(
    cx: &MechanismContext<'_>,
    text: &str,
    count: usize,
) -> Result<Layout, String> {
    let facts = cx.facts;
    let usable: Vec<&Instance> =
        facts.mig_instances.iter().filter(|instance| !instance.compute.is_empty()).collect();
    if text == "auto" && usable.len() >= count {
        return Ok(Layout::Existing(usable.into_iter().take(count).cloned().collect()));
    }
    let wanted = profiles(cx, text, count)?;
    if let Some(existing) = matching(&usable, &wanted) {
        return Ok(Layout::Existing(existing));
    }
    match fit(&facts.mig_profiles, &wanted, &facts.mig_instances) {
        Some(placed) => Ok(Layout::Make(placed)),
        None if facts.mig_instances.is_empty() => Err(format!("{text} does not fit the device")),
        None => Err(format!(
            "{text} does not fit beside the {} existing instances",
            facts.mig_instances.len()
        )),
    }
}

/// Existing instances, one for each wanted profile, in that order.
fn matching(existing: &[&Instance], wanted: &[&InstanceProfile]) -> Option<Vec<Instance>> {
    let mut left: Vec<&Instance> = existing.to_vec();
    wanted
        .iter()
        .map(|profile| {
            let at = left.iter().position(|i| i.profile_id == profile.id)?;
            Some(left.remove(at).clone())
        })
        .collect()
}

/// The canonical variant: the name with the sizes of the instances.
pub(super) fn variant(
    cx: &MechanismContext<'_>,
    name: &str,
    text: &str,
    layout: Result<Layout, String>,
) -> String {
    let all = &cx.facts.mig_profiles;
    let sizes: Vec<String> = match layout {
        Ok(Layout::Make(wanted)) => {
            wanted.iter().map(|one| short_name(all, &one.profile)).collect()
        }
        Ok(Layout::Existing(existing)) => existing
            .iter()
            .filter_map(|i| all.iter().find(|profile| profile.id == i.profile_id))
            .map(|profile| short_name(all, profile))
            .collect(),
        Err(_) => vec![text.to_owned()],
    };
    format!("{name}[{}]", sizes.join("+"))
}

pub(super) fn available(cx: &MechanismContext<'_>, text: &str, count: usize) -> Availability {
    let facts = cx.facts;
    if facts.mig.is_none() && facts.mig_problem.is_none() {
        return waived("the device has no MIG", None);
    }
    if let Some(problem) = &facts.mig_problem {
        let remedy = "run as root, or with /proc/driver/nvidia/capabilities/mig/config readable";
        return waived(format!("MIG cannot be queried: {problem}"), Some(remedy));
    }
    if let Some(waived) = prohibited(facts) {
        return waived;
    }
    let layout = match layout(cx, text, count) {
        Ok(layout) => layout,
        Err(reason) => return waived(reason, Some("another layout, or the instances destroyed")),
    };
    let victims = match &layout {
        Layout::Existing(existing) => existing.first().map(|instance| instance.profile_id),
        Layout::Make(wanted) => wanted.first().map(|one| one.profile.id),
    };
    if let Some(reason) = too_small(cx, victims) {
        return waived(reason, Some("a larger instance first, or a smaller share"));
    }
    let reconfigures = matches!(layout, Layout::Make(_)) || facts.mig == Some(false);
    if reconfigures && !facts.allow_reconfigure {
        return needs_permission("MIG");
    }
    if facts.mig == Some(false) {
        return mode_waiver(facts).unwrap_or(Availability::Available);
    }
    Availability::Available
}

/// The waiver where MIG mode cannot be switched on now; `None` if it can.
fn mode_waiver(facts: &HostFacts) -> Option<Availability> {
    if facts.mig_pending == Some(true) {
        let reset = on_this(&facts.uuid, "nvidia-smi --gpu-reset");
        return Some(waived(
            "MIG mode is off, and on is pending: the GPU must be reset",
            Some(&format!("{reset}, once no process uses the GPU")),
        ));
    }
    settings_locked(facts, "MIG mode")
        .or_else(|| held_by_others(facts, "MIG mode cannot be switched"))
}

/// Why an instance of this profile is too small for the victim's share; `None` if it is not.
fn too_small(cx: &MechanismContext<'_>, profile_id: Option<u32>) -> Option<String> {
    let all = &cx.facts.mig_profiles;
    let profile = all.iter().find(|profile| Some(profile.id) == profile_id)?;
    let whole = all.iter().max_by_key(|profile| profile.sm_count)?;
    let needed = cx.profile.share.value() * DEMAND;
    for (what, part, all) in [
        ("SMs", u64::from(profile.sm_count), u64::from(whole.sm_count)),
        ("memory", profile.memory_mib, whole.memory_mib),
    ] {
        if (part as f64) < needed * all as f64 {
            return Some(format!(
                "{} has {part} of {all} {what}, less than the victim needs ({needed:.3})",
                profile.name
            ));
        }
    }
    None
}

/// The share of an instance that equals this share of the whole device. Where SMs and memory are
/// divided differently the smaller result counts, so that a victim keeps to its share of each.
#[must_use]
pub fn share_of_instance(facts: &HostFacts, instance: &Instance, share: f64) -> f64 {
    let all = &facts.mig_profiles;
    let profile = all.iter().find(|profile| profile.id == instance.profile_id);
    let whole = all.iter().max_by_key(|profile| profile.sm_count);
    let (Some(profile), Some(whole)) = (profile, whole) else {
        return share;
    };
    let times = |all: u64, part: u64| all as f64 / part.max(1) as f64;
    let sms = times(u64::from(whole.sm_count), u64::from(profile.sm_count));
    let memory = times(whole.memory_mib, profile.memory_mib);
    (share * sms.min(memory)).min(1.0)
}

pub(super) fn changes(cx: &MechanismContext<'_>, layout: Result<Layout, String>) -> Vec<String> {
    let mut changes = Vec::new();
    if let Ok(Layout::Make(wanted)) = layout {
        if cx.facts.mig == Some(false) {
            changes.push("MIG mode to on".to_owned());
        }
        let instance =
            |one: &Wanted| format!("MIG instance {} at {}", one.profile.name, one.placement.start);
        changes.extend(wanted.iter().map(instance));
    }
    changes
}

/// Makes the instances of a layout, unless they exist.
pub(super) fn enter(
    cx: &MechanismContext<'_>,
    guard: &mut Guard,
    text: &str,
    count: usize,
) -> Result<Vec<Instance>, HostError> {
    let refused = |what: String| ControlError::new("setting MIG instances up", what);
    let wanted = match layout(cx, text, count).map_err(refused)? {
        Layout::Existing(existing) => return Ok(existing),
        Layout::Make(wanted) => wanted,
    };
    if cx.facts.mig == Some(false) {
        guard.make(Change::MigMode { found: false, set: true })?;
    }
    let mut made = Vec::new();
    // The largest first: it has the fewest placements.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(wanted[at].placement.size));
    for at in order {
        let one = &wanted[at];
        let change = Change::MigInstance {
            profile: one.profile.name.clone(),
            profile_id: one.profile.id,
            placement: one.placement,
            uuids: Vec::new(),
        };
        if let Made::Instance(instance) = guard.make(change)? {
            made.push((at, instance));
        }
    }
    made.sort_by_key(|(at, _)| *at);
    Ok(made.into_iter().map(|(_, instance)| instance).collect())
}
