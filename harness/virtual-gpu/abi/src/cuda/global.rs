//! Initialisation, versions, error texts, and the look-up of entry points by name.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use crate::arguments::{c_text, put, put_optional};
use crate::cuda::versions;
use gpubench_virtual_gpu_driver::code::{self, Code, describe, refuse};
use gpubench_virtual_gpu_driver::diagnostics::say_once;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::rules::mps_variables;

entries! {
    fn cuInit(flags: c_uint) {
        refuse(flags != 0, code::INVALID_VALUE)?;
        let process = process()?;
        let mut tables = process.tables();
        if !tables.initialised {
            (tables.initialised, tables.mps_variables) = (true, mps_variables());
        }
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        let value = process()?.device.machine().cuda_version();
        put(version, value)
    }

    fn cuGetErrorName(error: c_int, text: *mut *const c_char) {
        let found = describe(error);
        put(text, found.map_or(std::ptr::null(), |(name, _)| c_text(name)))?;
        found.map(|_| ()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetExportTable(table: *mut *const c_void, id: *const c_void) {
        let _ = (table, id);
        gpubench_virtual_gpu_driver::diagnostics::say(
            "a program asks for the driver's undocumented export table, as the CUDA runtime does; \
             a virtual GPU has none and serves programs on the driver interface only",
        );
        Err(code::NOT_SUPPORTED)
    }

    fn cuGetErrorString(error: c_int, text: *mut *const c_char) {
        let found = describe(error);
        put(text, found.map_or(std::ptr::null(), |(_, text)| c_text(text)))?;
        found.map(|_| ()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char, pointer: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut c_int,
    ) {
        let found = find(symbol, version, flags)?;
        put_optional(status, found.status());
        found.hand_out(pointer)
    }

    fn cuGetProcAddress, cuGetProcAddress_ptsz(
        symbol: *const c_char, pointer: *mut *mut c_void, version: c_int, flags: u64,
    ) { find(symbol, version, flags)?.hand_out(pointer) }
}

/// What a look-up came to.
enum Found {
    Entry(*mut c_void),
    /// The name is known, but not to a program as old as that.
    TooOld,
    Unknown,
}

impl Found {
    /// `CUdriverProcAddressQueryResult` (cuda.h).
    fn status(&self) -> c_int {
        match self {
            Self::Entry(_) => 0,
            Self::Unknown => 1,
            Self::TooOld => 2,
        }
    }

    unsafe fn hand_out(&self, pointer: *mut *mut c_void) -> Result<(), Code> {
        let found = match self {
            Self::Entry(found) => *found,
            Self::TooOld | Self::Unknown => std::ptr::null_mut(),
        };
        put(pointer, found)?;
        if found.is_null() { Err(code::NOT_FOUND) } else { Ok(()) }
    }
}

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM` (cuda.h), and all flags there are.
const OWN_STREAM: u64 = 2;

const FLAGS: u64 = 3;

/// The entry point that a program of a CUDA version means by a name, in this very library.
unsafe fn find(symbol: *const c_char, version: c_int, flags: u64) -> Result<Found, Code> {
    refuse(symbol.is_null() || flags & !FLAGS != 0, code::INVALID_VALUE)?;
    let base = CStr::from_ptr(symbol);
    let base = base.to_str().map_err(|_| code::INVALID_VALUE)?;
    let Some(name) = versions::exported(base, version) else { return Ok(Found::TooOld) };
    let own: &[&str] = if flags & OWN_STREAM != 0 { &["_ptsz", "_ptds"] } else { &[] };
    for suffix in own.iter().chain(&[""]) {
        let name = CString::new(format!("{name}{suffix}")).map_err(|_| code::INVALID_VALUE)?;
        let found = libc::dlsym(own_library(), name.as_ptr());
        if !found.is_null() {
            return Ok(Found::Entry(found));
        }
    }
    say_once(&format!("cuGetProcAddress: {base} is not known (CUDA {version})"));
    Ok(Found::Unknown)
}

/// A handle on the library or program in which this code was loaded.
unsafe fn own_library() -> *mut c_void {
    let mut info: libc::Dl_info = std::mem::zeroed();
    let here = own_library as unsafe fn() -> *mut c_void as *const c_void;
    if libc::dladdr(here, &raw mut info) != 0 && !info.dli_fname.is_null() {
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if !handle.is_null() {
            return handle;
        }
    }
    libc::RTLD_DEFAULT
}
