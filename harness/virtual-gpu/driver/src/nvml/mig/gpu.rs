//! GPU instances: making, finding, describing and ending them.

use super::Placement;
use super::handles::{Instance, Kind, handle};
use super::mode::{enabled, supported, take_time};
use super::profile::by_id;
use crate::device::Device;
use crate::handles::Handle;
use crate::nvml::Error;
use crate::nvml::library::{catch_up_with_the_living, privileged};
use gpubench_virtual_gpu_model::mig;

/// A GPU instance as it is.
pub struct Description {
    pub id: u32,
    pub profile_id: u32,
    pub placement: Placement,
}

/// Creates an instance, at the first free placement unless one is given.
pub fn create(
    device: &Device,
    profile_id: u32,
    placement: Option<Placement>,
) -> Result<Handle, Error> {
    let mig = enabled(device)?;
    privileged(device)?;
    // An unknown id is a wrong argument here, and something not supported elsewhere (nvml.h).
    let (index, profile) = by_id(mig, profile_id).map_err(|_| Error::InvalidArgument)?;
    if placement.is_some_and(|place| place.size != profile.memory_slots) {
        return Err(Error::InvalidArgument);
    }
    let start = placement.map(|place| place.start);
    catch_up_with_the_living(device)?;
    let made = device.transact(|state, _| {
        let row = mig::create_instance(state, device.machine(), index, start)?;
        Ok::<_, mig::MigError>(handle(state, Kind::GpuInstance, row))
    })??;
    take_time(device)?;
    Ok(made)
}

pub fn destroy(gpu: &Instance) -> Result<(), Error> {
    let device = &gpu.device;
    privileged(device)?;
    catch_up_with_the_living(device)?;
    device.transact(|state, _| mig::destroy_instance(state, gpu.row))??;
    take_time(device)
}

pub fn of_profile(device: &Device, profile_id: u32) -> Result<Vec<Handle>, Error> {
    let mig = enabled(device)?;
    privileged(device)?;
    let (index, _) = by_id(mig, profile_id)?;
    Ok(device.shared().read(|state| {
        let rows = mig::instances(state).filter(|(_, row)| row.profile == index);
        rows.map(|(row, _)| handle(state, Kind::GpuInstance, row)).collect()
    })?)
}

pub fn of_id(device: &Device, id: u32) -> Result<Handle, Error> {
    enabled(device)?;
    privileged(device)?;
    let found = device.shared().read(|state| {
        let row = mig::instances(state).find(|(_, row)| row.id == id);
        row.map(|(row, _)| handle(state, Kind::GpuInstance, row))
    })?;
    found.ok_or(Error::NotFound)
}

pub fn describe(gpu: &Instance) -> Result<Description, Error> {
    let mig = supported(&gpu.device)?;
    Ok(gpu.device.shared().read(|state| {
        let row = &state.instances.rows[gpu.row as usize];
        Description {
            id: row.id,
            profile_id: mig.profile[row.profile as usize].id,
            placement: Placement { start: row.slot_start, size: row.slots },
        }
    })?)
}
