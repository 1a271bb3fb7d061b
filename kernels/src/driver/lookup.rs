//! Other lookups of libcuda's functions, which a preloaded library that wraps them may miss.
//!
//! Only the escape probe selects them, by an environment variable; all other tenants load libcuda
//! as usual.
#![expect(unsafe_code, reason = "asks the dynamic loader for symbols")]

use std::ffi::{CStr, CString, c_char, c_void};

use super::Driver;
use super::error::DriverError;

/// Environment variable that selects the lookup: `dlvsym` or `path`.
pub const LOOKUP_ENV: &str = "GPUBENCH_DRIVER_LOOKUP";

/// Versions under which C libraries have carried `dlsym`, the newest first.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

/// A lookup of the driver's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// By the C library's own `dlsym`, found by `dlvsym`, past any library that overrides `dlsym`.
    Dlvsym,
    /// By `dlsym` on a handle of the driver's file under its absolute path.
    Path,
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The function and the handle that find addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finder {
    handle: *mut c_void,
    dlsym: Dlsym,
}

impl Lookup {
    pub const ALL: [Self; 2] = [Self::Dlvsym, Self::Path];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dlvsym => "dlvsym",
            Self::Path => "path",
        }
    }

    /// The lookup that the environment selects; `None` for the usual one.
    pub(super) fn requested() -> Result<Option<Self>, DriverError> {
        let Some(name) = std::env::var_os(LOOKUP_ENV) else { return Ok(None) };
        let found = Self::ALL.into_iter().find(|lookup| name == lookup.as_str());
        found.map(Some).ok_or(DriverError::NoLibrary)
    }

    pub(super) fn finder(self) -> Result<Finder, DriverError> {
        let handle = open(c"libcuda.so.1").or_else(|| open(c"libcuda.so"));
        let handle = handle.ok_or(DriverError::NoLibrary)?;
        match self {
            Self::Dlvsym => Ok(Finder {
                handle,
                dlsym: own_dlsym().ok_or(DriverError::MissingSymbol { symbol: "dlvsym" })?,
            }),
            Self::Path => Ok(Finder {
                handle: mapped(handle).as_deref().and_then(open).ok_or(DriverError::NoLibrary)?,
                dlsym: libc::dlsym,
            }),
        }
    }
}

impl Finder {
    /// The address of a symbol; null if it has none.
    pub(super) fn address(&self, symbol: &str) -> *const c_void {
        let Ok(name) = CString::new(symbol) else { return std::ptr::null() };
        // SAFETY: a handle that is never closed, and a C string.
        unsafe { (self.dlsym)(self.handle, name.as_ptr()) }
    }
}

fn open(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string; this program uses the library anyway.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    (!handle.is_null()).then_some(handle)
}

/// The C library's own `dlsym`; before glibc 2.34 it is in a library of its own.
fn own_dlsym() -> Option<Dlsym> {
    let mut libraries = [c"libc.so.6", c"libdl.so.2"].into_iter();
    libraries.find_map(|name| dlsym_in(open(name)?))
}

fn dlsym_in(library: *mut c_void) -> Option<Dlsym> {
    VERSIONS.iter().find_map(|version| {
        // SAFETY: an open handle and two C strings.
        let found = unsafe { libc::dlvsym(library, c"dlsym".as_ptr(), version.as_ptr()) };
        // SAFETY: a function of that name has this signature; a null pointer is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<Dlsym>>(found) }
    })
}

/// The absolute path of libcuda, as the loader knows it.
fn mapped(handle: *mut c_void) -> Option<CString> {
    let dlsym = own_dlsym()?;
    let file = file_of(Finder { handle, dlsym }.address("cuInit"))?;
    let path = std::fs::canonicalize(file).ok()?;
    CString::new(path.into_os_string().into_encoded_bytes()).ok()
}

// The file that implements a driver call, which reveals a preloaded interposer.

impl Driver {
    /// The file with the code of `cuMemAlloc_v2` in this process, as the loader names it; `None`
    /// where the loader does not know it.
    pub fn allocator_file(&self) -> Option<String> {
        file_of(self.api.allocator())
    }
}

fn file_of(address: *const c_void) -> Option<String> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: takes any address, and writes one structure.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: all zeroes is a value of this plain structure, and the call has filled it.
    let name = unsafe { info.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and the loader's own text, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::file_of;
    use super::{Finder, open, own_dlsym};

    #[test]
    fn the_own_dlsym_of_the_c_library_finds_symbols() {
        let (Some(handle), Some(dlsym)) = (open(c"libc.so.6"), own_dlsym()) else {
            panic!("a C library without dlsym");
        };
        let finder = Finder { handle, dlsym };
        assert!(!finder.address("getpid").is_null());
        assert!(finder.address("no_such_function").is_null());
        assert!(finder.address("torn\0name").is_null());
    }

    #[test]
    fn a_function_of_the_c_library_is_found_in_it() {
        let file = file_of(libc::getpid as *const std::ffi::c_void);
        assert!(file.is_some_and(|file| file.contains("libc")));
        assert_eq!(file_of(std::ptr::null()), None);
    }
}
