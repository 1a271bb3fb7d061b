//! Accounting of hooked calls, and enforcement of the limits.
#![expect(unsafe_code, reason = "a C interface is made of raw pointers and exported names")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{clock, contexts, limiter, log, lookup, management, recording, region, settings};

/// Declares hooks: for each a function with the driver's name and signature, with `driver` bound to
/// the call of the driver's function with the same arguments, and a table of all hooks.
macro_rules! hooks {
    ($( fn $name:ident($($arg:ident: $type:ty),* $(,)?) |$driver:ident| $body:block )*) => {
        $(
            /// # Safety
            /// As the driver's function of that name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                type Function = unsafe extern "C" fn($($type),*) -> c_int;
                static DRIVER: std::sync::OnceLock<Option<Function>> = std::sync::OnceLock::new();
                let found = *DRIVER.get_or_init(|| {
                    let name = concat!(stringify!($name), "\0");
                    let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
                    let found = if name.to_bytes().starts_with(b"nvml") {
                        $crate::lookup::nvml(name)
                    } else {
                        $crate::lookup::driver(name)
                    };
                    // SAFETY: the driver's function of that name has this signature.
                    unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(found) }
                });
                let Some(found) = found else { return $crate::accounting::NOT_INITIALIZED };
                // SAFETY: the caller's arguments, passed on.
                let $driver = move || unsafe { found($($arg),*) };
                $body
            }
        )*

        fn hook(name: &[u8]) -> Option<*mut c_void> {
            $( if name == stringify!($name).as_bytes() {
                return Some($name as *const () as *mut c_void);
            } )*
            None
        }
    };
}

pub(crate) use hooks;

/// `CUDA_ERROR_OUT_OF_MEMORY` and `CUDA_ERROR_NOT_INITIALIZED` (cuda.h).
pub(crate) const OUT_OF_MEMORY: c_int = 2;

pub(crate) const NOT_INITIALIZED: c_int = 3;

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `..._MAX_THREADS_PER_MULTIPROCESSOR` (cuda.h).
const SM_COUNT: c_int = 16;

const THREADS_PER_SM: c_int = 39;

/// The memory limit and the bytes in use; `None` without a limit.
pub(crate) fn limited() -> Option<(u64, u64)> {
    let region = region::get()?;
    let limit = region.memory_limit();
    (limit != 0).then(|| (limit, region.used()))
}

/// Charges a call without a size argument by the growth of device memory. Calls `undo` if that
/// exceeds the limit.
pub(crate) fn measured(driver: impl FnOnce() -> (c_int, u64), undo: impl FnOnce(u64)) -> c_int {
    let Some(region) = region::get() else { return driver().0 };
    let before = device_used();
    let (code, made) = driver();
    let (Some(before), Some(after)) = (before, device_used()) else { return code };
    if code != 0 {
        return code;
    }
    let bytes = after.saturating_sub(before);
    if !region.charge(bytes, region.memory_limit()) {
        undo(made);
        return OUT_OF_MEMORY;
    }
    charges().insert(made, bytes);
    0
}

/// Charges memory that already exists; returns whether the limit allows it.
pub(crate) fn adopted(pointer: u64, bytes: u64) -> bool {
    let Some(region) = region::get() else { return true };
    if !region.charge(bytes, region.memory_limit()) {
        return false;
    }
    charges().insert(pointer, bytes);
    true
}

/// Bytes charged for each pointer or handle.
fn charges() -> std::sync::MutexGuard<'static, HashMap<u64, u64>> {
    static CHARGES: OnceLock<Mutex<HashMap<u64, u64>>> = OnceLock::new();
    let map = CHARGES.get_or_init(Mutex::default);
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An allocation under the limit: refused beyond it, charged if the driver succeeds.
///
/// # Safety
/// `handle` is where the driver stores the new handle.
pub(crate) unsafe fn counted(
    handle: *mut u64,
    bytes: usize,
    driver: impl FnOnce() -> c_int,
) -> c_int {
    let Some(region) = region::get() else { return driver() };
    let _held = region.hold();
    let bytes = bytes as u64;
    let limit = region.memory_limit() as f64 * (1.0 + settings::get().overshoot);
    if !region.charge(bytes, limit as u64) {
        log(2, &format!("{bytes} B exceed the limit of {limit} B"));
        return OUT_OF_MEMORY;
    }
    let code = driver();
    if code == 0 {
        // SAFETY: the driver stored the handle.
        charges().insert(unsafe { *handle }, bytes);
    } else {
        region.release(bytes);
    }
    code
}

pub(crate) fn freed(pointer: u64, driver: impl FnOnce() -> c_int) -> c_int {
    let _held = region::get().map(region::Region::hold);
    let code = driver();
    if code == 0
        && let Some(bytes) = charges().remove(&pointer)
        && let Some(region) = region::get()
    {
        region.release(bytes);
    }
    code
}

/// Waits until the limiter lets a launch through, if there is a limit. Launches recorded in a graph
/// count when the graph is launched.
pub(crate) fn hold_back(blocks: u64) {
    if recording::recorded(blocks) {
        return;
    }
    let settings = settings::get();
    let Some(region) = region::get() else { return };
    let limit = region.sm_limit();
    let on = settings.force || !settings.disabled && region.limiter_on();
    if limit == 0 || !on || !contexts::is_listed() {
        return;
    }
    limiter::wait(blocks, settings.share_of_time(limit), shape(), &utilisation);
}

/// SMs, and threads per SM.
fn shape() -> (u32, u32) {
    static SHAPE: OnceLock<(u32, u32)> = OnceLock::new();
    *SHAPE.get_or_init(|| {
        type Function = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
        let found = lookup::driver(c"cuDeviceGetAttribute");
        // SAFETY: the driver's function of that name has this signature.
        let ask = unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(found) };
        let attribute = |number: c_int| {
            let mut value = 0;
            // SAFETY: a valid pointer, a known attribute, the first device.
            let code = ask.map_or(1, |ask| unsafe { ask(&raw mut value, number, 0) });
            if code == 0 { u32::try_from(value).unwrap_or(1) } else { 1 }
        };
        (attribute(SM_COUNT), attribute(THREADS_PER_SM))
    })
}

fn device_used() -> Option<u64> {
    management::used()
}

/// Window of the utilisation query.
const WINDOW_US: u64 = 1_000_000;

/// Utilisation of this process in the last second, in percent.
fn utilisation() -> u32 {
    // Time of the last sample by the management library, and by this clock.
    static LAST_SAMPLE: Mutex<Option<(u64, u64)>> = Mutex::new(None);
    let mut last_sample = LAST_SAMPLE.lock().unwrap_or_else(PoisonError::into_inner);
    let now_ns = clock::now_ns();
    let since_us = last_sample.map_or(0, |(time_us, at_ns)| {
        (time_us + now_ns.saturating_sub(at_ns) / 1_000).saturating_sub(WINDOW_US)
    });
    match management::utilisation(std::process::id(), since_us) {
        Some((percent, time_us)) => {
            *last_sample = Some((time_us, now_ns));
            percent
        }
        None => 0,
    }
}
