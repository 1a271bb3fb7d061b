//! What programs see: the C interfaces of libcuda and libnvidia-ml, and the seam to the clock.
//!
//! Every entry point ends in a number. A panic inside becomes `CUDA_ERROR_UNKNOWN`; it never
//! crosses into the caller.
#![allow(
    missing_docs,
    reason = "the entry points are documented by the vendor's headers"
)]
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

pub mod arguments;
pub mod cuda;
pub mod nvml;
mod stubs;
pub mod vt;

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::diagnostics::say;

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
                $crate::guard(stringify!($name), || $body)
            }
        )*
    };
}
pub(crate) use entries;

/// Runs the body of an entry point and turns what comes of it into a number.
pub fn guard(name: &'static str, body: impl FnOnce() -> Result<(), Code>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => {
            say(&format!("internal error in {name}"));
            code::UNKNOWN.0
        }
    }
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `to` is null or valid for a write of `T`, as the C interface demands.
///
/// # Errors
/// When `to` is null.
pub unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, and valid by the caller's contract. Callers may pass unaligned places.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Copies a text into a caller's buffer, cut to fit and always ended.
///
/// # Safety
/// `to` is null or valid for `length` bytes.
///
/// # Errors
/// When there is no place at all.
pub unsafe fn put_text(to: *mut std::ffi::c_char, length: usize, text: &str) -> Result<(), Code> {
    if to.is_null() || length == 0 {
        return Err(code::INVALID_VALUE);
    }
    let cut = text.len().min(length - 1);
    // SAFETY: `cut + 1 <= length`, and the buffers cannot overlap: ours is a Rust string.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), cut);
        to.add(cut).write(0);
    }
    Ok(())
}
