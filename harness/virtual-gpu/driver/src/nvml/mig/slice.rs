//! The profiles of compute instances within a GPU instance.

use super::handles::Instance;
use super::mode::supported;
use super::profile::{self, described};
use crate::code::refuse;
use crate::device::Device;
use crate::nvml::Error;
use gpubench_virtual_gpu_model::machine::Profile;
use gpubench_virtual_gpu_model::mig;

/// Slices of the compute instance profile of each number (`NVML_COMPUTE_INSTANCE_PROFILE_...`).
/// The last two, special forms of other sizes, are on no machine here.
const SLICES: [Option<u32>; 9] =
    [Some(1), Some(2), Some(3), Some(4), Some(7), Some(8), Some(6), None, None];
/// Slices of the compute instances that a GPU instance of so many slices offers, where that is not
/// every number that fits: what `nvidia-smi mig -lcip` lists on an A100 (NVIDIA/k8s-test-infra,
/// compute instance profiles of its NVML mock; public logs of 2g, 3g and 4g).
const OFFERED: [(u32, &[u32]); 2] = [(4, &[1, 2, 4]), (7, &[1, 2, 3, 4, 7])];
/// `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED`, the only one.
const SHARED: u32 = 0;

/// What a compute instance of a profile has: SMs of its own, and the engines of its GPU instance.
pub struct Description {
    pub name: String,
    pub slices: u32,
    pub instances: u32,
    pub sms: u32,
    /// The profile of the GPU instance.
    pub shared: profile::Description,
}

/// The profile of that number within a GPU instance.
pub fn describe(gpu: &Instance, number: u32, engines: u32) -> Result<Description, Error> {
    refuse(number as usize >= SLICES.len() || engines != SHARED, Error::InvalidArgument)?;
    let slices = sizes(gpu, number)?;
    of_row(&gpu.device, gpu.row, slices)
}

/// A compute instance of that many slices in the GPU instance of a row.
pub fn of_row(device: &Device, row: u32, slices: u32) -> Result<Description, Error> {
    let profile = profile_of(device, row)?;
    let shared = described(device.machine(), supported(device)?, profile);
    Ok(Description {
        name: name_of(profile, slices),
        slices,
        instances: profile.slices / slices,
        sms: mig::engine_sms(shared.sms, slices, profile.slices),
        shared,
    })
}

fn profile_of(device: &Device, row: u32) -> Result<&Profile, Error> {
    let index = device.shared().read(|state| state.instances.rows[row as usize].profile)?;
    let profile = supported(device)?.profile.get(index as usize);
    profile.ok_or(Error::InvalidArgument)
}

/// Slices of the compute profile with that id. The ids are the numbers.
pub(super) fn sizes(gpu: &Instance, profile_id: u32) -> Result<u32, Error> {
    let all = profile_of(&gpu.device, gpu.row)?.slices;
    let slices = SLICES.get(profile_id as usize).copied().flatten();
    slices.filter(|slices| offers(all, *slices)).ok_or(Error::NotSupported)
}

/// Whether a GPU instance of `all` slices offers compute instances of `slices`.
fn offers(all: u32, slices: u32) -> bool {
    let listed = OFFERED.iter().find(|(of, _)| *of == all);
    listed.map_or(slices <= all, |(_, offered)| offered.contains(&slices))
}

/// Ids and slices of the compute profiles that a GPU instance of `all` slices offers.
pub fn offered(all: u32) -> impl Iterator<Item = (u32, u32)> {
    let known = (0_u32..).zip(SLICES).filter_map(|(id, slices)| Some((id, slices?)));
    known.filter(move |(_, slices)| offers(all, *slices))
}

/// The id of the compute profile of that many slices.
pub fn id_of(slices: u32) -> u32 {
    let known = SLICES.iter().position(|known| *known == Some(slices));
    known.map_or(u32::MAX, |id| id as u32)
}

/// The name of a compute profile: that of the GPU instance without its engines (`+me`), with its
/// own slices before it unless it has all of them. Drivers print `1g.10gb` for the whole of a
/// `1g.10gb+me` (580.173.02, starkdrift/prickle-exporter, h100-mig-mixed-20260729).
fn name_of(profile: &Profile, slices: u32) -> String {
    let (name, _) = profile.name.split_once('+').unwrap_or((&profile.name, ""));
    if slices == profile.slices { name.to_owned() } else { format!("{slices}c.{name}") }
}
