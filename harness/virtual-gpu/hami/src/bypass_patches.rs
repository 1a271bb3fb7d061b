//! Bypass patches: hooks that HAMi-core (at 8f3a89c) lacks. Each closes one documented bypass that
//! the machine file lists, so that a test can check that gpubench finds exactly the open ones.
//!
//! | bypass | calls |
//! |---|---|
//! | `arrays` | `cuArrayCreate` |
//! | `pools` | `cuMemAllocFromPoolAsync` |
//! | `per-thread` | `cuMemAllocAsync_ptsz`, `cuLaunchKernel_ptsz` |
//! | `globals` | variables of a module: `cuModuleLoadDataEx` |
//! | `ipc` | `cuIpcOpenMemHandle` |
//! | `graphs` | `cuGraphLaunch` |
//! | `graph-memory` | `cuGraphAddMemAllocNode` |
//! | `cooperative` | `cuLaunchCooperativeKernel` |
//! | `durations` | long launches: see `limiter` |
//!
//! No hook catches a program that gets `dlsym` from the C library directly or that is not
//! preloaded.
#![expect(unsafe_code, reason = "a C interface is made of raw pointers and exported names")]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::accounting::{OUT_OF_MEMORY, adopted, counted, freed, hold_back, hooks, measured};
use crate::recording::RECORDING;
use crate::{lookup, settings};

/// `CUDA_ARRAY_DESCRIPTOR` (cuda.h).
#[repr(C)]
pub struct ArrayDescriptor {
    width: usize,
    height: usize,
    format: c_int,
    channels: c_uint,
}

/// `CUipcMemHandle` (cuda.h).
#[repr(C)]
pub struct IpcHandle([c_char; 64]);

/// The end of `CUDA_MEM_ALLOC_NODE_PARAMS` (cuda.h), after the pool's properties and the list of
/// devices with access.
#[repr(C)]
pub struct AllocNode {
    before: [u64; 13],
    bytes: usize,
    pointer: u64,
}

fn bypass(name: &[u8]) -> &'static str {
    match name {
        b"cuArrayCreate_v2" | b"cuArrayDestroy" => "arrays",
        b"cuMemAllocFromPoolAsync" => "pools",
        b"cuMemAllocAsync_ptsz" | b"cuLaunchKernel_ptsz" => "per-thread",
        b"cuModuleLoadDataEx" | b"cuModuleUnload" => "globals",
        b"cuIpcOpenMemHandle_v2" | b"cuIpcCloseMemHandle" => "ipc",
        b"cuLaunchCooperativeKernel" => "cooperative",
        b"cuGraphAddMemAllocNode" => "graph-memory",
        _ => "graphs",
    }
}

/// The hook for a name, if it exists and its bypass is patched.
pub fn find(name: &[u8]) -> Option<*mut c_void> {
    hook(name).filter(|_| settings::get().is_patched(bypass(name)))
}

