//! `nvidia-smi mig`: lists of profiles and instances, in the vendor's form of the driver's branch.
//!
//! Sources: reports/facts (580.159.04), starkdrift/prickle-exporter (580.173.02, with instances),
//! NVIDIA/gpu-operator pulls 903 and 1303 (branches before 580), and the MIG user guide. What
//! `-lcip` says without a GPU instance or without permission follows from these, without a source.

use std::cell::{Cell, RefCell};

use super::facts::branch;
use super::{Answer, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, invalid, options, refusal};
use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::nvml::Error;
use gpubench_virtual_gpu_driver::nvml::mig::{profile, slice};
use gpubench_virtual_gpu_model::machine::{Mig, Profile};
use gpubench_virtual_gpu_model::mig::{engines, free_starts, instances};
use gpubench_virtual_gpu_model::state::State;

/// Name of the subcommand, the first argument.
pub(super) const NAME: &str = "mig";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Profiles,
    Placements,
    Instances,
    ComputeProfiles,
    ComputeInstances,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    list: List,
    /// Id of the only GPU instance whose parts are listed.
    instance: Option<u32>,
}

const LISTS: [(&str, &str, List); 5] = [
    ("-lgip", "--list-gpu-instance-profiles", List::Profiles),
    ("-lgipp", "--list-gpu-instance-possible-placements", List::Placements),
    ("-lgi", "--list-gpu-instances", List::Instances),
    ("-lcip", "--list-compute-instance-profiles", List::ComputeProfiles),
    ("-lci", "--list-compute-instances", List::ComputeInstances),
];

/// Parses the arguments after the subcommand into a request and a device.
pub(super) fn parse<'a>(args: &[&'a str]) -> Result<(Request, Option<&'a str>), Answer> {
    let (list, instance) = (RefCell::new(None), Cell::new(None));
    let (_, id) = options::parse(args, |name, options| {
        if matches!(name, "-gi" | "--gpu-instance-id") {
            instance.set(Some(options.value()?.parse().map_err(|_| options.wrong())?));
            return Ok(());
        }
        let found = LISTS.iter().find(|(short, long, _)| name == *short || name == *long);
        let (.., wanted) = found.ok_or_else(|| refusal(NOT_SUPPORTED, super::NOT_HERE))?;
        match list.replace(Some(*wanted)) {
            None => Ok(()),
            Some(_) => Err(options.wrong()),
        }
    })?;
    let list = list.into_inner().ok_or_else(|| invalid(NAME))?;
    Ok((Request { list, instance: instance.get() }, id))
}

pub(super) fn answer(request: Request, device: &Device) -> Result<Answer, DeviceError> {
    let mig = device.machine().mig.as_ref();
    let lists_profiles = matches!(request.list, List::Profiles | List::Placements);
    let on = device.shared().read(|state| state.mig.current)?;
    let mig = match mig {
        None if lists_profiles => {
            return Ok(refusal(NOT_FOUND, "No MIG-supported devices found."));
        }
        Some(mig) if lists_profiles || on => mig,
        _ => return Ok(refusal(NOT_FOUND, "No MIG-enabled devices found.")),
    };
    let text = match request.list {
        List::Profiles => Ok(profiles(mig, device)?),
        List::Placements => Ok(placements(mig)),
        _ if !device.session().privileged => Err("Insufficient Permissions"),
        _ => {
            let found = device.shared().read(|state| gpu_instances(state, mig))?;
            let chosen = |gpu: &Gpu| request.instance.is_none_or(|id| id == gpu.id);
            let found: Vec<Gpu> = found.into_iter().filter(chosen).collect();
            let rows = match request.list {
                List::ComputeInstances => compute_instances(&found, device),
                List::ComputeProfiles => compute_profiles(&found, device),
                _ => Ok(instance_table(&found, device)),
            };
            match rows {
                Ok(text) => text.ok_or(NOTHING),
                Err(error) => return Ok(refusal(error as u8, &format!("{error:?}"))),
            }
        }
    };
    Ok(match text {
        Ok(text) => Answer { text, code: 0 },
        Err(why) => none(request.list, why),
    })
}

