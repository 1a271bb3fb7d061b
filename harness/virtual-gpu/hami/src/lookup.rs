//! Lookup of functions in the real libraries.
#![expect(unsafe_code, reason = "symbols are looked up by C names")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// `dlsym` (dlfcn.h).
pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Symbol versions of `dlsym` in C libraries, the newest first.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

/// The C library's own `dlsym`.
pub fn real() -> Option<Dlsym> {
    static REAL: OnceLock<Option<Dlsym>> = OnceLock::new();
    *REAL.get_or_init(|| {
        VERSIONS.iter().find_map(|version| {
            // SAFETY: both are C strings; the pseudo handle asks for the next library in order.
            let found =
                unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            // SAFETY: a function of that name has this signature; a null pointer is `None`.
            unsafe { std::mem::transmute::<*mut c_void, Option<Dlsym>>(found) }
        })
    })
}

/// The driver's function of that name; null if no driver is loaded or it lacks the function.
pub fn driver(name: &CStr) -> *mut c_void {
    in_library(&[c"libcuda.so.1", c"libcuda.so"], name)
}

/// The management library's function of that name; loads the library if needed.
pub fn nvml(name: &CStr) -> *mut c_void {
    in_library(&[c"libnvidia-ml.so.1", c"libnvidia-ml.so"], name)
}

fn in_library(libraries: &[&CStr], name: &CStr) -> *mut c_void {
    let Some(real) = real() else { return std::ptr::null_mut() };
    for library in libraries {
        // SAFETY: C strings; the library is the one that the program uses.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY) };
        if handle.is_null() {
            continue;
        }
        // SAFETY: a handle that was just opened, and a C string.
        let found = unsafe { real(handle, name.as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    std::ptr::null_mut()
}
