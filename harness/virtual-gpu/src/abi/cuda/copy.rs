//! Copies and fills.
//!
//! The bytes move when the call is made, the time passes on the model's copy engine. A program
//! that changes a buffer while a copy of it is under way races, here as on hardware.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_uint, c_void};

use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::handles::Handle;
use crate::abi::process::{Process, StreamEntry, process};
use crate::contents::BASE;
use crate::noise;
use crate::state::{ONE, Op, OpKind, Resource};

/// In virtual time a copy of this size that repeats the last one to the same place moves no bytes:
/// a load generator would spend its time in memcpy. Its target counts as unwritten from then on,
/// and reading it fails.
const REPEATED_COPY_BYTES: u64 = 1 << 20;

/// In virtual time a larger fill writes nothing, likewise.
const LARGE_FILL_BYTES: u64 = 64 << 20;

entries! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        to_device(to, from, bytes, std::ptr::null_mut(), true)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        to_device(to, from, bytes, stream, false)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        to_host(to, from, bytes, std::ptr::null_mut(), true)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        to_host(to, from, bytes, stream, false)
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        within_device(to, from, bytes, std::ptr::null_mut())
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        within_device(to, from, bytes, stream)
    }

    fn cuMemsetD8_v2(pointer: u64, value: u8, count: usize) {
        fill(pointer, &[value], count, std::ptr::null_mut(), true)
    }

    fn cuMemsetD8Async(pointer: u64, value: u8, count: usize, stream: Handle) {
        fill(pointer, &[value], count, stream, false)
    }

    fn cuMemsetD16_v2(pointer: u64, value: u16, count: usize) {
        fill(pointer, &value.to_le_bytes(), count, std::ptr::null_mut(), true)
    }

    fn cuMemsetD32_v2(pointer: u64, value: c_uint, count: usize) {
        fill(pointer, &value.to_le_bytes(), count, std::ptr::null_mut(), true)
    }

    fn cuMemsetD32Async(pointer: u64, value: c_uint, count: usize, stream: Handle) {
        fill(pointer, &value.to_le_bytes(), count, stream, false)
    }
}

/// The allocation that holds a range, or the error for a range that none does.
fn whose(process: &Process, address: u64, bytes: u64) -> Result<(u64, bool), Code> {
    let tables = process.ready()?;
    let (start, entry) = tables.covering(address, bytes).ok_or(code::INVALID_VALUE)?;
    Ok((start, entry.unwritten))
}

fn host_address(process: &Process, address: u64, bytes: u64) -> Result<*mut u8, Code> {
    process
        .contents
        .pointer(address - BASE, bytes)
        .ok_or(code::INVALID_VALUE)
}

/// Says which read found nothing to read, and refuses it.
fn refuse_unwritten(address: u64) -> Code {
    crate::abi::say(&format!(
        "read of {address:#x}: the last launch or copy into that allocation was only sampled, \
         so there is nothing to read (see the README of the virtual GPU)"
    ));
    code::NOT_SUPPORTED
}

fn to_device(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
    wait: bool,
) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    if from.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let length = bytes as u64;
    let (start, _) = whose(process, to, length)?;
    crate::launch::finish_deferred_writes(process, start)?;
    let device = &process.device;
    let repeated = {
        let mut tables = process.tables();
        let last = tables.copies.insert(to, (from as usize, length));
        device.is_virtual_time()
            && length >= REPEATED_COPY_BYTES
            && last == Some((from as usize, length))
    };
    if !repeated {
        let target = host_address(process, to, length)?;
        // SAFETY: the caller vouches for the source, the allocation table for the target, and
        // host memory never overlaps the mapping of device memory.
        unsafe { std::ptr::copy(from.cast::<u8>(), target, bytes) };
    }
    process.tables().wrote(start, repeated);
    let pinned = is_pinned(process, from as usize);
    let pcie = &device.machine().pcie;
    transfer(
        process,
        &stream,
        OpKind::ToDevice,
        length,
        pcie.to_device_gb_per_s,
        pinned,
        wait,
    )
}

fn to_host(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: Handle,
    wait: bool,
) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let length = bytes as u64;
    whose(process, from, length)?;
    let pinned = is_pinned(process, to as usize);
    let pcie = &process.device.machine().pcie;
    transfer(
        process,
        &stream,
        OpKind::ToHost,
        length,
        pcie.to_host_gb_per_s,
        pinned,
        wait,
    )?;
    if wait {
        crate::launch::finish_deferred(process, stream.context)?;
    } else {
        crate::launch::run_deferred_early(process, stream.context)?;
    }
    let (_, unwritten) = whose(process, from, length)?;
    if unwritten {
        return Err(refuse_unwritten(from));
    }
    let source = host_address(process, from, length)?;
    // SAFETY: as in `to_device`, the other way round.
    unsafe { std::ptr::copy(source, to.cast::<u8>(), bytes) };
    Ok(())
}