/// The answer where there is nothing to list, or the caller may not know. An ordinary user gets
/// both lines (the start script of NVIDIA's containers looks for the first).
fn none(list: List, why: &str) -> Answer {
    let [shown, found] = match list {
        List::ComputeInstances => ["compute instances", "compute instances"],
        List::ComputeProfiles => ["compute instance profiles", "GPU instances"],
        _ => ["GPU instances", "GPU instances"],
    };
    if why == NOTHING {
        return refusal(NOT_FOUND, &format!("No {found} found: {why}"));
    }
    let text = format!("Failed to display {shown}: {why}\nNo {found} found: {why}");
    refusal(NO_PERMISSION, &text)
}

/// The vendor's word for an empty list.
const NOTHING: &str = "Not Found";

/// Blanks by which the columns of names are wider since branch 580.
fn wider(device: &Device) -> &'static str {
    if branch(&device.machine().gpu.driver) < 580 { "" } else { "  " }
}

/// A title, the lines of the columns, and rows with a rule after each.
fn table(title: &str, columns: &[String], rows: &[String]) -> String {
    let inner = columns.first().map_or(0, |line| line.chars().count());
    let rule = format!("+{:-<inner$}+\n", "");
    let mut text = format!("{rule}|{title:<inner$}|\n");
    for line in columns {
        text.push_str(&format!("|{line}|\n"));
    }
    text.push_str(&format!("|{:=<inner$}|\n", ""));
    for row in rows {
        text.push_str(row);
        text.push_str(&rule);
    }
    text
}

/// Profiles of GPU instances: how many more can be made, and what each has.
fn profiles(mig: &Mig, device: &Device) -> Result<String, DeviceError> {
    let machine = device.machine();
    let pad = wider(device);
    let free: Vec<usize> = device
        .shared()
        .read(|state| mig.profile.iter().map(|profile| room(state, mig, profile)).collect())?;
    let columns = [
        format!(
            " GPU   Name             {pad}ID    Instances   Memory     P2P    SM    DEC   ENC  "
        ),
        format!(
            "                              {pad}Free/Total   GiB              CE    JPEG  OFA  "
        ),
    ];
    let name = 16 + pad.len();
    let row = |(profile, free): (&Profile, &usize)| {
        let has = profile::of_number(machine, profile.nvml).ok()?;
        let total = format!("{free}/{}", has.instances);
        let gib = format!("{:.2}", has.memory_mib as f64 / 1024.0);
        // No machine file has peer access between instances, or encoders.
        Some(format!(
            "|{:>4}  {:<name$}{:>4}     {total:<11}{gib:<11}No     {:<7}{:<6}{:<4}|\n\
             |{:61}{pad}{:<6}{:<6}{:<4}|\n",
            0,
            format!("MIG {}", has.name),
            has.id,
            has.sms,
            has.decoders,
            0,
            "",
            has.copy_engines,
            has.jpeg,
            has.ofa
        ))
    };
    let rows: Vec<String> = mig.profile.iter().zip(&free).filter_map(row).collect();
    Ok(table(" GPU instance profiles:", &columns, &rows))
}

/// How many more instances of a profile can be made.
fn room(state: &State, mig: &Mig, profile: &Profile) -> usize {
    let of = |index: u32| mig.profile.get(index as usize);
    let made = || instances(state).filter_map(|(_, row)| of(row.profile));
    let used: u32 = made().map(|other| other.slices).sum();
    let by_slices = mig.slices.saturating_sub(used) / profile.slices.max(1);
    let same = made().filter(|other| other.id == profile.id).count() as u32;
    let (mut count, mut next) = (0, 0);
    for start in free_starts(state, mig, profile) {
        if start >= next {
            (count, next) = (count + 1, start + profile.memory_slots);
        }
    }
    count.min(by_slices).min(profile.max.saturating_sub(same)) as usize
}

/// Where instances of each profile can start, made or not.
fn placements(mig: &Mig) -> String {
    let line = |profile: &Profile| {
        let starts: Vec<String> = profile.starts.iter().map(u32::to_string).collect();
        let word = if starts.len() == 1 { "Placement :" } else { "Placements:" };
        let (id, starts) = (profile.id, starts.join(","));
        format!("GPU  0 Profile ID {id:>2} {word} {{{starts}}}:{}\n", profile.memory_slots)
    };
    mig.profile.iter().map(line).collect()
}

/// A GPU instance with its compute instances.
struct Gpu {
    row: u32,
    id: u32,
    profile: u32,
    name: String,
    slices: u32,
    start: u32,
    size: u32,
    /// Id, slices and first slice of each.
    compute: Vec<(u32, u32, u32)>,
}

