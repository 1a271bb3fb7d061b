//! The interposed `dlsym`: programs find the hooks through it.
//!
//! A program that loads libcuda at run time finds its functions through `dlsym`, so that is what is
//! interposed. One that is linked statically, that calls `dlvsym`, or that walks the symbol table
//! itself is not caught, as with the real library.
#![expect(unsafe_code, reason = "symbols are looked up by C names")]

use std::ffi::{CStr, c_char, c_void};

use crate::hooks;
use crate::lookup::real;

/// Answers for the hooked names, and asks the C library for all others.
///
/// # Safety
/// `name` is a C string and `handle` one that `dlsym` takes.
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
        // SAFETY: passed on as it came.
        Some(real) => unsafe { real(handle, name) },
        None => std::ptr::null_mut(),
    }
}
