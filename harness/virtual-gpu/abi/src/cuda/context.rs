//! Contexts: creation, the thread's stack of them, limits, waiting for all work.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};

use super::attributes::{NoLimit, limit_of};
use super::global::entries;
use crate::process::{
    ContextEntry, Process, current_handle, pop_current, process, push_current, set_current,
};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::cost::Part;
use gpubench_virtual_gpu_driver::device::DeviceError;
use gpubench_virtual_gpu_driver::entries::Seat;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::placement;
use gpubench_virtual_gpu_model::cgroup;
use gpubench_virtual_gpu_model::compute_mode::{self, ComputeMode};
use gpubench_virtual_gpu_model::lifecycle;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::state::{Context, Order, State, Stream};

/// Makes a context with its default stream, in the shared state and in the tables.
fn create(process: &Process, flags: u32) -> Result<Handle, Code> {
    let device = &process.device;
    drop(process.ready()?);
    let owner = device.process()?;
    let server = placement::server(&process.device)?;
    let mode = device.shared().read(|state| state.compute_mode);
    if mode.map_err(DeviceError::State)? != ComputeMode::Default {
        // A process that is no more keeps nobody out.
        device.bury_the_dead()?;
    }
    let group = cgroup::of_process(device.dir(), std::process::id());
    let made = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        enter(state, device.machine(), owner, server, group)
    })??;
    // Whoever is refused is refused at once; making a context is what takes long.
    device.charge_locked(device.machine().host.context_ns)?;
    let (slot, default_stream, part) = made;
    let entry = ContextEntry {
        slot,
        seat: Seat {
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
    if !compute_mode::admits(state, owner, server) {
        return Err(code::DEVICE_UNAVAILABLE);
    }
    let slot = state
        .contexts
        .claim(|c| !c.live)
        .ok_or(code::OUT_OF_MEMORY)?;
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
    if room < context.bytes || !within {
        return Err(code::OUT_OF_MEMORY);
    }
    let stream = state
        .streams
        .claim(|s| !s.live)
        .ok_or(code::OUT_OF_MEMORY)?;
    let row = &mut state.streams.rows[stream];
    *row = Stream::renewed(row, slot as u32, Order::Legacy);
    context.live = true;
    state.contexts.rows[slot] = context;
    Ok((slot as u32, stream as u32, placement::part(state, &context)))
}

/// Ends a context and all that belongs to it.
fn destroy(process: &Process, handle: Handle) -> Result<(), Code> {
    let device = &process.device;
    let entry = process.ready()?.contexts.get(handle)?.clone();
    device.charge(device.machine().host.other_ns)?;
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

entries! {
    fn cuCtxCreate_v2(context: *mut Handle, flags: c_uint, device: c_int) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        check_flags(flags, ALL_FLAGS)?;
        let handle = create(process()?, flags)?;
        push_current(handle);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(context, handle) }
    }

    fn cuCtxDestroy_v2(context: Handle) {
        let process = process()?;
        destroy(process, context).map_err(invalid_context)?;
        if current_handle() == Some(context) {
            let _ = pop_current();
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let handle = retain(process()?, device)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(context, handle) }
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        release(device, false)
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        release(device, true)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        check_flags(flags, ALL_FLAGS & !MAP_HOST)?;
        process()?.ready()?.primary_flags = flags;
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        let tables = process()?.ready()?;
        // SAFETY: the caller's places, checked for null.
        unsafe {
            put(flags, tables.primary_flags)?;
            put(active, c_int::from(tables.primary.is_some()))
        }
    }

    fn cuCtxSetCurrent(context: Handle) {
        if !context.is_null() {
            process()?.ready()?.contexts.get(context).map_err(invalid_context)?;
        }
        set_current(context);
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut Handle) {
        drop(process()?.ready()?);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(context, current_handle().unwrap_or(std::ptr::null_mut())) }
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        process()?.ready()?.contexts.get(context).map_err(invalid_context)?;
        push_current(context);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        let popped = pop_current().ok_or(code::INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: not null, the caller's place.
        unsafe { put(context, popped) }
    }

    fn cuCtxGetDevice(device: *mut c_int) {
        process()?.current_even_if_broken()?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(device, 0) }
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        let context = process()?.current()?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(flags, context.flags) }
    }

    fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) {
        if !context.is_null() {
            process()?.ready()?.contexts.get(context).map_err(invalid_context)?;
        }
        // SAFETY: the caller's place, checked for null.
        unsafe { put(version, 3020) }
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        process()?.current()?;
        // SAFETY: the caller's places; null means not wanted (cuda.h).
        unsafe {
            if !least.is_null() {
                put(least, 0)?;
            }
            if !greatest.is_null() {
                put(greatest, super::stream::GREATEST_PRIORITY)?;
            }
        }
        Ok(())
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_int) {
        let process = process()?;
        let context = process.current()?;
        let found = match context.limits.get(&limit) {
            Some(set) => *set,
            None => limit_of(process.device.machine(), limit).map_err(no_limit)?,
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(value, found) }
    }

    fn cuCtxSetLimit(limit: c_int, value: usize) {
        let process = process()?;
        process.current()?;
        limit_of(process.device.machine(), limit).map_err(no_limit)?;
        let handle = current_handle().ok_or(code::INVALID_CONTEXT)?;
        process.tables().contexts.get_mut(handle)?.limits.insert(limit, value);
        Ok(())
    }

    fn cuCtxSynchronize() {
        let process = process()?;
        let context = process.current()?;
        process.device.wait_context(context.slot)?;
        process.device.charge(process.device.machine().host.sync_ns)?;
        crate::launch::finish_deferred(process, context.slot)?;
        super::pool::trim_all(process)?;
        process.check_sticky(context.slot)
    }
}

