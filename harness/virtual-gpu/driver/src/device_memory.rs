//! Device memory of a context: allocation and return.

use crate::code::{self, Code};
use crate::process::Process;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::state::{Allocation, Context, State};

/// Takes device memory for a context.
pub fn take(process: &Process, context: u32, bytes: u64) -> Result<Allocation, Code> {
    take_by(process, |state, owner| memory::allocate(state, owner, context, bytes))
}

/// Takes device memory for a process that has no context; `of` is the one that it would get.
pub fn take_without_context(
    process: &Process,
    of: &Context,
    bytes: u64,
) -> Result<Allocation, Code> {
    take_by(process, |state, owner| memory::allocate_without_context(state, owner, of, bytes))
}

fn take_by(
    process: &Process,
    allocate: impl Fn(&mut State, u32) -> Option<Allocation>,
) -> Result<Allocation, Code> {
    let device = &process.device;
    let owner = device.process()?;
    // The order in which processes take and return memory is that of virtual time.
    device.catch_up()?;
    let attempt = || {
        device.transact(|state, _| {
            let peak = |state: &State| state.processes.rows[owner as usize].peak_bytes;
            let before = peak(state);
            let made = allocate(state, owner)?;
            // The peak counts contexts too, which are charged on their own.
            Some((made, (peak(state) - before).min(made.taken)))
        })
    };
    let (made, new_bytes) = match attempt()? {
        Some(made) => made,
        None => {
            // Memory of dead processes becomes free when they are reaped.
            device.reap_dead_processes()?;
            match attempt()? {
                Some(made) => made,
                None => return process.refuse(code::OUT_OF_MEMORY),
            }
        }
    };
    let memory = &device.machine().memory;
    if memory.scrub {
        clear(process, &made)?;
    }
    if let Some(gb_per_s) = memory.first_use_gb_per_s {
        // 10^9 bytes a second are bytes a nanosecond.
        process.charge((new_bytes as f64 / gb_per_s) as u64)?;
    }
    Ok(made)
}

/// Clears device memory that was just taken.
pub fn clear(process: &Process, made: &Allocation) -> Result<(), Code> {
    let cleared = process.contents.scrub(made.offset, made.taken);
    Ok(cleared?)
}

/// Returns device memory.
pub fn give_back(process: &Process, offset: u64) -> Result<(), Code> {
    let device = &process.device;
    let owner = device.process()?;
    device.transact(|state, _| memory::release(state, owner, offset))?;
    Ok(())
}

/// Returns the memory at an address, and the address with it.
pub fn forget(process: &Process, address: u64) -> Result<(), Code> {
    let offset = process.tables().allocations.get(&address).map(|entry| entry.offset);
    give_back(process, offset.ok_or(code::INVALID_VALUE)?)?;
    process.tables().allocations.remove(&address);
    Ok(())
}
