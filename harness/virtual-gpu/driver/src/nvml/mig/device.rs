//! MIG devices: compute instances under handles that stand in for the device's own.

use std::sync::Arc;

use super::handles::{Instance, Kind, handle};
use super::mode::supported;
use super::slice;
use crate::code::refuse;
use crate::device::Device;
use crate::handles::Handle;
use crate::nvml::Error;
use crate::nvml::library::Target;
use gpubench_virtual_gpu_model::state::{State, WHOLE};

/// The MIG device under which programs find a compute instance by its index.
pub fn by_index(device: &Device, index: u32) -> Result<Handle, Error> {
    refuse(index >= supported(device)?.slices, Error::InvalidArgument)?;
    let found = device.shared().read(|state| {
        let row = in_order(state).get(index as usize).copied();
        row.map(|row| handle(state, Kind::Device, row))
    })?;
    found.ok_or(Error::NotFound)
}

/// The compute instance of a MIG device; the whole device is none.
pub fn instance(device: Arc<Device>, target: Target) -> Result<Instance, Error> {
    match target {
        Target::Engine(row) => Ok(Instance { device, row }),
        Target::Whole => {
            supported(&device)?;
            Err(Error::InvalidArgument)
        }
    }
}

/// Ids of the GPU instance and of the compute instance of a MIG device.
pub fn instance_ids(compute: &Instance) -> Result<(u32, u32), Error> {
    let found = compute.device.shared().read(|state| ids(state, compute.row))?;
    found.ok_or(Error::InvalidArgument)
}

/// What a MIG device has. Only MIG devices have attributes (nvml.h).
pub fn attributes(device: &Device, target: Target) -> Result<slice::Description, Error> {
    match target {
        Target::Engine(row) => attributes_of(device, row),
        Target::Whole => Err(Error::NotSupported),
    }
}

/// The name of a MIG device: the product and the size.
pub(in crate::nvml) fn name(device: &Device, row: u32) -> Result<String, Error> {
    let size = attributes_of(device, row)?.name;
    Ok(format!("{} MIG {size}", device.machine().gpu.product))
}

fn attributes_of(device: &Device, row: u32) -> Result<slice::Description, Error> {
    let (instance, slices) = device.shared().read(|state| {
        let engine = &state.engines.rows[row as usize];
        (engine.instance, engine.profile)
    })?;
    slice::of_row(device, instance, slices)
}

/// The rows of all compute instances in the order in which programs count them: by GPU instance,
/// then by compute instance.
pub fn in_order(state: &State) -> Vec<u32> {
    let live = state.engines.live().iter().enumerate().skip(1);
    let mut rows: Vec<u32> =
        live.filter(|(_, engine)| engine.live).map(|(row, _)| row as u32).collect();
    rows.sort_by_key(|&row| ids(state, row));
    rows
}

/// The index under which programs find a compute instance.
pub(in crate::nvml) fn index(state: &State, row: u32) -> u32 {
    let before = in_order(state).into_iter().take_while(|&other| other != row);
    before.count() as u32
}

/// Ids of the GPU instance and of the compute instance behind a row; none for the whole device.
pub(in crate::nvml) fn ids(state: &State, row: u32) -> Option<(u32, u32)> {
    let engine = &state.engines.rows[row as usize];
    let instance = state.instances.rows[engine.instance as usize].id;
    (row != WHOLE).then_some((instance, engine.id))
}