fn within_device(to: u64, from: u64, bytes: usize, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let length = bytes as u64;
    let (target, _) = whose(process, to, length)?;
    let (_, unwritten) = whose(process, from, length)?;
    if !unwritten {
        let (source, place) = (
            host_address(process, from, length)?,
            host_address(process, to, length)?,
        );
        // SAFETY: both ranges lie in allocations of this process; `copy` allows overlap.
        unsafe { std::ptr::copy(source, place, bytes) };
    }
    process.tables().wrote(target, unwritten);
    process
        .device
        .charge(process.device.machine().host.copy_ns)?;
    // Each byte is read and written.
    device_traffic(process, &stream, 2 * length)?;
    Ok(())
}

fn fill(
    pointer: u64,
    pattern: &[u8],
    count: usize,
    stream: Handle,
    wait: bool,
) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    let bytes = count
        .checked_mul(pattern.len())
        .ok_or(code::INVALID_VALUE)?;
    if bytes == 0 {
        return Ok(());
    }
    if !pointer.is_multiple_of(pattern.len() as u64) {
        return Err(code::INVALID_VALUE);
    }
    let length = bytes as u64;
    let (start, _) = whose(process, pointer, length)?;
    let skipped = process.device.is_virtual_time() && length > LARGE_FILL_BYTES;
    if !skipped {
        let target = host_address(process, pointer, length)?;
        for index in 0..count {
            // SAFETY: `index` elements of the pattern's size fit in the range checked above.
            unsafe {
                let place = target.add(index * pattern.len());
                std::ptr::copy_nonoverlapping(pattern.as_ptr(), place, pattern.len());
            }
        }
    }
    process.tables().wrote(start, skipped);
    process
        .device
        .charge(process.device.machine().host.launch_ns)?;
    let seq = device_traffic(process, &stream, length)?;
    if wait {
        process.device.wait_stream(stream.slot, seq)?;
    }
    Ok(())
}

fn is_pinned(process: &Process, address: usize) -> bool {
    let tables = process.tables();
    let below = tables.pinned.range(..=address).next_back();
    below.is_some_and(|(start, (bytes, _))| address < start + bytes)
}

/// Puts a copy on its engine, and waits for it if asked to.
fn transfer(
    process: &Process,
    stream: &StreamEntry,
    kind: OpKind,
    bytes: u64,
    gb_per_s: f64,
    pinned: bool,
    wait: bool,
) -> Result<(), Code> {
    let device = &process.device;
    let pcie = &device.machine().pcie;
    let rate = if pinned {
        gb_per_s
    } else {
        gb_per_s * pcie.pageable_factor
    };
    let alone_ns = pcie.copy_latency_us * 1e3 + bytes as f64 / rate;
    device.charge(device.machine().host.copy_ns)?;
    let op = Op {
        kind,
        alone_ns: noisy(process, stream.slot, alone_ns)?,
        bytes,
        ..Op::default()
    };
    let seq = device.submit(stream.slot, op)?;
    // A copy of pageable memory returns only when its staging buffer is free again.
    if wait || !pinned {
        device.wait_stream(stream.slot, seq)?;
        device.charge(device.machine().host.sync_ns)?;
        process.check_sticky(stream.context)?;
    }
    Ok(())
}

/// Work that moves bytes within device memory at full bandwidth.
fn device_traffic(process: &Process, stream: &StreamEntry, bytes: u64) -> Result<u64, Code> {
    let machine = process.device.machine();
    let alone_ns = 1_000.0 + bytes as f64 / machine.memory.dram_gb_per_s;
    let mut op = Op {
        kind: OpKind::Kernel,
        alone_ns: noisy(process, stream.slot, alone_ns)?,
        power_mw: ((machine.power.max_w - machine.power.idle_w) * 500.0) as u32,
        ..Op::default()
    };
    op.demand[Resource::Dram as usize] = ONE as u32;
    op.demand[Resource::L2 as usize] = ONE as u32 / 2;
    Ok(process.device.submit(stream.slot, op)?)
}

/// A duration with the planted noise.
pub fn noisy(process: &Process, stream: u32, alone_ns: f64) -> Result<u64, Code> {
    let device = &process.device;
    let at = device.now_ns();
    let seq = super::stream::submitted(stream)?;
    let key = (u64::from(stream) << 40) ^ seq;
    let factor = noise::factor(&device.machine().noise, device.session().seed, at, key);
    Ok((alone_ns * factor).round().max(1.0) as u64)
}
