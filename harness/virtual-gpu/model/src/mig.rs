//! MIG: placement of instances and the resources of each. The rules are those of the vendor's MIG
//! user guide ("Concepts", "Partitioning").

use crate::compute_mode::ComputeMode;
use crate::machine::{Machine, Mig, Profile};
use crate::state::{Allocation, ComputeEngine, Context, GpuInstance, ONE, State, WHOLE};

/// Why an instance cannot be created or destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MigError {
    /// MIG mode is off, or the machine has no MIG.
    #[error("MIG mode is off")]
    Off,
    /// The profile, instance or start does not exist.
    #[error("no such profile, instance or start")]
    Unknown,
    /// Not enough free slots, slices or rows.
    #[error("no room for another instance of this profile")]
    NoRoom,
    /// A context or memory without a context uses it.
    #[error("it is in use")]
    InUse,
}

/// Gives the whole device to row 0, as outside MIG mode.
pub fn undivided(state: &mut State, machine: &Machine) {
    let memory = &machine.memory;
    for row in state.instances.live_mut() {
        row.live = false;
    }
    for row in state.engines.live_mut() {
        row.live = false;
    }
    let whole = &mut state.instances.rows[WHOLE as usize];
    *whole = GpuInstance {
        live: true,
        slots: machine.mig.as_ref().map_or(0, |mig| mig.slots),
        sm_count: machine.gpu.sm_count,
        memory_bytes: (memory.total_mib - memory.reserved_mib) << 20,
        l2_bytes: memory.l2_kib << 10,
        bandwidth: ONE,
        copies: whole.copies,
        ..GpuInstance::default()
    };
    let engine = &mut state.engines.rows[WHOLE as usize];
    *engine = ComputeEngine {
        live: true,
        sm_count: machine.gpu.sm_count,
        busy_ns: engine.busy_ns,
        used: engine.used,
        ..ComputeEngine::default()
    };
}

/// Whether any context is open on the device, or a descriptor of its memory exists.
pub fn in_use(state: &State) -> bool {
    let memory = state.allocations.live().iter().any(|row| row.live);
    memory || state.contexts.live().iter().any(|context| context.live)
}

/// Turns MIG mode on or off at once and removes all instances.
pub fn set_mode(state: &mut State, machine: &Machine, on: bool) {
    undivided(state, machine);
    state.mig.current = on;
    state.mig.pending = on;
    if on {
        // MIG supports the default compute mode only (MPS documentation, "When to use MPS").
        state.compute_mode = ComputeMode::Default;
        state.instances.rows[WHOLE as usize].live = false;
        state.engines.rows[WHOLE as usize].live = false;
    }
}

/// Outcome of a request to change MIG mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// In force.
    Done,
    /// Pending, since the device is in use.
    InUse,
    /// Pending until the device is reset.
    ResetRequired,
}

/// Requests MIG mode on or off; the request is pending until it can apply.
pub fn request_mode(state: &mut State, machine: &Machine, on: bool) -> Activation {
    state.mig.pending = on;
    if state.mig.current == on {
        Activation::Done
    } else if in_use(state) {
        Activation::InUse
    } else if machine.mig.as_ref().is_none_or(|mig| !mig.resetless) {
        Activation::ResetRequired
    } else {
        set_mode(state, machine, on);
        Activation::Done
    }
}

/// Resets the device, which applies a pending mode.
/// Errors: While the device is in use.
pub fn reset(state: &mut State, machine: &Machine) -> Result<(), MigError> {
    if in_use(state) {
        return Err(MigError::InUse);
    }
    if state.mig.pending != state.mig.current {
        let on = state.mig.pending;
        set_mode(state, machine, on);
    }
    Ok(())
}

