//! The hooks of HAMi-core.
#![expect(unsafe_code, reason = "a C interface is made of raw pointers and exported names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::accounting::{counted, freed, hold_back, hooks, limited};
use crate::{bypass_patches, contexts};

/// The hook for a name, if it is hooked.
pub fn find(name: &[u8]) -> Option<*mut c_void> {
    hook(name).or_else(|| bypass_patches::find(name))
}

hooks! {
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |driver| {
        let bytes = width.saturating_mul(height);
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuMemCreate(handle: *mut u64, bytes: usize, prop: *const c_void, flags: u64) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(handle, bytes, driver) }
    }

    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: *mut c_void) |driver| {
        // SAFETY: the driver stores the handle there.
        unsafe { counted(pointer, bytes, driver) }
    }

    fn cuMemFree_v2(pointer: u64) |driver| { freed(pointer, driver) }
    fn cuMemRelease(handle: u64) |driver| { freed(handle, driver) }
    fn cuMemFreeAsync(pointer: u64, stream: *mut c_void) |driver| { freed(pointer, driver) }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |driver| {
        let code = driver();
        if let (0, Some((limit, used))) = (code, limited()) {
            // SAFETY: the driver accepted both pointers.
            unsafe {
                *total = (*total).min(limit as usize);
                *free = (*free).min(limit.saturating_sub(used) as usize);
            }
        }
        code
    }

    fn cuDeviceTotalMem_v2(total: *mut usize, device: c_int) |driver| {
        let code = driver();
        if let (0, Some((limit, _))) = (code, limited()) {
            // SAFETY: the driver accepted the pointer.
            unsafe { *total = (*total).min(limit as usize) };
        }
        code
    }

    fn cuInit(flags: c_uint) |driver| {
        let code = driver();
        if code == 0 {
            contexts::settle();
        }
        code
    }

    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) |driver| {
        let code = driver();
        if code == 0 {
            contexts::retained();
        }
        code
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |driver| {
        contexts::released();
        driver()
    }

    fn cuLaunchKernel(
        function: *mut c_void, x: c_uint, y: c_uint, z: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) |driver| {
        hold_back(u64::from(x) * u64::from(y) * u64::from(z));
        driver()
    }

    fn cuLaunchKernelEx(
        config: *const c_uint, function: *mut c_void, params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) |driver| {
        if !config.is_null() {
            // SAFETY: a launch configuration begins with the three grid dimensions (cuda.h).
            let grid = unsafe { std::slice::from_raw_parts(config, 3) };
            hold_back(grid.iter().map(|&side| u64::from(side)).product());
        }
        driver()
    }

    fn cuGetProcAddress(
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64,
    ) |driver| {
        let code = driver();
        // SAFETY: the driver accepted the string and the pointer.
        unsafe { replace(code, symbol, found) }
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut c_int,
    ) |driver| {
        let code = driver();
        // SAFETY: the driver accepted the string and the pointer.
        unsafe { replace(code, symbol, found) }
    }

    fn nvmlDeviceGetMemoryInfo(device: *mut c_void, info: *mut [u64; 3]) |driver| {
        let code = driver();
        if let (0, Some((limit, used))) = (code, limited()) {
            // SAFETY: the library accepted the pointer: total, free and used (nvml.h).
            unsafe { *info = [limit, limit.saturating_sub(used), used.min(limit)] };
        }
        code
    }
}

/// Replaces the result of `cuGetProcAddress` by the hook of that name, if there is one.
///
/// # Safety
/// `symbol` is a C string and `found` a valid pointer.
unsafe fn replace(code: c_int, symbol: *const c_char, found: *mut *mut c_void) -> c_int {
    if code != 0 || symbol.is_null() || found.is_null() {
        return code;
    }
    // SAFETY: a C string by the caller's contract.
    let base = unsafe { std::ffi::CStr::from_ptr(symbol) }.to_bytes();
    let newest = [base, b"_v2"].concat();
    if let Some(hook) = find(&newest).or_else(|| find(base)) {
        // SAFETY: a valid pointer by the caller's contract.
        unsafe { *found = hook };
    }
    code
}
