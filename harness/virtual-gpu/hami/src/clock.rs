//! The clock of the limiter: the virtual GPU's clock where its time is virtual.
#![expect(unsafe_code, reason = "the clock is a C interface")]

use std::ffi::CStr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::lookup;

type Now = unsafe extern "C" fn() -> u64;
type Sleep = unsafe extern "C" fn(u64) -> i32;
type Version = unsafe extern "C" fn() -> i32;

/// The clock functions of the virtual GPU, where time is virtual.
fn virtual_clock() -> Option<(Now, Sleep)> {
    static CLOCK: OnceLock<Option<(Now, Sleep)>> = OnceLock::new();
    *CLOCK.get_or_init(|| {
        let find = |name: &CStr| lookup::driver(name);
        // SAFETY: functions of these names have these signatures; null becomes `None`.
        let (version, now, sleep) = unsafe {
            (
                std::mem::transmute::<*mut _, Option<Version>>(find(c"gpubench_vt_version")),
                std::mem::transmute::<*mut _, Option<Now>>(find(c"gpubench_vt_now")),
                std::mem::transmute::<*mut _, Option<Sleep>>(find(c"gpubench_vt_sleep_until")),
            )
        };
        // SAFETY: a function without arguments.
        let is_virtual = version.is_some_and(|version| unsafe { version() } != 0);
        if is_virtual { now.zip(sleep) } else { None }
    })
}

/// Signals to the harness that this library supports virtual time; a preloaded library with threads
/// of its own does not.
#[unsafe(no_mangle)]
pub const extern "C" fn gpubench_vt_preloaded() -> i32 {
    1
}

/// Nanoseconds since a fixed instant.
pub fn now_ns() -> u64 {
    if let Some((now, _)) = virtual_clock() {
        // SAFETY: a function without arguments.
        return unsafe { now() };
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: plain call that fills its argument; it cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until an instant. Returns at once on a thread that is no participant of virtual time.
pub fn sleep_until(t_ns: u64) -> bool {
    if let Some((_, sleep)) = virtual_clock() {
        // SAFETY: a plain number.
        return unsafe { sleep(t_ns) } == 0;
    }
    std::thread::sleep(Duration::from_nanos(t_ns.saturating_sub(now_ns())));
    true
}
