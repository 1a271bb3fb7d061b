//! Reads the caller's arguments: structures, arrays, texts.
#![expect(unsafe_code, reason = "the caller's arguments are raw pointers")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;

/// A C string as Rust text.
///
/// # Errors
/// When there is none, or it is no text.
///
/// # Safety
/// `text` is null or a C string.
pub unsafe fn text_of(text: *const c_char) -> Result<String, Code> {
    if text.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: a C string by the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| code::INVALID_VALUE)
}

/// Reads a structure of the caller's.
///
/// # Safety
/// `from` is null or valid for a read of `T`, which any bits are a value of.
pub unsafe fn read<T: std::marker::Copy>(from: *const T) -> Result<T, Code> {
    if from.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, valid by the caller's contract.
    Ok(unsafe { from.read_unaligned() })
}

/// A C string that lives for ever; the same one for the same text.
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

/// The most entries that an array of handles can have: the tables hold no more.
const MOST: usize = 1 << 20;

/// Handles in an array of the caller's.
///
/// # Errors
/// When there is no array, or it is impossibly long.
///
/// # Safety
/// `from` is null or has `count` entries.
pub unsafe fn handles(from: *const Handle, count: usize) -> Result<Vec<usize>, Code> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() || count > MOST {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's contract.
    Ok((0..count)
        .map(|index| unsafe { from.add(index).read_unaligned() } as usize)
        .collect())
}
