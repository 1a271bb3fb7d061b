//! Recording streams into a graph: what would have been queued becomes nodes.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::arguments::handles;
use crate::entries;
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::capture::{
    ACTIVE, GLOBAL, RELAXED, add_missing, begin, check_tips, end, exchange_mode, status_of,
};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuStreamBeginCapture(stream: Handle) {
        begin(stream, GLOBAL, None)
    }

    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) {
        begin(stream, mode, None)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        after: *const Handle,
        data: *const c_void,
        count: usize,
        mode: c_int,
    ) {
        let _ = data;
        // SAFETY: the caller's array of `count` entries.
        let after = unsafe { handles(after, count) }?;
        begin(stream, mode, Some((graph as usize, after)))
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        if graph.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        let ended = end(&mut *process.ready()?, &entry);
        let found = ended.as_ref().map_or(std::ptr::null_mut(), |made| *made as Handle);
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(graph, found) }?;
        ended.map(|_| ())
    }

    fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) {
        let process = process()?;
        let entry = process.stream(stream)?;
        let found = status_of(process.ready()?.captures.get(&entry.slot));
        // SAFETY: the caller's place, checked for null.
        unsafe { put(status, found) }
    }

    fn cuStreamGetCaptureInfo(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) {
        let (graph, tips, count) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the caller's places.
        unsafe { info(stream, status, id, graph, tips, count) }
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        count: *mut usize,
    ) {
        // SAFETY: the caller's places.
        unsafe { info(stream, status, id, graph, tips, count) }
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        data: *mut *const c_void,
        count: *mut usize,
    ) {
        // SAFETY: the caller's places; all edges are plain, which a null pointer says (cuda.h).
        unsafe {
            if !data.is_null() {
                put(data, std::ptr::null())?;
            }
            info(stream, status, id, graph, tips, count)
        }
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: Handle,
        tips: *mut Handle,
        count: usize,
        flags: c_uint,
    ) {
        // SAFETY: the caller's array of `count` entries.
        unsafe { update_tips(stream, tips, count, flags) }
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle,
        tips: *mut Handle,
        data: *const c_void,
        count: usize,
        flags: c_uint,
    ) {
        let _ = data;
        // SAFETY: the caller's array of `count` entries.
        unsafe { update_tips(stream, tips, count, flags) }
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not null, the caller's place.
        let wanted = unsafe { mode.read_unaligned() };
        if !(GLOBAL..=RELAXED).contains(&wanted) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not null, the caller's place.
        unsafe { put(mode, exchange_mode(wanted)) }
    }
}

/// # Safety
/// The places are null or valid.
unsafe fn info(
    stream: Handle,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut Handle,
    tips: *mut *const Handle,
    count: *mut usize,
) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let capture = tables.captures.get_mut(&entry.slot);
    let found = status_of(capture.as_deref());
    // SAFETY: the caller's places; the first is checked, the others may be left out (cuda.h).
    unsafe {
        put(status, found)?;
        let Some(capture) = capture.filter(|_| found == ACTIVE) else {
            return Ok(());
        };
        if !id.is_null() {
            put(id, capture.number)?;
        }
        if !graph.is_null() {
            put(graph, capture.graph as Handle)?;
        }
        capture.shown.clone_from(&capture.tips);
        if !tips.is_null() {
            put(tips, capture.shown.as_ptr().cast())?;
        }
        if !count.is_null() {
            put(count, capture.shown.len())?;
        }
    }
    Ok(())
}

/// # Safety
/// `tips` is null or has `count` entries.
unsafe fn update_tips(
    stream: Handle,
    tips: *const Handle,
    count: usize,
    flags: c_uint,
) -> Result<(), Code> {
    // SAFETY: the caller's contract.
    let tips = unsafe { handles(tips, count) }?;
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let graph = tables
        .captures
        .get(&entry.slot)
        .ok_or(code::INVALID_VALUE)?
        .graph;
    check_tips(&tables, graph, &tips)?;
    let capture = tables
        .captures
        .get_mut(&entry.slot)
        .ok_or(code::INVALID_VALUE)?;
    // CU_STREAM_ADD_CAPTURE_DEPENDENCIES and CU_STREAM_SET_... are 0 and 1 (cuda.h).
    match flags {
        0 => add_missing(&mut capture.tips, &tips),
        1 => capture.tips = tips,
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}