/// `CU_CTX_FLAGS_MASK` (cuda.h).
const ALL_FLAGS: c_uint = 0xff;
/// `CU_CTX_MAP_HOST` (cuda.h), which contexts always have, and primary ones may not ask for.
const MAP_HOST: c_uint = 0x8;
/// `CU_CTX_SCHED_MASK` (cuda.h): at most one way to wait.
const WAYS_TO_WAIT: c_uint = 0x7;

/// Refuses flags that a context cannot have. Measured on an H100 80GB HBM3, driver 580.159.04,
/// 2026-11-22.
fn check_flags(flags: c_uint, allowed: c_uint) -> Result<(), Code> {
    let one_way = matches!(flags & WAYS_TO_WAIT, 0 | 1 | 2 | 4);
    if one_way && flags & !allowed == 0 {
        Ok(())
    } else {
        Err(code::INVALID_VALUE)
    }
}

fn no_limit(why: NoLimit) -> Code {
    match why {
        NoLimit::Unsupported => code::UNSUPPORTED_LIMIT,
        NoLimit::Unknown => code::INVALID_VALUE,
    }
}

fn invalid_context(code: Code) -> Code {
    if code == code::INVALID_HANDLE {
        code::INVALID_CONTEXT
    } else {
        code
    }
}

/// Holds the primary context, which is made if it is not there.
///
/// # Errors
/// When there is no such device, or no room.
pub(super) fn retain(process: &Process, device: c_int) -> Result<Handle, Code> {
    if device != 0 {
        return Err(code::INVALID_DEVICE);
    }
    if let Some((handle, count)) = &mut process.ready()?.primary {
        *count += 1;
        return Ok(*handle as Handle);
    }
    let flags = process.tables().primary_flags;
    let handle = create(process, flags)?;
    process.tables().primary = Some((handle as usize, 1));
    Ok(handle)
}

/// Lets go of the primary context, or ends it.
///
/// # Errors
/// When there is none.
pub(super) fn release(device: c_int, reset: bool) -> Result<(), Code> {
    if device != 0 {
        return Err(code::INVALID_DEVICE);
    }
    let process = process()?;
    let last = {
        let mut tables = process.ready()?;
        match &mut tables.primary {
            None if reset => return Ok(()),
            None => return Err(code::INVALID_CONTEXT),
            Some((handle, count)) => {
                *count -= 1;
                let gone = (*count == 0 || reset).then_some(*handle as Handle);
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
