//! What every entry point is made with: the macro that exports it, and places of the caller.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::returns::{self, Return};

/// `nvmlDevice_t`.
pub type DeviceHandle = *mut c_void;

/// Defines exported entry points whose bodies end in a `Result`.
macro_rules! entries {
    ($( fn $name:ident( $($arg:ident: $ty:ty),* $(,)? ) $body:block )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(
                non_snake_case,
                clippy::missing_safety_doc,
                reason = "names and contracts are the vendor's"
            )]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                $crate::nvml::entry::guard(stringify!($name), || $body)
            }
        )*
    };
}
pub(super) use entries;

/// Runs the body of an entry point and turns what comes of it into a number.
pub(super) fn guard(name: &'static str, body: impl FnOnce() -> Result<(), Return>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => {
            gpubench_virtual_gpu_driver::diagnostics::say(&format!("internal error in {name}"));
            returns::UNKNOWN.0
        }
    }
}

/// Refuses a missing place before anything is measured for it.
pub(super) fn check_place<T>(to: *const T) -> Result<(), Return> {
    if to.is_null() {
        Err(returns::INVALID_ARGUMENT)
    } else {
        Ok(())
    }
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `to` is null or valid for a write of `T`, as the C interface demands.
pub(super) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Return> {
    // SAFETY: passed on to the caller.
    unsafe { crate::put(to, value) }.map_err(|_| returns::INVALID_ARGUMENT)
}

/// Reads what the caller has put at a place.
///
/// # Safety
/// `from` is null or valid for a read of `T`.
pub(super) unsafe fn take<T: Copy>(from: *const T) -> Result<T, Return> {
    check_place(from)?;
    // SAFETY: not null, and valid by the caller's contract. Callers may pass unaligned places.
    Ok(unsafe { from.read_unaligned() })
}

/// Copies a text into a caller's buffer, which must be large enough for all of it.
///
/// # Safety
/// `to` is null or valid for `length` bytes.
pub(super) unsafe fn put_text(to: *mut c_char, length: u32, text: &str) -> Result<(), Return> {
    check_place(to)?;
    let length = length as usize;
    if length <= text.len() {
        return Err(returns::INSUFFICIENT_SIZE);
    }
    // SAFETY: passed on to the caller.
    unsafe { crate::put_text(to, length, text) }.map_err(|_| returns::INVALID_ARGUMENT)
}

/// A text in a field of that many characters, cut to fit and ended by zeroes.
pub(super) fn filled<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes()).take(N - 1) {
        *to = from as c_char;
    }
    out
}
