//! Recording streams into a graph: what would have been queued becomes nodes.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::arguments::{handles, put, put_optional};
use gpubench_virtual_gpu_driver::calls::capture;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::capture::{GLOBAL, RELAXED, begin, end, exchange_mode};
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
        put(status, capture::info(stream, |_| ())?.0)
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
        capture::update_tips(stream, handles(tips, count)?, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: Handle, tips: *mut Handle, data: *const c_void, count: usize, flags: c_uint,
    ) {
        let _ = data;
        capture::update_tips(stream, handles(tips, count)?, flags)
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

unsafe fn info(
    stream: Handle,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut Handle,
    tips: *mut *const Handle,
    count: *mut usize,
) -> Result<(), Code> {
    // The list that the program gets stays the capture's own.
    let (found, _) = capture::info(stream, |capture| {
        put_optional(id, capture.number);
        put_optional(graph, capture.graph as Handle);
        capture.shown.clone_from(&capture.tips);
        put_optional(tips, capture.shown.as_ptr().cast());
        put_optional(count, capture.shown.len());
    })?;
    put(status, found)
}