/// Slots at which an instance of a profile can start now.
pub fn free_starts(state: &State, mig: &Mig, profile: &Profile) -> Vec<u32> {
    let taken: Vec<&GpuInstance> = instances(state).map(|(_, row)| row).collect();
    let slices = |row: &&GpuInstance| mig.profile[row.profile as usize].slices;
    let used: u32 = taken.iter().map(slices).sum();
    let same =
        taken.iter().filter(|row| mig.profile[row.profile as usize].id == profile.id).count();
    if used + profile.slices > mig.slices || same >= profile.max as usize {
        return Vec::new();
    }
    let clear = |start: &u32| {
        taken.iter().all(|row| {
            start + profile.memory_slots <= row.slot_start || row.slot_start + row.slots <= *start
        })
    };
    profile.starts.iter().copied().filter(clear).collect()
}

pub fn instances(state: &State) -> impl Iterator<Item = (u32, &GpuInstance)> {
    let rows = state.instances.live().iter().enumerate().skip(1);
    rows.filter(|(_, row)| row.live).map(|(index, row)| (index as u32, row))
}

pub fn engines(state: &State, instance: u32) -> impl Iterator<Item = (u32, &ComputeEngine)> {
    let rows = state.engines.live().iter().enumerate().skip(1);
    rows.filter(move |(_, row)| row.live && row.instance == instance)
        .map(|(index, row)| (index as u32, row))
}

/// Creates a GPU instance of the profile with this index, at `start` or at the first free slot.
/// Fails when the mode is off, the profile or start does not exist, or there is no room.
pub fn create_instance(
    state: &mut State,
    machine: &Machine,
    index: u32,
    start: Option<u32>,
) -> Result<u32, MigError> {
    let mig = machine.mig.as_ref().filter(|_| state.mig.current);
    let mig = mig.ok_or(MigError::Off)?;
    let profile = mig.profile.get(index as usize).ok_or(MigError::Unknown)?;
    if start.is_some_and(|start| !profile.starts.contains(&start)) {
        return Err(MigError::Unknown);
    }
    let free = free_starts(state, mig, profile);
    let start = match start {
        Some(start) => free.contains(&start).then_some(start),
        None => free.first().copied(),
    };
    let start = start.ok_or(MigError::NoRoom)?;
    let used = |id: u32| instances(state).any(|(_, row)| row.id == id);
    // The vendor numbers instances from 1; 0 is the profile that spans the device.
    let first = u32::from(profile.slices < mig.slices);
    let id = (first..).find(|&id| !used(id)).ok_or(MigError::NoRoom)?;
    let row = (1..crate::state::INSTANCES).find(|&row| !state.instances.rows[row].live);
    let row = row.ok_or(MigError::NoRoom)?;
    // The link's byte count continues across owners of the engine.
    let was_used = row < state.instances.used as usize;
    let copies = was_used.then(|| state.instances.rows[row].copies);
    state.instances.used = state.instances.used.max(row as u32 + 1);
    state.mig.made += 1;
    let memory = &machine.memory;
    let slot_bytes = ((memory.total_mib - memory.reserved_mib) << 20) / u64::from(mig.slots);
    let bandwidth = ONE * u64::from(profile.memory_slots) / u64::from(mig.slots);
    state.instances.rows[row] = GpuInstance {
        live: true,
        id,
        generation: state.mig.made,
        profile: index,
        slot_start: start,
        slots: profile.memory_slots,
        sm_first: start * (machine.gpu.sm_count / mig.slots),
        sm_count: machine.profile_sms(mig, profile),
        memory_offset: aligned(slot_bytes * u64::from(start)),
        memory_bytes: machine.profile_memory_mib(mig, profile) << 20,
        l2_bytes: (memory.l2_kib << 10) * u64::from(profile.memory_slots) / u64::from(mig.slots),
        bandwidth,
        copies: copies.unwrap_or_default(),
    };
    Ok(row as u32)
}

/// Memory of instances starts on large pages.
const fn aligned(offset: u64) -> u64 {
    const PAGE: u64 = 2 << 20;
    offset / PAGE * PAGE
}

