//! Contexts: creation, the primary context, limits.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};

use super::after_wait;
use crate::code::{self, Code, refuse};
use crate::cost::Part;
use crate::device_attributes::{NoLimit, limit_of};
use crate::entries::ContextPlacement;
use crate::handles::Handle;
use crate::placement;
use crate::process::{ContextEntry, Process, current_handle, process};
use crate::rules::{Rule, are_strict, mps_variables};
use gpubench_virtual_gpu_model::compute_mode::{self, ComputeMode};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{Context, Order, State, Stream};
use gpubench_virtual_gpu_model::{cgroup, lifecycle, memory};

/// Makes a context with its default stream, in the shared state and in the tables.
pub fn create(process: &Process, flags: u32) -> Result<Handle, Code> {
    let device = &process.device;
    if process.ready()?.mps_variables != mps_variables() {
        let answer = Rule::LateVariable.broken();
        if are_strict() {
            return Err(answer);
        }
    }
    let owner = device.process()?;
    let server = placement::server(&process.device)?;
    let mode = device.shared().read(|state| state.compute_mode);
    if mode? != ComputeMode::Default {
        // A dead process does not exclude others.
        device.reap_dead_processes()?;
    }
    let group = cgroup::of_process(device.dir(), std::process::id());
    let made = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        enter(state, device.machine(), owner, server, group)
    })??;
    // A refusal is immediate; only making a context takes long.
    process.charge_locked(process.host().context_ns)?;
    let (slot, default_stream, part) = made;
    let entry = ContextEntry {
        slot,
        placement: ContextPlacement {
            context: slot,
            sm_first: part.sm_first,
            sm_count: part.sm_count,
        },
        default_stream,
        flags,
        limits: BTreeMap::new(),
        part,
    };
    process.tables().contexts.insert(entry)
}

/// Enters a context and its default stream in the shared state.
fn enter(
    state: &mut State,
    machine: &Machine,
    owner: u32,
    server: Option<u32>,
    memory_group: u64,
) -> Result<(u32, u32, Part), Code> {
    refuse(!compute_mode::admits(state, owner, server), code::DEVICE_UNAVAILABLE)?;
    let slot = state.contexts.claim(|c| !c.live).ok_or(code::OUT_OF_MEMORY)?;
    let mut context = Context {
        process: owner,
        group: slot as u32,
        space: slot as u32,
        memory_group,
        bytes: match server {
            Some(_) => machine.mps_client_bytes(),
            None => machine.memory.context_mib << 20,
        },
        intervals: state.contexts.rows[slot].intervals,
        ..Context::default()
    };
    placement::place(state, machine, server, &mut context)?;
    let instance = state.engines.rows[context.engine as usize].instance;
    let room = memory::free_bytes(state, instance).min(memory::group_room(state, &context));
    let within = context.memory_limit == 0 || context.memory_limit >= context.bytes;
    refuse(room < context.bytes || !within, code::OUT_OF_MEMORY)?;
    let stream = state.streams.claim(|s| !s.live).ok_or(code::OUT_OF_MEMORY)?;
    state.streams.rows[stream] = Stream::of(slot as u32, Order::Legacy);
    context.live = true;
    state.contexts.rows[slot] = context;
    Ok((slot as u32, stream as u32, placement::part(state, &context)))
}

/// Flags that the primary context gets when it is made.
pub fn set_primary_flags(flags: c_uint) -> Result<(), Code> {
    check_flags(flags, ALL_FLAGS & !MAP_HOST)?;
    process()?.ready()?.primary_flags = flags;
    Ok(())
}

/// Refuses a handle that is no context. Whether the context is for one thread at a time, as green
/// ones are (CUDA driver API, `cuGreenCtxCreate`).
pub fn for_one_thread(context: Handle) -> Result<bool, Code> {
    let tables = process()?.ready()?;
    tables.contexts.get(context).map_err(invalid_context)?;
    let is_green = tables.greens.values().any(|green| green.context == context as usize);
    Ok(is_green || process()?.device.machine().defects.contexts_of_one_thread)
}

