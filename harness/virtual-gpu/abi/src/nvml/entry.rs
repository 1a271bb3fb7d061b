//! The macros that define entry points of NVML, and access to the caller's arguments.

use std::ffi::{CStr, c_char, c_uint};

use super::returns::{self, Return};
use super::types::{DeviceHandle, version_of};
use crate::arguments;
use gpubench_virtual_gpu_driver::code::refuse;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::library::device;

/// Defines exported functions whose bodies end in a `Result`. Names in one row share a signature
/// and a body.
macro_rules! entries {
    ($( fn $($name:ident),+ ( $($arguments:tt)* ) $body:block )*) => {
        $( entry! {
            $crate::nvml::returns::Return, [ $($name),+ ] ( $($arguments)* ) $body
        } )*
    };
}

/// Defines exported functions of the commonest form: a device, and an address for one figure.
macro_rules! figures {
    ($( fn $($name:ident),+ ( $device:pat_param ) -> $of:ty $body:block )*) => {
        $( entry! {
            $crate::nvml::returns::Return,
            [ $($name),+ ] (device: $crate::nvml::DeviceHandle, figure: *mut $of) {
                $crate::nvml::entry::answer(device, figure, |$device| $body)
            }
        } )*
    };
}

/// Stores a figure of the whole device.
pub(super) unsafe fn answer<T>(
    handle: DeviceHandle,
    figure: *mut T,
    body: impl FnOnce(&Device) -> Result<T, Return>,
) -> Result<(), Return> {
    let device = device(handle)?;
    check_not_null(figure)?;
    put(figure, body(&device)?)
}

/// Refuses null before anything is measured.
pub(super) fn check_not_null<T>(pointer: *const T) -> Result<(), Return> {
    if pointer.is_null() { Err(returns::INVALID_ARGUMENT) } else { Ok(()) }
}

/// Reads a mode that is off or on.
pub(super) fn switch(mode: c_uint) -> Result<bool, Return> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(returns::INVALID_ARGUMENT),
    }
}

pub(super) unsafe fn text(from: *const c_char) -> Result<String, Return> {
    check_not_null(from)?;
    Ok(CStr::from_ptr(from).to_string_lossy().into_owned())
}

/// Stores a result; null is refused.
pub(super) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Return> {
    arguments::put(to, value).map_err(|_| returns::INVALID_ARGUMENT)
}

/// Reads a structure or a number of the caller; null is refused.
pub(super) unsafe fn read<T: Copy>(from: *const T) -> Result<T, Return> {
    arguments::read(from).map_err(|_| returns::INVALID_ARGUMENT)
}

/// Reads the first field of a structure, which must be the number of this version of `T`.
pub(super) unsafe fn check_version<T>(structure: *const T, version: u32) -> Result<u32, Return> {
    let number = read(structure.cast::<u32>())?;
    if number == version_of::<T>(version) {
        Ok(number)
    } else {
        Err(returns::ARGUMENT_VERSION_MISMATCH)
    }
}

/// Stores the length of a list, and the list itself if the caller's array has room for all of it.
pub(super) unsafe fn put_list<T: Copy, U: From<T>>(
    found: &[T],
    count: *mut c_uint,
    to: *mut U,
) -> Result<(), Return> {
    let room = read(count)? as usize;
    put(count, found.len() as c_uint)?;
    refuse(room < found.len(), returns::INSUFFICIENT_SIZE)?;
    put_each(found, to)
}

/// Stores the length of a list, and the list itself in an array that nvml.h demands to be large
/// enough, unless it is null.
pub(super) unsafe fn put_all<T: Copy, U: From<T>>(
    found: &[T],
    to: *mut U,
    count: *mut c_uint,
) -> Result<(), Return> {
    put(count, found.len() as c_uint)?;
    if to.is_null() {
        return Ok(());
    }
    put_each(found, to)
}

/// Stores every element of a list in an array that has room for all of them.
pub(super) unsafe fn put_each<T: Copy, U: From<T>>(found: &[T], to: *mut U) -> Result<(), Return> {
    for (index, one) in found.iter().enumerate() {
        put(to.wrapping_add(index), U::from(*one))?;
    }
    Ok(())
}

/// Copies a text into a caller's buffer, which must be large enough for all of it.
pub(super) unsafe fn put_text(to: *mut c_char, length: u32, text: &str) -> Result<(), Return> {
    check_not_null(to)?;
    refuse(length as usize <= text.len(), returns::INSUFFICIENT_SIZE)?;
    arguments::put_text(to, length as usize, text).map_err(|_| returns::INVALID_ARGUMENT)
}

/// A text as a field of `N` characters, cut to fit and padded with zeros.
pub(super) fn filled<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes()).take(N - 1) {
        *to = from as c_char;
    }
    out
}
