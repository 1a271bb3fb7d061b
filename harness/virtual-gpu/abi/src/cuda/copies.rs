//! The entry points that copy: plain, between contexts, and of rectangles and boxes.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::c_void;

use super::action::{Action, Pace, perform};
use super::copy::{Copy, Place};
use super::global::entries;
use super::layout::{Copy2d, Copy3d};
use crate::process::{Process, process};
use gpubench_virtual_gpu_driver::addresses;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        plain(device(to), host(from), bytes, None)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        plain(device(to), host(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        plain(host(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        plain(host(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        plain(device(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        plain(device(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpy(to: u64, from: u64, bytes: usize) {
        plain(anywhere(to), anywhere(from), bytes, None)
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) {
        plain(anywhere(to), anywhere(from), bytes, Some(stream))
    }

    fn cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) {
        known_contexts(&[to_context, from_context])?;
        plain(device(to), device(from), bytes, None)
    }

    fn cuMemcpyPeerAsync(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) {
        known_contexts(&[to_context, from_context])?;
        plain(device(to), device(from), bytes, Some(stream))
    }

    fn cuMemcpyHtoA_v2(array: Handle, offset: usize, from: *const c_void, bytes: usize) {
        plain(in_array(array, offset, bytes), host(from), bytes, None)
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, array: Handle, offset: usize, bytes: usize) {
        plain(host(to), in_array(array, offset, bytes), bytes, None)
    }

    fn cuMemcpyDtoA_v2(array: Handle, offset: usize, from: u64, bytes: usize) {
        plain(in_array(array, offset, bytes), device(from), bytes, None)
    }

    fn cuMemcpyAtoD_v2(to: u64, array: Handle, offset: usize, bytes: usize) {
        plain(device(to), in_array(array, offset, bytes), bytes, None)
    }

    fn cuMemcpyAtoA_v2(to: Handle, to_offset: usize, from: Handle, offset: usize, bytes: usize) {
        plain(in_array(to, to_offset, bytes), in_array(from, offset, bytes), bytes, None)
    }

    fn cuMemcpyHtoAAsync_v2(
        array: Handle,
        offset: usize,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) {
        plain(in_array(array, offset, bytes), host(from), bytes, Some(stream))
    }

    fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void,
        array: Handle,
        offset: usize,
        bytes: usize,
        stream: Handle,
    ) {
        plain(host(to), in_array(array, offset, bytes), bytes, Some(stream))
    }

    fn cuMemcpy2D_v2(copy: *const Copy2d) {
        // SAFETY: the caller's structure.
        shaped(unsafe { two_sides(copy) }?, None)
    }

    fn cuMemcpy2DUnaligned_v2(copy: *const Copy2d) {
        // SAFETY: the caller's structure.
        shaped(unsafe { two_sides(copy) }?, None)
    }

    fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: Handle) {
        // SAFETY: the caller's structure.
        shaped(unsafe { two_sides(copy) }?, Some(stream))
    }

    fn cuMemcpy3D_v2(copy: *const Copy3d) {
        // SAFETY: the caller's structure.
        shaped(unsafe { read(copy) }?, None)
    }

    fn cuMemcpy3DAsync_v2(copy: *const Copy3d, stream: Handle) {
        // SAFETY: the caller's structure.
        shaped(unsafe { read(copy) }?, Some(stream))
    }

    // CUDA_MEMCPY3D_PEER is CUDA_MEMCPY3D with contexts where that has reserved words (cuda.h).
    fn cuMemcpy3DPeer(copy: *const Copy3d) {
        // SAFETY: the caller's structure.
        let copy = unsafe { read(copy) }?;
        known_contexts(&[copy.from.reserved, copy.to.reserved])?;
        shaped(copy, None)
    }

    fn cuMemcpy3DPeerAsync(copy: *const Copy3d, stream: Handle) {
        // SAFETY: the caller's structure.
        let copy = unsafe { read(copy) }?;
        known_contexts(&[copy.from.reserved, copy.to.reserved])?;
        shaped(copy, Some(stream))
    }
}

/// Reads a structure of the caller's.
///
/// # Safety
/// `from` is null or valid for a read of `T`, which any bits are a value of.
pub(super) unsafe fn read<T: std::marker::Copy>(from: *const T) -> Result<T, Code> {
    if from.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, valid by the caller's contract.
    Ok(unsafe { from.read_unaligned() })
}

/// # Safety
/// As `read`.
unsafe fn two_sides(copy: *const Copy2d) -> Result<Copy3d, Code> {
    // SAFETY: the caller's contract.
    unsafe { read(copy) }.map(Into::into)
}

fn plain(
    to: Result<Place, Code>,
    from: Result<Place, Code>,
    bytes: usize,
    stream: Option<Handle>,
) -> Result<(), Code> {
    queue(|_| Ok(Copy::plain(to?, from?, bytes)), stream)
}

fn shaped(copy: Copy3d, stream: Option<Handle>) -> Result<(), Code> {
    queue(|process| copy.resolve(process), stream)
}

/// Queues a copy in a stream, or makes it in the default stream and waits.
fn queue(
    copy: impl FnOnce(&Process) -> Result<Copy, Code>,
    stream: Option<Handle>,
) -> Result<(), Code> {
    let process = process()?;
    let (stream, pace) = match stream {
        None => (std::ptr::null_mut(), Pace::Now),
        Some(stream) => (stream, Pace::Later),
    };
    let stream = process.stream(stream)?;
    let copy = copy(process)?;
    perform(process, &stream, Action::Copy(copy), pace)
}

fn host<T>(pointer: *const T) -> Result<Place, Code> {
    Ok(Place::Host(pointer as u64))
}

/// A device address: pinned host memory has one too, its own.
pub(super) fn device(address: u64) -> Result<Place, Code> {
    let process = process()?;
    let pinned = super::pinned::covering(&*process.ready()?, address as usize, 1).is_some();
    Ok(if pinned {
        Place::Host(address)
    } else {
        Place::Device(address)
    })
}

/// An address of either kind, told apart by where it lies. What neither allocation table knows is
/// the program's own memory, unless it cannot be.
pub(super) fn anywhere(address: u64) -> Result<Place, Code> {
    let process = process()?;
    let tables = process.ready()?;
    let in_device =
        process.contents.holds(address) || (addresses::FIRST..addresses::END).contains(&address);
    if tables.covering(address, 1).is_some() || in_device {
        return Ok(Place::Device(address));
    }
    /// No program maps its first pages (vm.mmap_min_addr of Linux).
    const NEVER_MAPPED: u64 = 64 << 10;
    if address < NEVER_MAPPED {
        return Err(code::INVALID_VALUE);
    }
    Ok(Place::Host(address))
}

/// A place in an array's memory.
fn in_array(array: Handle, offset: usize, bytes: usize) -> Result<Place, Code> {
    let tables = process()?.ready()?;
    let entry = *tables.arrays.get(array)?;
    let room = tables
        .allocations
        .get(&entry.address)
        .map_or(0, |a| a.bytes);
    let end = (offset as u64)
        .checked_add(bytes as u64)
        .ok_or(code::INVALID_VALUE)?;
    if end > room {
        return Err(code::INVALID_VALUE);
    }
    Ok(Place::Device(entry.address + offset as u64))
}

fn known_contexts(contexts: &[Handle]) -> Result<(), Code> {
    let tables = process()?.ready()?;
    let unknown = contexts
        .iter()
        .any(|context| tables.contexts.get(*context).is_err());
    if unknown {
        Err(code::INVALID_CONTEXT)
    } else {
        Ok(())
    }
}
