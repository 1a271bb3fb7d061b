//! Recording streams into a graph: what would have been queued becomes nodes.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::arguments::{handles, put, put_optional};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::capture::{
    ACTIVE, GLOBAL, RELAXED, add_missing, begin, check_tips, end, exchange_mode, status_of,
};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuStreamBeginCapture, cuStreamBeginCapture_ptsz(stream: Handle) {
        begin(stream, GLOBAL, None)
    }

    fn cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int) {
        begin(stream, mode, None)
    }

    fn cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz(
        stream: Handle, graph: Handle, after: *const Handle, data: *const c_void, count: usize,
        mode: c_int,
    ) {
        let _ = data;
        let after = handles(after, count)?;
        begin(stream, mode, Some((graph as usize, after)))
    }

    fn cuStreamEndCapture, cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle) {
        if graph.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        let ended = end(&mut *process.ready()?, &entry);
        let found = ended.as_ref().map_or(std::ptr::null_mut(), |made| *made as Handle);
        put(graph, found)?;
        ended.map(|_| ())
    }

    fn cuStreamIsCapturing, cuStreamIsCapturing_ptsz(stream: Handle, status: *mut c_int) {
        let process = process()?;
        let entry = process.stream(stream)?;
        let found = status_of(process.ready()?.captures.get(&entry.slot));
        put(status, found)
    }

    fn cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong,
    ) {
        let (graph, tips, count) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        info(stream, status, id, graph, tips, count)
    }

    fn cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong, graph: *mut Handle,
        tips: *mut *const Handle, count: *mut usize,
    ) {
        info(stream, status, id, graph, tips, count)
    }

    fn cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong, graph: *mut Handle,
        tips: *mut *const Handle, data: *mut *const c_void, count: *mut usize,
    ) {
        put_optional(data, std::ptr::null());
        info(stream, status, id, graph, tips, count)
    }

    fn cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz(
        stream: Handle, tips: *mut Handle, count: usize, flags: c_uint,
    ) {
        update_tips(stream, tips, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: Handle, tips: *mut Handle, data: *const c_void, count: usize, flags: c_uint,
    ) {
        let _ = data;
        update_tips(stream, tips, count, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let wanted = mode.read_unaligned();
        if !(GLOBAL..=RELAXED).contains(&wanted) {
            return Err(code::INVALID_VALUE);
        }
        put(mode, exchange_mode(wanted))
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
    put(status, found)?;
    let Some(capture) = capture.filter(|_| found == ACTIVE) else {
        return Ok(());
    };
    put_optional(id, capture.number);
    put_optional(graph, capture.graph as Handle);
    capture.shown.clone_from(&capture.tips);
    put_optional(tips, capture.shown.as_ptr().cast());
    put_optional(count, capture.shown.len());
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
    let tips = handles(tips, count)?;
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