/// The GPU instances by the number of their profile, then by their id.
fn gpu_instances(state: &State, mig: &Mig) -> Vec<Gpu> {
    let mut found: Vec<(u32, Gpu)> = Vec::new();
    for (row, instance) in instances(state) {
        let Some(profile) = mig.profile.get(instance.profile as usize) else { continue };
        let parts = engines(state, row).map(|(_, one)| (one.id, one.profile, one.slice_start));
        let gpu = Gpu {
            row,
            id: instance.id,
            profile: profile.id,
            name: profile.name.clone(),
            slices: profile.slices,
            start: instance.slot_start,
            size: instance.slots,
            compute: parts.collect(),
        };
        found.push((profile.nvml, gpu));
    }
    found.sort_by_key(|(number, gpu)| (*number, gpu.id));
    found.into_iter().map(|(_, gpu)| gpu).collect()
}

fn instance_table(found: &[Gpu], device: &Device) -> Option<String> {
    let pad = wider(device);
    let name = 18 + pad.len();
    let columns = [
        format!(" GPU   Name             {pad}Profile  Instance   Placement  "),
        format!("                          {pad}ID       ID       Start:Size "),
    ];
    let row = |gpu: &Gpu| {
        let (title, size) = (format!("MIG {}", gpu.name), format!(":{}", gpu.size));
        format!(
            "|{:>4}  {title:<name$}{:>4}{:>9}{:>11}{size:<7}|\n",
            0, gpu.profile, gpu.id, gpu.start
        )
    };
    let rows: Vec<String> = found.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(" GPU instances:", &columns, &rows))
}

fn compute_instances(found: &[Gpu], device: &Device) -> Result<Option<String>, Error> {
    let columns = [
        " GPU     GPU       Name             Profile   Instance   Placement  ",
        "       Instance                       ID        ID       Start:Size ",
        "         ID                                                         ",
    ];
    let mut rows = Vec::new();
    for gpu in found {
        let mut parts: Vec<_> = gpu
            .compute
            .iter()
            .map(|&(id, slices, start)| (slice::id_of(slices), id, slices, start))
            .collect();
        parts.sort_unstable();
        for (profile, id, slices, start) in parts {
            let title = format!("MIG {}", slice::of_row(device, gpu.row, slices)?.name);
            rows.push(format!(
                "|{:>4}{:>7}       {title:<20}{profile:>2}{id:>10}{start:>11}{:<7}|\n",
                0,
                gpu.id,
                format!(":{slices}")
            ));
        }
    }
    let table = || table(" Compute instances:", &columns.map(str::to_owned), &rows);
    Ok((!rows.is_empty()).then(table))
}

fn compute_profiles(found: &[Gpu], device: &Device) -> Result<Option<String>, Error> {
    let columns = [
        " GPU     GPU       Name             Profile  Instances   Exclusive       Shared       ",
        "       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  ",
        "         ID                                                          CE    JPEG       ",
    ];
    let mut rows = Vec::new();
    for gpu in found {
        for (id, slices) in slice::offered(gpu.slices) {
            let has = slice::of_row(device, gpu.row, slices)?;
            // The one that takes the whole is the default.
            let star = if slices == gpu.slices { "*" } else { " " };
            let free = format!("{}/{}", compute_room(gpu, slices), has.instances);
            rows.push(format!(
                "|{:>4}{:>7}       {:<20}{id:>2}{star}     {free:<14}{:<10}{:<6}{:<6}{:<4}|\n\
                 |{:70}{:<6}{:<10}|\n",
                0,
                gpu.id,
                format!("MIG {}", has.name),
                has.sms,
                has.shared.decoders,
                0,
                has.shared.ofa,
                "",
                has.shared.copy_engines,
                has.shared.jpeg
            ));
        }
    }
    let table = || table(" Compute instance profiles:", &columns.map(str::to_owned), &rows);
    Ok((!rows.is_empty()).then(table))
}

/// How many more compute instances of so many slices can be made in a GPU instance.
fn compute_room(gpu: &Gpu, slices: u32) -> u32 {
    let (mut count, mut start) = (0, 0);
    while start + slices <= gpu.slices {
        let overlaps =
            gpu.compute.iter().find(|(_, size, at)| start < at + size && *at < start + slices);
        match overlaps {
            Some((_, size, at)) => start = at + size,
            None => (count, start) = (count + 1, start + slices),
        }
    }
    count
}

#[cfg(test)]
mod tests;
