//! Compute instances: making, finding, describing and ending them.

use super::Placement;
use super::handles::{Instance, Kind, handle};
use super::mode::take_time;
use super::slice::{id_of, sizes};
use crate::handles::Handle;
use crate::nvml::Error;
use crate::nvml::library::{catch_up_with_the_living, privileged};
use gpubench_virtual_gpu_model::mig;

/// A compute instance as it is.
pub struct Description {
    pub device: Handle,
    pub gpu_instance: Handle,
    pub id: u32,
    pub profile_id: u32,
    pub placement: Placement,
}

/// Creates an instance within a GPU instance, at the first free placement.
pub fn create(gpu: &Instance, profile_id: u32) -> Result<Handle, Error> {
    let device = &gpu.device;
    privileged(device)?;
    let slices = sizes(gpu, profile_id)?;
    let made = device.transact(|state, _| {
        let engine = mig::create_engine(state, device.machine(), gpu.row, slices)?;
        Ok::<_, mig::MigError>(handle(state, Kind::ComputeInstance, engine))
    })??;
    take_time(device)?;
    Ok(made)
}

pub fn destroy(compute: &Instance) -> Result<(), Error> {
    let device = &compute.device;
    privileged(device)?;
    catch_up_with_the_living(device)?;
    device.transact(|state, _| mig::destroy_engine(state, compute.row))??;
    take_time(device)
}

pub fn of_profile(gpu: &Instance, profile_id: u32) -> Result<Vec<Handle>, Error> {
    privileged(&gpu.device)?;
    let slices = sizes(gpu, profile_id)?;
    Ok(gpu.device.shared().read(|state| {
        let engines = mig::engines(state, gpu.row).filter(|(_, engine)| engine.profile == slices);
        engines.map(|(row, _)| handle(state, Kind::ComputeInstance, row)).collect()
    })?)
}

pub fn describe(compute: &Instance) -> Result<Description, Error> {
    Ok(compute.device.shared().read(|state| {
        let engine = &state.engines.rows[compute.row as usize];
        Description {
            device: handle(state, Kind::Device, compute.row),
            gpu_instance: handle(state, Kind::GpuInstance, engine.instance),
            id: engine.id,
            profile_id: id_of(engine.profile),
            placement: Placement { start: engine.slice_start, size: engine.profile },
        }
    })?)
}
