//! What contexts count for, and whether the process is on the device's list (Project-HAMi/HAMi-core
//! at 8f3a89c, `set_task_pid` in `utils.c` and the hooks in `cuda/context.c`).
//!
//! When the driver is initialised the library retains the primary context for a moment: what the
//! management library then says that this process has is the size of a context from there on, and
//! that the process is listed at all lets the limiter work. The first time that the program retains
//! the primary context it is charged that much, and the first time that it releases it the charge
//! is taken back, however often it was retained. A context made by `cuCtxCreate` is not charged: it
//! comes on top of the limit.
//!
//! HAMi-core takes the first process that is new on the list for its own, and so can take another
//! that starts at the same time; the stand-in looks for its own number.
#![expect(unsafe_code, reason = "the driver is a C interface")]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{lookup, management, region, say, settings};

type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type Release = unsafe extern "C" fn(c_int) -> c_int;

/// Bytes of a context, if this process was found on the list.
static SIZE: OnceLock<Option<u64>> = OnceLock::new();
/// Whether the primary context is charged.
static CHARGED: AtomicBool = AtomicBool::new(false);

/// Whether the process found itself on the list.
pub fn is_listed() -> bool {
    SIZE.get().is_some_and(Option::is_some)
}

/// Finds out what a context takes, once, after the driver has been initialised.
pub fn settle() {
    let mut is_first = false;
    let found = SIZE.get_or_init(|| {
        is_first = true;
        size()
    });
    if is_first && found.is_some() {
        say(3, &format!("hostPid={}", std::process::id()));
    } else if is_first {
        say(1, "SET_TASK_PID FAILED.");
    }
}

fn size() -> Option<u64> {
    let retain = lookup::driver(c"cuDevicePrimaryCtxRetain");
    let release = lookup::driver(c"cuDevicePrimaryCtxRelease_v2");
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver's functions of these names have these signatures, and the place is valid.
    let release = unsafe {
        let retain = std::mem::transmute::<*mut c_void, Option<Retain>>(retain)?;
        let release = std::mem::transmute::<*mut c_void, Option<Release>>(release)?;
        (retain(&raw mut context, 0) == 0).then_some(release)?
    };
    let own = std::process::id();
    let listed = management::processes().unwrap_or_default();
    let row = listed.iter().find(|row| row.pid == own);
    // SAFETY: retained above. What the driver does not take back nobody can.
    let _left = unsafe { release(0) };
    row.map(|row| row.bytes).filter(|_| !settings::get().hidden)
}

/// The program has retained the primary context.
pub fn retained() {
    let Some(&Some(bytes)) = SIZE.get() else {
        return;
    };
    if let Some(region) = region::get()
        && !CHARGED.swap(true, Ordering::AcqRel)
    {
        // Above the limit too: the context is there, and counts.
        region.charge(bytes, 0);
    }
}

/// The program releases the primary context.
pub fn released() {
    if CHARGED.swap(false, Ordering::AcqRel)
        && let (Some(&Some(bytes)), Some(region)) = (SIZE.get(), region::get())
    {
        region.release(bytes);
    }
}
