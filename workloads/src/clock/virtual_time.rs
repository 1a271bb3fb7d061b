//! Virtual time, as the libcuda of a virtual GPU exports it.
//!
//! The library that the loader finds under the names of the driver bindings is queried for its
//! version of the time interface. Without the function, or at version 0, the wall clock is used.
#![expect(unsafe_code, reason = "calls C functions of a library found at run time")]

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use super::{ClockError, Time};

/// Names under which the driver bindings look for the library, in that order.
const LIBRARY_NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// The exported functions. Every `int` is 0 or a negative error number.
#[derive(Debug)]
pub(super) struct VirtualTime {
    join: unsafe extern "C" fn(u32) -> i32,
    leave: unsafe extern "C" fn() -> i32,
    now: unsafe extern "C" fn() -> u64,
    sleep_until: unsafe extern "C" fn(u64) -> i32,
    park: unsafe extern "C" fn() -> i32,
    unpark: unsafe extern "C" fn(u32) -> i32,
}

impl VirtualTime {
    /// The time interface of the library that the loader finds; `None` where it keeps no virtual
    /// time.
    pub(super) fn find() -> Result<Option<Self>, ClockError> {
        let Some(library) = open() else { return Ok(None) };
        // SAFETY: the name fixes the signature; it is defined in the library's own sources.
        let version =
            unsafe { library.get::<unsafe extern "C" fn() -> i32>(b"gpubench_vt_version\0") };
        let Ok(version) = version else { return Ok(None) };
        // SAFETY: takes nothing, returns a number, and may be called at any time.
        let version = unsafe { version() };
        if version < 1 {
            return Ok(None);
        }
        let table = Self {
            join: symbol(&library, version, "gpubench_vt_join")?,
            leave: symbol(&library, version, "gpubench_vt_leave")?,
            now: symbol(&library, version, "gpubench_vt_now")?,
            sleep_until: symbol(&library, version, "gpubench_vt_sleep_until")?,
            park: symbol(&library, version, "gpubench_vt_park")?,
            unpark: symbol(&library, version, "gpubench_vt_unpark")?,
        };
        // The pointers above must stay valid, so the library is never closed.
        std::mem::forget(library);
        Ok(Some(table))
    }
}

/// Opens the library; the loader returns the one that is already loaded, if any. A process without
/// one has no device either: opening it fails with the error of the loader.
fn open() -> Option<Library> {
    LIBRARY_NAMES.into_iter().find_map(|name| {
        // SAFETY: a libcuda is made to be loaded this way; its initialisers change no state of
        // ours.
        unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }.ok()
    })
}

fn symbol<F: Copy>(library: &Library, version: i32, symbol: &'static str) -> Result<F, ClockError> {
    // SAFETY: every caller uses the type that the library's sources give to the name.
    unsafe { library.get::<F>(symbol.as_bytes()) }
        .map(|found| *found)
        .map_err(|_| ClockError::MissingSymbol { version, symbol })
}

fn check(call: &'static str, code: i32) -> Result<(), ClockError> {
    if code == 0 { Ok(()) } else { Err(ClockError::Refused { call, code }) }
}

impl Time for VirtualTime {
    fn now_ns(&self) -> u64 {
        // SAFETY: takes nothing, returns a number; the library stays loaded.
        unsafe { (self.now)() }
    }

    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError> {
        // SAFETY: takes a number; the library stays loaded.
        check("gpubench_vt_sleep_until", unsafe { (self.sleep_until)(t_ns) })
    }

    fn join(&self, me: u32) -> Result<(), ClockError> {
        // SAFETY: as above.
        check("gpubench_vt_join", unsafe { (self.join)(me) })
    }

    fn leave(&self, _me: u32) -> Result<(), ClockError> {
        // SAFETY: as above; the library identifies the participant by the calling thread.
        check("gpubench_vt_leave", unsafe { (self.leave)() })
    }

    fn park(&self, _me: u32) -> Result<(), ClockError> {
        // SAFETY: as above; the library identifies the participant by the calling thread.
        check("gpubench_vt_park", unsafe { (self.park)() })
    }

    fn unpark(&self, whom: u32) -> Result<(), ClockError> {
        // SAFETY: as above.
        check("gpubench_vt_unpark", unsafe { (self.unpark)(whom) })
    }
}