/// The first slice at which a compute instance with that many slices can start now in a GPU
/// instance of `all` slices.
fn first_free_slice(state: &State, instance: u32, slices: u32, all: u32) -> Option<u32> {
    let clear = |start: &u32| {
        engines(state, instance).all(|(_, row)| {
            start + slices <= row.slice_start || row.slice_start + row.profile <= *start
        })
    };
    (0..=all - slices).find(clear)
}

/// SMs of a compute instance with that many slices, in a GPU instance with `all` slices and
/// `sm_count` SMs.
pub fn engine_sms(sm_count: u32, slices: u32, all: u32) -> u32 {
    (sm_count * slices / all).max(1)
}

/// Creates a compute instance of `slices` slices, at the first free slice.
/// Fails when the instance does not exist, or too few slices are free.
pub fn create_engine(
    state: &mut State,
    machine: &Machine,
    instance: u32,
    slices: u32,
) -> Result<u32, MigError> {
    let mig = machine.mig.as_ref().filter(|_| state.mig.current);
    let mig = mig.ok_or(MigError::Off)?;
    let part = state.instances.rows.get(instance as usize);
    let part = *part.filter(|part| part.live).ok_or(MigError::Unknown)?;
    let all = mig.profile[part.profile as usize].slices;
    if slices == 0 || slices > all {
        return Err(MigError::Unknown);
    }
    let start = first_free_slice(state, instance, slices, all).ok_or(MigError::NoRoom)?;
    let taken = |id: u32| engines(state, instance).any(|(_, row)| row.id == id);
    let id = (0..all).find(|&id| !taken(id)).ok_or(MigError::NoRoom)?;
    let row = (1..crate::state::ENGINES).find(|&row| !state.engines.rows[row].live);
    let row = row.ok_or(MigError::NoRoom)?;
    // The usage count continues, since the sum over the rows is that of the device.
    let was_used = row < state.engines.used as usize;
    let used = was_used.then(|| state.engines.rows[row].used);
    state.engines.used = state.engines.used.max(row as u32 + 1);
    let sm_count = engine_sms(part.sm_count, slices, all);
    state.mig.made += 1;
    state.engines.rows[row] = ComputeEngine {
        live: true,
        id,
        instance,
        profile: slices,
        slice_start: start,
        sm_first: part.sm_first + part.sm_count * start / all,
        sm_count,
        sm_share: ONE * u64::from(sm_count) / u64::from(machine.gpu.sm_count),
        generation: state.mig.made,
        used: used.unwrap_or_default(),
        ..ComputeEngine::default()
    };
    Ok(row as u32)
}

/// Destroys a compute instance.
/// Fails when it does not exist, or a context uses it.
pub fn destroy_engine(state: &mut State, engine: u32) -> Result<(), MigError> {
    let busy = |context: &Context| context.live && context.engine == engine;
    if state.contexts.live().iter().any(busy) {
        return Err(MigError::InUse);
    }
    let row = state.engines.rows.get_mut(engine as usize);
    let row = row.filter(|row| row.live && engine != WHOLE);
    row.ok_or(MigError::Unknown)?.live = false;
    Ok(())
}

/// Destroys a GPU instance.
/// Fails when it does not exist, still has compute instances, or a process without a context holds
/// its memory.
pub fn destroy_instance(state: &mut State, instance: u32) -> Result<(), MigError> {
    let holds = |row: &Allocation| row.live && row.instance == instance;
    let held = state.allocations.live().iter().any(holds);
    if held || engines(state, instance).next().is_some() {
        return Err(MigError::InUse);
    }
    let row = state.instances.rows.get_mut(instance as usize);
    let row = row.filter(|row| row.live && instance != WHOLE);
    row.ok_or(MigError::Unknown)?.live = false;
    Ok(())
}

/// The UUID by which programs select a compute instance.
pub fn uuid(state: &State, machine: &Machine, engine: u32) -> String {
    let row = &state.engines.rows[engine as usize];
    let seed = format!("{} {} {}", machine.name, state.seed, row.generation);
    format!("MIG-{}", crate::machine::uuid_of(seed.as_bytes()))
}