/// A limit of the current context (`CUlimit`, cuda.h).
pub fn limit(limit: c_int) -> Result<usize, Code> {
    let process = process()?;
    match process.current()?.limits.get(&limit) {
        Some(set) => Ok(*set),
        None => limit_of(process.device.machine(), limit).map_err(no_limit),
    }
}

/// Sets a limit of the current context.
pub fn set_limit(limit: c_int, value: usize) -> Result<(), Code> {
    let process = process()?;
    process.current()?;
    limit_of(process.device.machine(), limit).map_err(no_limit)?;
    let handle = current_handle().ok_or(code::INVALID_CONTEXT)?;
    let mut tables = process.tables();
    tables.contexts.get_mut(handle)?.limits.insert(limit, value);
    Ok(())
}

/// Waits for all work of the current context.
pub fn synchronize() -> Result<(), Code> {
    let process = process()?;
    let context = process.current()?.slot;
    process.device.wait_context(context)?;
    after_wait(process, context)
}

/// Ends a context and all that belongs to it.
pub fn destroy(process: &Process, handle: Handle) -> Result<(), Code> {
    let device = &process.device;
    let entry = process.ready()?.contexts.get(handle)?.clone();
    process.charge(process.host().other_ns)?;
    // Work that is under way is abandoned, as the driver documents for cuCtxDestroy.
    device.transact(|state, _| lifecycle::close_context(state, device.rules(), entry.slot))?;
    let events = {
        let mut tables = process.tables();
        tables.contexts.remove(handle)?;
        tables.forget_context(entry.slot)
    };
    for event in events.iter().filter(|event| !event.opened) {
        device.shared().free_event(event.index);
    }
    Ok(())
}

/// `CU_CTX_FLAGS_MASK` (cuda.h).
pub const ALL_FLAGS: c_uint = 0xff;

/// `CU_CTX_MAP_HOST` (cuda.h), which contexts always have, and primary ones may not ask for.
const MAP_HOST: c_uint = 0x8;

/// `CU_CTX_SCHED_MASK` (cuda.h): at most one wait policy.
const WAIT_POLICIES: c_uint = 0x7;

/// Refuses flags that a context cannot have. Measured on an H100 80GB HBM3, driver 580.159.04,
/// 2026-11-22.
pub fn check_flags(flags: c_uint, allowed: c_uint) -> Result<(), Code> {
    let one_policy = matches!(flags & WAIT_POLICIES, 0 | 1 | 2 | 4);
    if one_policy && flags & !allowed == 0 { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// The result for a limit without a value.
fn no_limit(why: NoLimit) -> Code {
    match why {
        NoLimit::Unsupported => code::UNSUPPORTED_LIMIT,
        NoLimit::Unknown => code::INVALID_VALUE,
    }
}

/// A dead handle of a context is an invalid context, not an invalid handle.
pub fn invalid_context(code: Code) -> Code {
    if code == code::INVALID_HANDLE { code::INVALID_CONTEXT } else { code }
}

/// Retains the primary context; it is created at first use.
pub fn retain(process: &Process, device: c_int) -> Result<Handle, Code> {
    refuse(device != 0, code::INVALID_DEVICE)?;
    if let Some((handle, count)) = &mut process.ready()?.primary {
        *count += 1;
        return Ok(*handle as Handle);
    }
    let flags = process.tables().primary_flags;
    let handle = create(process, flags)?;
    process.tables().primary = Some((handle as usize, 1));
    Ok(handle)
}

/// Releases the primary context; the last release ends it.
pub fn release(device: c_int) -> Result<(), Code> {
    refuse(device != 0, code::INVALID_DEVICE)?;
    let process = process()?;
    let last = {
        let mut tables = process.ready()?;
        match &mut tables.primary {
            None => return Err(code::INVALID_CONTEXT),
            Some((handle, count)) => {
                *count -= 1;
                let gone = (*count == 0).then_some(*handle as Handle);
                if gone.is_some() {
                    tables.primary = None;
                }
                gone
            }
        }
    };
    match last {
        Some(handle) => destroy(process, handle).map_err(invalid_context),
        None => Ok(()),
    }
}
