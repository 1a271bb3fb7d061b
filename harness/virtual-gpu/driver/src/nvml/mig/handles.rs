//! Handles of instances and MIG devices: what a program holds, and the row that it stands for.
//!
//! A handle carries the row in the shared state and the instance's generation, so every process
//! refuses the handle of a destroyed instance.

use std::sync::Arc;

use crate::device::Device;
use crate::handles::Handle;
use crate::nvml::Error;
use crate::nvml::library::only_device;
use gpubench_virtual_gpu_model::state::{State, WHOLE};

/// What a handle of this room stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `nvmlGpuInstance_t`.
    GpuInstance = 0x47,
    /// `nvmlComputeInstance_t`.
    ComputeInstance = 0x43,
    /// `nvmlDevice_t` of a MIG device.
    Device = 0x4d,
}

const KIND_SHIFT: u32 = 56;
const GENERATION_SHIFT: u32 = 12;
const ROW_SHIFT: u32 = 4;

/// A GPU instance or a compute instance.
pub struct Instance {
    pub device: Arc<Device>,
    pub row: u32,
}

pub fn instance(handle: Handle, kind: Kind) -> Result<Instance, Error> {
    let device = only_device()?;
    let row = device.shared().read(|state| row_of(state, kind, handle))?;
    let row = row.ok_or(Error::InvalidArgument)?;
    Ok(Instance { device, row })
}

pub(in crate::nvml) fn handle(state: &State, kind: Kind, row: u32) -> Handle {
    let generation = generation(state, kind, row).unwrap_or_default();
    let value =
        (kind as u64) << KIND_SHIFT | generation << GENERATION_SHIFT | u64::from(row) << ROW_SHIFT;
    value as Handle
}

/// The row of a handle of that kind, if its object still exists.
pub(in crate::nvml) fn row_of(state: &State, kind: Kind, handle: Handle) -> Option<u32> {
    let value = handle as u64;
    let row = (value >> ROW_SHIFT) as u32 & 0xff;
    let wanted = (value >> GENERATION_SHIFT) & ((1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1);
    let known = value >> KIND_SHIFT == kind as u64 && value & 0xf == 0;
    (known && generation(state, kind, row) == Some(wanted)).then_some(row)
}

/// Generation of the instance that the row holds.
fn generation(state: &State, kind: Kind, row: u32) -> Option<u64> {
    let at = row as usize;
    if row == WHOLE {
        return None;
    }
    let (instances, engines) = (state.instances.live(), state.engines.live());
    match kind {
        Kind::GpuInstance => instances.get(at).filter(|row| row.live).map(|row| row.generation),
        _ => engines.get(at).filter(|row| row.live).map(|row| row.generation),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, handle, row_of};
    use gpubench_virtual_gpu_model::machine::Machine;
    use gpubench_virtual_gpu_model::mig;
    use gpubench_virtual_gpu_model::state::State;

    #[test]
    fn a_handle_dies_with_its_instance() -> Result<(), Box<dyn std::error::Error>> {
        let machine = Machine::load("hopper")?;
        let mut state = State::new(1, 0);
        mig::set_mode(&mut state, &machine, true);
        let row = mig::create_instance(&mut state, &machine, 0, None)?;
        let engine = mig::create_engine(&mut state, &machine, row, 1)?;
        let gpu = handle(&state, Kind::GpuInstance, row);
        let compute = handle(&state, Kind::ComputeInstance, engine);
        assert_eq!(row_of(&state, Kind::GpuInstance, gpu), Some(row));
        assert_eq!(row_of(&state, Kind::ComputeInstance, gpu), None);
        assert_eq!(row_of(&state, Kind::Device, compute), None, "another kind");
        mig::destroy_engine(&mut state, engine)?;
        mig::destroy_instance(&mut state, row)?;
        assert_eq!(mig::create_instance(&mut state, &machine, 0, None)?, row);
        assert_eq!(row_of(&state, Kind::GpuInstance, gpu), None, "another one");
        assert_eq!(row_of(&state, Kind::ComputeInstance, compute), None);
        for wild in [0usize, 0x47 << 56, 0x10, usize::MAX, (0x47 << 56) | (9 << 4)] {
            assert_eq!(row_of(&state, Kind::GpuInstance, wild as _), None, "{wild:#x}");
        }
        Ok(())
    }
}
