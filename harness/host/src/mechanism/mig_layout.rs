//! The MIG instances of a layout, and their placements beside existing instances.
//!
//! Instances can differ in size. Placements must not overlap, and compute slices must suffice (MIG
//! User Guide, "Getting started"). Four `3g` do not fit one A100: two take all of its memory.

use gpubench_plan::Availability;
use gpubench_predict::mig::{Profile, Table, place};
use gpubench_record::counted;

use super::host::{Change, ControlError, Guard, HostError, Made};
use super::waivers::{
    held_by_others, needs_permission, on_this, prohibited, settings_locked, waived,
};
use super::{HostFacts, MechanismContext};
use crate::device::mig::{Instance, InstanceProfile, Placement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub profile: InstanceProfile,
    pub placement: Placement,
}

/// The names of a layout: `3g+1g.10gb+me` is `3g` and `1g.10gb+me`.
pub(super) fn names(layout: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in layout.split('+') {
        let begins = part.chars().next().is_some_and(|c| c.is_ascii_digit());
        match names.last_mut() {
            Some(last) if !begins => {
                last.push('+');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    names
}

/// The profile with this name; for a size such as `3g`, its plain profile with the least memory.
pub(super) fn find<'a>(profiles: &'a [InstanceProfile], name: &str) -> Option<&'a InstanceProfile> {
    let exact = profiles.iter().find(|profile| profile.name == name);
    exact.or_else(|| {
        let short = |profile: &&InstanceProfile| is_plain(profile) && size(profile) == name;
        profiles.iter().filter(short).min_by_key(|p| p.memory_mib)
    })
}

/// The name of a profile in a variant: the size if it selects the same profile.
pub(super) fn short_name(profiles: &[InstanceProfile], profile: &InstanceProfile) -> String {
    let short = size(profile);
    match find(profiles, short) {
        Some(found) if found == profile => short.to_owned(),
        _ => profile.name.clone(),
    }
}

/// The largest plain profile of which `count` instances fit on an empty device.
pub(super) fn largest(profiles: &[InstanceProfile], count: usize) -> Option<&InstanceProfile> {
    let mut plain: Vec<&InstanceProfile> = profiles.iter().filter(|p| is_plain(p)).collect();
    plain.sort_by_key(|profile| std::cmp::Reverse((profile.slices, profile.memory_mib)));
    plain.into_iter().find(|profile| fit(profiles, &vec![*profile; count], &[]).is_some())
}

/// Placements for new instances beside existing ones, in the order of `wanted`; `None` if they do
/// not fit.
pub(super) fn fit(
    profiles: &[InstanceProfile],
    wanted: &[&InstanceProfile],
    existing: &[Instance],
) -> Option<Vec<Wanted>> {
    let table = table(profiles, existing)?;
    let requested: Vec<&Profile> = wanted
        .iter()
        .map(|profile| table.profiles.iter().find(|known| known.name == profile.name))
        .collect::<Option<_>>()?;
    let mut starts: Vec<(String, u32)> = place(&table, &requested)?
        .into_iter()
        .map(|placed| (placed.profile.name.clone(), placed.start))
        .collect();
    wanted
        .iter()
        .map(|profile| {
            let at = starts.iter().position(|(name, _)| *name == profile.name)?;
            let (_, start) = starts.remove(at);
            let placement = profile.placements.iter().find(|p| p.start == start)?;
            Some(Wanted { profile: (*profile).clone(), placement: *placement })
        })
        .collect()
}

/// The free part of the device as a table for the placement search.
fn table(profiles: &[InstanceProfile], existing: &[Instance]) -> Option<Table> {
    let ends =
        profiles.iter().flat_map(|p| p.placements.iter().map(|place| place.start + place.size));
    let slices_of = |instance: &Instance| {
        let profile = profiles.iter().find(|p| p.id == instance.profile_id);
        profile.map_or(0, |profile| profile.slices)
    };
    let used: u32 = existing.iter().map(slices_of).sum();
    let all = profiles.iter().map(|profile| profile.slices).max()?;
    let free = |place: &&Placement| {
        existing.iter().all(|instance| {
            let taken = instance.placement;
            place.start + place.size <= taken.start || taken.start + taken.size <= place.start
        })
    };
    let offered = profiles.iter().map(|profile| {
        let count = |p: &InstanceProfile| existing.iter().filter(|i| i.profile_id == p.id).count();
        Profile {
            id: Some(profile.id),
            name: profile.name.clone(),
            max: profile.max.saturating_sub(count(profile) as u32),
            sm: Some(profile.sm_count),
            memory_gib: None,
            slices: profile.slices,
            memory_slots: profile.placements.first().map_or(1, |place| place.size),
            starts: profile.placements.iter().filter(free).map(|place| place.start).collect(),
        }
    });
    Some(Table {
        name: String::new(),
        products: Vec::new(),
        memory_gb: 0.0,
        sm: None,
        memory_slots: ends.max()?,
        slices: all.saturating_sub(used),
        source: String::new(),
        placement_source: None,
        profiles: offered.collect(),
    })
}

fn size(profile: &InstanceProfile) -> &str {
    profile.name.split('.').next().unwrap_or(&profile.name)
}

/// Whether it differs from other profiles of its size only in memory.
fn is_plain(profile: &InstanceProfile) -> bool {
    !profile.name.contains(['+', '-'])
}

// The MIG instances of a layout on this device, whether they can be made, and their set-up.

/// Fraction of its share that a victim demands.
const DEMAND: f64 = 0.9;

/// The instances of a layout, and whether they exist.
#[derive(Debug)]
pub(super) enum Layout {
    Existing(Vec<Instance>),
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
        let has = counted(names.len(), "instance");
        return Err(format!("layout {layout} has {has} for {count} tenants, and each takes one"));
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
        let is_instance = cx.facts.uuid.starts_with("MIG-");
        let of_instance = "the device is a MIG instance itself: name its GPU by --device";
        return waived(if is_instance { of_instance } else { "the device has no MIG" }, None);
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
    if let Some((reason, share)) = too_small(cx, victims) {
        let remedy = format!("a larger instance first, or share = {share:.3} in the profile");
        return waived(reason, Some(&remedy));
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

/// Why an instance of this profile is too small for the victim's share, and the largest share that
/// it has room for; `None` if it is not.
fn too_small(cx: &MechanismContext<'_>, profile_id: Option<u32>) -> Option<(String, f64)> {
    let all = &cx.facts.mig_profiles;
    let profile = all.iter().find(|profile| Some(profile.id) == profile_id)?;
    let whole = all.iter().max_by_key(|profile| profile.sm_count)?;
    let needed = cx.profile.share.value() * DEMAND;
    let parts = [
        ("SMs", u64::from(profile.sm_count), u64::from(whole.sm_count)),
        ("memory", profile.memory_mib, whole.memory_mib),
    ];
    let of = |(_, part, all): &(&str, u64, u64)| *part as f64 / *all as f64;
    let (what, part, all) = parts.into_iter().find(|one| of(one) < needed)?;
    let reason = format!(
        "{} has {part} of {all} {what}, less than {DEMAND} of the victim's share ({:.3})",
        profile.name,
        cx.profile.share.value()
    );
    // Rounded down to three digits, so that the share fits as it is printed.
    let share = parts.iter().map(of).fold(1.0, f64::min) / DEMAND;
    Some((reason, (share * 1e3).floor() / 1e3))
}

/// The share of an instance that equals this share of the whole device. Where SMs and memory are
/// divided differently the smaller result counts, so that a victim keeps to its share of each.
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

/// The compute mode that every device has at first.
const DEFAULT: &str = "DEFAULT";

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
        // MIG mode resets the compute mode, which is set back after it.
        let found = cx.facts.compute_mode.clone().filter(|mode| mode != DEFAULT);
        if let Some(found) = found {
            guard.make(Change::ComputeMode { found, set: DEFAULT.to_owned() })?;
        }
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

#[cfg(test)]
pub(super) mod tests {
    use gpubench_predict::mig::{Table, tables};
    use proptest::prelude::*;

    use super::{find, fit, largest, names, short_name};
    use crate::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};

    /// The profiles that NVML would report for a GPU, from the vendor's table.
    pub(crate) fn profiles(table: &Table) -> Vec<InstanceProfile> {
        let profile = |(number, profile): (usize, &gpubench_predict::mig::Profile)| {
            let place = |&start: &u32| Placement { start, size: profile.memory_slots };
            InstanceProfile {
                id: number as u32,
                name: profile.name.clone(),
                slices: profile.slices,
                max: profile.max,
                sm_count: profile.sm.unwrap_or(1),
                memory_mib: (profile.memory_gb() * 1000.0) as u64,
                placements: profile.starts.iter().map(place).collect(),
            }
        };
        table.profiles.iter().enumerate().map(profile).collect()
    }

    fn of(gpu: &str) -> Vec<InstanceProfile> {
        profiles(gpubench_predict::mig::table(gpu).expect("a table"))
    }

    #[test]
    fn reads_the_sizes_of_a_layout() {
        assert_eq!(names("3g+3g"), ["3g", "3g"]);
        assert_eq!(names("3g.20gb+1g.5gb+me+2g"), ["3g.20gb", "1g.5gb+me", "2g"]);
        let a100 = of("A100-40");
        let name = |requested: &str| find(&a100, requested).map(|profile| profile.name.as_str());
        assert_eq!(name("1g"), Some("1g.5gb"));
        assert_eq!(name("1g.10gb"), Some("1g.10gb"));
        assert_eq!(name("5g"), None);
        let larger = find(&a100, "1g.10gb").expect("there");
        assert_eq!(short_name(&a100, larger), "1g.10gb");
        assert_eq!(short_name(&a100, find(&a100, "3g").expect("there")), "3g");
    }

    #[test]
    fn finds_the_largest_equal_instances() {
        for (gpu, count, expected) in [
            ("A100-40", 2, "3g.20gb"),
            ("A30", 2, "2g.12gb"),
            ("H200-141", 2, "3g.71gb"),
            ("A100-40", 4, "1g.10gb"),
            ("A100-40", 7, "1g.5gb"),
            ("A100-40", 1, "7g.40gb"),
        ] {
            let all = of(gpu);
            let found = largest(&all, count).map(|profile| profile.name.as_str());
            assert_eq!(found, Some(expected), "{count} on {gpu}");
        }
        assert_eq!(largest(&of("A100-40"), 8), None);
    }

    #[test]
    fn existing_instances_take_placements() {
        let a100 = of("A100-40");
        let three = find(&a100, "3g").expect("there");
        let there = |start| Instance {
            id: 1,
            profile_id: three.id,
            placement: Placement { start, size: 4 },
            compute: vec![ComputeInstance { id: 0, profile_id: 0, uuid: "MIG-1".to_owned() }],
        };
        let one = fit(&a100, &[three], &[there(4)]).expect("room for one more");
        assert_eq!(one[0].placement, Placement { start: 0, size: 4 });
        assert_eq!(fit(&a100, &[three, three], &[there(4)]), None);
        let four = find(&a100, "4g").expect("there");
        assert_eq!(fit(&a100, &[four], &[there(0)]), None, "4g can only start at 0");
    }

    proptest! {
        /// A layout that fits keeps to the vendor's rules: existing placements, no overlap, at most
        /// the slices of the device and the maximum number of each profile.
        #[test]
        fn every_layout_that_fits_is_legal(
            gpu in 0..tables().len(),
            picks in prop::collection::vec(0_usize..32, 1..8),
        ) {
            let table = &tables()[gpu];
            let all = profiles(table);
            let wanted: Vec<&InstanceProfile> =
                picks.iter().map(|pick| &all[pick % all.len()]).collect();
            let placed = fit(&all, &wanted, &[]);
            prop_assume!(placed.is_some());
            let placed = placed.expect("it fits");
            prop_assert_eq!(placed.len(), wanted.len());
            for (at, (one, requested)) in placed.iter().zip(&wanted).enumerate() {
                prop_assert_eq!(&one.profile, *requested, "in the requested order");
                prop_assert!(one.profile.placements.contains(&one.placement));
                for other in &placed[at + 1..] {
                    let (a, b) = (one.placement, other.placement);
                    prop_assert!(a.start + a.size <= b.start || b.start + b.size <= a.start);
                }
                let same = placed.iter().filter(|other| other.profile == one.profile).count();
                prop_assert!(same <= one.profile.max as usize);
            }
            let slices: u32 = placed.iter().map(|one| one.profile.slices).sum();
            prop_assert!(slices <= table.slices);
        }
    }
}