hooks! {
    fn cuArrayCreate_v2(array: *mut u64, descriptor: *const ArrayDescriptor) |driver| {
        if descriptor.is_null() {
            return driver();
        }
        // SAFETY: not null, the caller's structure.
        let shape = unsafe { &*descriptor };
        let bytes = shape.width * shape.height.max(1) * shape.channels as usize
            * element_bytes(shape.format);
        // SAFETY: the driver stores the handle there.
        unsafe { counted(array, bytes, driver) }
    }

    fn cuArrayDestroy(array: u64) |driver| { freed(array, driver) }

    fn cuMemAllocFromPoolAsync(
        pointer: *mut u64, bytes: usize, pool: *mut c_void, stream: *mut c_void,
    ) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: *mut c_void) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuModuleLoadDataEx(
        module: *mut u64, image: *const c_void, count: c_uint, options: *mut c_int,
        values: *mut *mut c_void,
    ) |driver| {
        measured(
            || {
                let code = driver();
                // SAFETY: the driver stored the handle.
                (code, if code == 0 { unsafe { *module } } else { 0 })
            },
            unload,
        )
    }

    fn cuModuleUnload(module: u64) |driver| { freed(module, driver) }

    fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: IpcHandle, flags: c_uint) |driver| {
        let code = driver();
        if code != 0 {
            return code;
        }
        // SAFETY: the driver stored the pointer.
        let at = unsafe { *pointer };
        if adopted(at, extent(at)) {
            return 0;
        }
        close(at);
        OUT_OF_MEMORY
    }

    fn cuIpcCloseMemHandle(pointer: u64) |driver| { freed(pointer, driver) }

    fn cuLaunchKernel_ptsz(
        function: *mut c_void, x: c_uint, y: c_uint, z: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |driver| {
        hold_back(u64::from(x) * u64::from(y) * u64::from(z));
        driver()
    }

    fn cuLaunchCooperativeKernel(
        function: *mut c_void, x: c_uint, y: c_uint, z: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: *mut c_void, params: *mut *mut c_void,
    ) |driver| {
        hold_back(u64::from(x) * u64::from(y) * u64::from(z));
        driver()
    }

    fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_int) |driver| {
        RECORDING.set(Some(0));
        driver()
    }

    fn cuStreamEndCapture(stream: *mut c_void, graph: *mut u64) |driver| {
        let blocks = RECORDING.take().unwrap_or(0);
        let code = driver();
        if code == 0 {
            // SAFETY: the driver stored the handle.
            graphs().insert(unsafe { *graph }, blocks);
        }
        code
    }

    fn cuGraphInstantiateWithFlags(executable: *mut u64, graph: u64, flags: u64) |driver| {
        let code = driver();
        if code == 0 {
            let blocks = graphs().get(&graph).copied().unwrap_or(0);
            // SAFETY: the driver stored the handle.
            graphs().insert(unsafe { *executable }, blocks);
        }
        code
    }

    fn cuGraphAddMemAllocNode(
        node: *mut u64, graph: u64, after: *const u64, count: usize, params: *mut AllocNode,
    ) |driver| {
        if params.is_null() {
            return driver();
        }
        // SAFETY: not null, the caller's structure.
        let (bytes, pointer) = unsafe { ((*params).bytes, &raw mut (*params).pointer) };
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuGraphLaunch(executable: u64, stream: *mut c_void) |driver| {
        let blocks = graphs().get(&executable).copied().unwrap_or(0);
        hold_back(blocks);
        driver()
    }
}

fn graphs() -> MutexGuard<'static, HashMap<u64, u64>> {
    static GRAPHS: OnceLock<Mutex<HashMap<u64, u64>>> = OnceLock::new();
    let map = GRAPHS.get_or_init(Mutex::default);
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of an element of an array (`CUarray_format`, cuda.h).
const fn element_bytes(format: c_int) -> usize {
    match format {
        1 | 8 => 1,
        2 | 9 | 0x10 => 2,
        _ => 4,
    }
}

type OnHandle = unsafe extern "C" fn(u64) -> c_int;

/// Calls a driver function with a handle or pointer as its only argument.
fn on(name: &std::ffi::CStr, handle: u64) {
    let found = lookup::driver(name);
    // SAFETY: the driver's functions of the two names below have this signature.
    let call = unsafe { std::mem::transmute::<*mut c_void, Option<OnHandle>>(found) };
    if let Some(call) = call {
        // SAFETY: a handle that the driver just created. An error leaves it allocated.
        let _left = unsafe { call(handle) };
    }
}

fn unload(module: u64) {
    on(c"cuModuleUnload", module);
}

fn close(pointer: u64) {
    on(c"cuIpcCloseMemHandle", pointer);
}

/// Bytes of the allocation that contains a pointer; 0 if unknown.
fn extent(pointer: u64) -> u64 {
    type Function = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int;
    let found = lookup::driver(c"cuMemGetAddressRange_v2");
    // SAFETY: the driver's function of that name has this signature.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(found) };
    let (mut base, mut bytes) = (0, 0_usize);
    // SAFETY: two valid pointers.
    let code = ask.map_or(1, |ask| unsafe { ask(&raw mut base, &raw mut bytes, pointer) });
    if code == 0 { bytes as u64 } else { 0 }
}
