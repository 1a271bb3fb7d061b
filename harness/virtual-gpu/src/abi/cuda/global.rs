//! Initialisation, versions, error texts, and the look-up of entry points by name.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use crate::abi::code::{self, describe};
use crate::abi::process::process;
use crate::abi::put;

/// Defines exported entry points whose bodies end in a `Result`.
macro_rules! entries {
    ($( fn $name:ident( $($arg:ident: $ty:ty),* $(,)? ) $body:block )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(
                non_snake_case,
                clippy::missing_safety_doc,
                clippy::too_many_arguments,
                reason = "names, contracts and arguments are the vendor's"
            )]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                $crate::abi::guard(stringify!($name), || $body)
            }
        )*
    };
}
pub(super) use entries;

entries! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        process.tables().initialised = true;
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        let value = process()?.device.machine().cuda_version();
        // SAFETY: the caller's place, checked for null.
        unsafe { put(version, value) }
    }

    fn cuGetErrorName(error: c_int, text: *mut *const c_char) {
        let found = describe(error);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(text, found.map_or(std::ptr::null(), |(name, _)| c_text(name))) }?;
        found.map(|_| ()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetErrorString(error: c_int, text: *mut *const c_char) {
        let found = describe(error);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(text, found.map_or(std::ptr::null(), |(_, text)| c_text(text))) }?;
        found.map(|_| ()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        pointer: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut c_int,
    ) {
        let _ = (version, flags);
        // SAFETY: the caller's string.
        let found = unsafe { find(symbol) }?;
        if !status.is_null() {
            // CU_GET_PROC_ADDRESS_SUCCESS is 0, ..._SYMBOL_NOT_FOUND is 1 (cuda.h).
            // SAFETY: not null, the caller's place.
            unsafe { put(status, c_int::from(found.is_null())) }?;
        }
        // SAFETY: the caller's place, checked for null.
        unsafe { put(pointer, found) }?;
        if found.is_null() { Err(code::NOT_FOUND) } else { Ok(()) }
    }

    fn cuGetProcAddress(
        symbol: *const c_char,
        pointer: *mut *mut c_void,
        version: c_int,
        flags: u64,
    ) {
        let _ = (version, flags);
        // SAFETY: the caller's string.
        let found = unsafe { find(symbol) }?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(pointer, found) }?;
        if found.is_null() { Err(code::NOT_FOUND) } else { Ok(()) }
    }
}

/// A C string that lives for ever; the same one for the same text.
fn c_text(text: &'static str) -> *const c_char {
    static TEXTS: Mutex<Vec<(&'static str, CString)>> = Mutex::new(Vec::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = texts.iter().find(|(known, _)| *known == text) {
        return found.as_ptr();
    }
    let made = CString::new(text).unwrap_or_default();
    let pointer = made.as_ptr();
    // Moving a `CString` into the list moves its handle, not its bytes.
    texts.push((text, made));
    pointer
}

/// The newest entry point of that name in this very library.
///
/// # Safety
/// `symbol` is null or a C string.
unsafe fn find(symbol: *const c_char) -> Result<*mut c_void, code::Code> {
    if symbol.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: a C string by the caller's contract.
    let base = unsafe { CStr::from_ptr(symbol) };
    let base = base.to_str().map_err(|_| code::INVALID_VALUE)?;
    for suffix in ["_v4", "_v3", "_v2", ""] {
        let name = CString::new(format!("{base}{suffix}")).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: `name` is a C string; the handle is the library that holds this function.
        let found = unsafe { libc::dlsym(own_library(), name.as_ptr()) };
        if !found.is_null() {
            return Ok(found);
        }
    }
    Ok(std::ptr::null_mut())
}

/// A handle on the library or program in which this code was loaded.
fn own_library() -> *mut c_void {
    // SAFETY: `Dl_info` is plain data that `dladdr` fills; the address is one of this library;
    // the name it yields is a C string, and the library is loaded already, so that nothing is run.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = own_library as fn() -> *mut c_void as *const c_void;
        if libc::dladdr(here, &raw mut info) != 0 && !info.dli_fname.is_null() {
            let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                return handle;
            }
        }
        libc::RTLD_DEFAULT
    }
}
