//! Streams.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint, c_ulonglong};

use super::global::entries;
use crate::abi::code;
use crate::abi::handles::Handle;
use crate::abi::process::{StreamEntry, process};
use crate::abi::put;
use crate::life;
use crate::state::{Op, OpKind, Stream};

/// The greatest priority there is; lower numbers go first.
pub const GREATEST_PRIORITY: c_int = -5;

fn create(stream: *mut Handle, flags: c_uint, priority: c_int) -> Result<(), code::Code> {
    // CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING are 0 and 1 (cuda.h).
    if stream.is_null() || flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    let device = &process.device;
    device.charge(device.machine().host.stream_ns)?;
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    let slot = device.transact(|state, _| {
        let slot = state.streams.claim(|s| !s.live)?;
        state.streams.rows[slot] = Stream {
            live: true,
            context: context.slot,
            priority,
            ..Stream::default()
        };
        Some(slot as u32)
    })?;
    let slot = slot.ok_or(code::OUT_OF_MEMORY)?;
    let entry = StreamEntry {
        slot,
        context: context.slot,
        flags,
        priority,
    };
    let handle = process.tables().streams.insert(entry)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(stream, handle) }
}

entries! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        create(stream, flags, 0)
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        let process = process()?;
        let device = &process.device;
        let entry = *process.ready()?.streams.get(stream)?;
        // Destruction waits for nothing, but what is queued still runs (cuStreamDestroy); the
        // slot can go only when it has.
        device.wait_stream(entry.slot, submitted(entry.slot)?)?;
        device.charge(device.machine().host.stream_ns)?;
        device.transact(|state, _| {
            life::close_stream(&mut state.streams.rows[entry.slot as usize]);
        })?;
        process.tables().streams.remove(stream)?;
        Ok(())
    }

    fn cuStreamSynchronize(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        process.device.wait_stream(entry.slot, submitted(entry.slot)?)?;
        process.device.charge(process.device.machine().host.sync_ns)?;
        crate::launch::finish_deferred(process, entry.context)?;
        process.check_sticky(entry.context)
    }

    fn cuStreamQuery(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        process.device.charge(process.device.machine().host.query_ns)?;
        process.device.catch_up()?;
        let idle = process
            .device
            .transact(|state, _| {
                let slot = &state.streams.rows[entry.slot as usize];
                slot.completed == slot.submitted
            })?;
        process.check_sticky(entry.context)?;
        if idle { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        let recorded = process.ready()?.events.get(event)?.recorded;
        process.device.charge(process.device.machine().host.event_ns)?;
        if let Some((target, target_seq)) = recorded.filter(|(slot, _)| *slot != entry.slot) {
            let op = Op { kind: OpKind::Wait, target, target_seq, ..Op::default() };
            process.device.submit(entry.slot, op)?;
        }
        Ok(())
    }

    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(priority, entry.priority) }
    }

    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(flags, entry.flags) }
    }

    fn cuStreamGetId(stream: Handle, id: *mut c_ulonglong) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(id, c_ulonglong::from(entry.slot)) }
    }
}

/// How much was ever submitted to a stream: what a wait for all of it waits for.
pub fn submitted(slot: u32) -> Result<u64, code::Code> {
    let read = process()?
        .device
        .shared()
        .read(|s| s.streams.rows[slot as usize].submitted);
    Ok(read.map_err(crate::device::DeviceError::State)?)
}
