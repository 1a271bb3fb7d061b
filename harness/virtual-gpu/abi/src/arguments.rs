//! The caller's arguments: structures, arrays and strings, read and written.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::planted::take_value;

/// Stores a result at the caller's address; null is refused.
pub unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    refuse(to.is_null(), code::INVALID_VALUE)?;
    // Callers may pass unaligned addresses.
    to.write_unaligned(value);
    if let Some(planted) = take_value() {
        match size_of::<T>() {
            4 => to.cast::<u32>().write_unaligned(planted as u32),
            8 => to.cast::<u64>().write_unaligned(planted),
            _ => {}
        }
    }
    Ok(())
}

/// Makes an object and stores its handle; null is refused before the object is made.
pub unsafe fn put_new<T>(to: *mut T, make: impl FnOnce() -> Result<T, Code>) -> Result<(), Code> {
    refuse(to.is_null(), code::INVALID_VALUE)?;
    put(to, make()?)
}

/// Stores a result whose address may be null, which means that the caller does not want it.
pub unsafe fn put_optional<T>(to: *mut T, value: T) {
    if !to.is_null() {
        to.write_unaligned(value);
    }
}

/// Copies a text into a caller's buffer, cut to fit and always terminated.
pub unsafe fn put_text(to: *mut c_char, length: usize, text: &str) -> Result<(), Code> {
    refuse(to.is_null() || length == 0, code::INVALID_VALUE)?;
    let cut = text.len().min(length - 1);
    std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), cut);
    to.add(cut).write(0);
    Ok(())
}

/// A C string as Rust text; null and other encodings than UTF-8 are refused.
pub unsafe fn text_of(text: *const c_char) -> Result<String, Code> {
    refuse(text.is_null(), code::INVALID_VALUE)?;
    let text = CStr::from_ptr(text).to_str();
    text.map(str::to_owned).map_err(|_| code::INVALID_VALUE)
}

/// Reads a structure of the caller; null is refused.
pub unsafe fn read<T: Copy>(from: *const T) -> Result<T, Code> {
    refuse(from.is_null(), code::INVALID_VALUE)?;
    Ok(from.read_unaligned())
}

/// A C string that is never freed; equal texts share one.
pub fn c_text(text: &str) -> *const c_char {
    static TEXTS: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = texts.get(text) {
        return found.as_ptr();
    }
    let made = CString::new(text).unwrap_or_default();
    let pointer = made.as_ptr();
    // Moving a `CString` into the table moves its handle, not its bytes.
    texts.insert(text.to_owned(), made);
    pointer
}

/// The largest number of handles in one array: the tables hold no more.
const HANDLES_MAX: usize = 1 << 20;

/// The handles in an array of `count` entries, which may be null if `count` is 0.
pub unsafe fn handles(from: *const Handle, count: usize) -> Result<Vec<usize>, Code> {
    if count == 0 {
        return Ok(Vec::new());
    }
    refuse(from.is_null() || count > HANDLES_MAX, code::INVALID_VALUE)?;
    Ok((0..count).map(|index| from.add(index).read_unaligned() as usize).collect())
}
