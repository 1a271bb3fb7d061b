//! Memory of contexts, and whether the process is on the device's list (Project-HAMi/HAMi-core at
//! 8f3a89c, `set_task_pid` in `utils.c` and the hooks in `cuda/context.c`).
//!
//! After `cuInit` the library retains and releases the primary context once. The memory that NVML
//! reports for the process in between is the size of a context from then on; the limiter works only
//! if the process is on the list. The first retain of the primary context by the program is charged
//! that size, and the first release takes the charge back, regardless of the count. A context of
//! `cuCtxCreate` is not charged and comes on top of the limit.
//!
//! HAMi-core identifies itself as the first new process on the list, and so can pick another
//! process that starts at the same time; the stand-in compares process ids.
#![expect(unsafe_code, reason = "the driver is a C interface")]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{log, lookup, management, region, settings};

type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type Release = unsafe extern "C" fn(c_int) -> c_int;

/// Bytes of a context, if this process is on the list.
static SIZE: OnceLock<Option<u64>> = OnceLock::new();
/// Whether the primary context is charged.
static CHARGED: AtomicBool = AtomicBool::new(false);

pub fn is_listed() -> bool {
    SIZE.get().is_some_and(Option::is_some)
}

/// Measures the size of a context once, after `cuInit`.
pub fn settle() {
    let mut is_first = false;
    let found = SIZE.get_or_init(|| {
        is_first = true;
        size()
    });
    if is_first && found.is_some() {
        log(3, &format!("hostPid={}", std::process::id()));
    } else if is_first {
        log(1, "SET_TASK_PID FAILED.");
    }
}

fn size() -> Option<u64> {
    let retain = lookup::driver(c"cuDevicePrimaryCtxRetain");
    let release = lookup::driver(c"cuDevicePrimaryCtxRelease_v2");
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver's functions of these names have these signatures, and the pointer is
    // valid.
    let release = unsafe {
        let retain = std::mem::transmute::<*mut c_void, Option<Retain>>(retain)?;
        let release = std::mem::transmute::<*mut c_void, Option<Release>>(release)?;
        (retain(&raw mut context, 0) == 0).then_some(release)?
    };
    let own = std::process::id();
    let listed = management::processes().unwrap_or_default();
    let row = listed.iter().find(|row| row.pid == own);
    // SAFETY: retained above. An error leaves it retained.
    let _left = unsafe { release(0) };
    row.map(|row| row.bytes).filter(|_| !settings::get().hidden)
}

/// Charges the first retain of the primary context.
pub fn retained() {
    let Some(&Some(bytes)) = SIZE.get() else { return };
    if let Some(region) = region::get()
        && !CHARGED.swap(true, Ordering::AcqRel)
    {
        // Charged above the limit too: the context exists.
        region.charge(bytes, 0);
    }
}

/// Takes back the charge at the first release.
pub fn released() {
    if CHARGED.swap(false, Ordering::AcqRel)
        && let (Some(&Some(bytes)), Some(region)) = (SIZE.get(), region::get())
    {
        region.release(bytes);
    }
}
