//! The interposed `dlsym`, through which programs find the hooks.
//!
//! It catches programs that load libcuda at run time. It does not catch a static link, `dlvsym` or
//! a walk of the symbol table, like the real library.
#![expect(unsafe_code, reason = "symbols are looked up by C names")]

use std::ffi::{CStr, c_char, c_void};

use crate::hooks;
use crate::lookup::real;

/// Returns hooks for hooked names, and asks the C library for all others.
///
/// # Safety
/// `name` is a C string and `handle` a valid argument of `dlsym`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if !name.is_null() {
        // SAFETY: a C string by the caller's contract.
        let wanted = unsafe { CStr::from_ptr(name) };
        if let Some(hook) = hooks::find(wanted.to_bytes()) {
            return hook;
        }
    }
    match real() {
        // SAFETY: the caller's arguments, passed on.
        Some(real) => unsafe { real(handle, name) },
        None => std::ptr::null_mut(),
    }
}
