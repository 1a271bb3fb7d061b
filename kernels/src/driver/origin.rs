//! Finds the file that implements a driver call, which reveals a preloaded interposer.
#![expect(unsafe_code, reason = "asks the dynamic loader about an address")]

use std::ffi::{CStr, c_void};

use super::Driver;

impl Driver {
    /// The file with the code of `cuMemAlloc_v2` in this process, as the loader names it; `None`
    /// where the loader does not know it.
    #[must_use]
    pub fn allocator_file(&self) -> Option<String> {
        file_of(self.api.allocator())
    }
}

pub(super) fn file_of(address: *const c_void) -> Option<String> {
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

    #[test]
    fn a_function_of_the_c_library_is_found_in_it() {
        let file = file_of(libc::getpid as *const std::ffi::c_void);
        assert!(file.is_some_and(|file| file.contains("libc")));
        assert_eq!(file_of(std::ptr::null()), None);
    }
}
