//! libnvidia-ml: what monitoring programs see, one file for each kind of question.
//!
//! Identity and limits come from the machine file; whatever changes with time is read from the
//! model after it has come up to the present. What the model does not know is not answered: those
//! names stay stubs that say NOT_SUPPORTED. Deliberately absent: everything that changes a setting,
//! but for MIG and accounting.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

mod accounting;
mod clocks;
mod confidential;
mod events;
mod fields;
mod figures;
pub mod gpm;
mod handles;
mod health;
mod history;
mod identity;
mod library;
mod link;
mod lookup;
mod memory;
mod memory_limits;
pub mod mig;
mod modes;
mod objects;
mod power;
mod processes;
pub mod returns;
mod samples;
mod system;
mod target;
pub mod types;
mod utilization;
mod wait_policy;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::accounting::*;
    pub use super::clocks::*;
    pub use super::confidential::*;
    pub use super::events::*;
    pub use super::fields::*;
    pub use super::gpm::*;
    pub use super::health::*;
    pub use super::identity::*;
    pub use super::library::*;
    pub use super::link::*;
    pub use super::lookup::*;
    pub use super::memory::*;
    pub use super::memory_limits::*;
    pub use super::mig::calls::*;
    pub use super::modes::*;
    pub use super::power::*;
    pub use super::processes::*;
    pub use super::samples::*;
    pub use super::system::*;
    pub use super::utilization::*;
}

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use returns::Return;

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
                $crate::nvml::guard(stringify!($name), || $body)
            }
        )*
    };
}
use entries;

/// Runs the body of an entry point and turns what comes of it into a number.
fn guard(name: &'static str, body: impl FnOnce() -> Result<(), Return>) -> i32 {
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
fn check_place<T>(to: *const T) -> Result<(), Return> {
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
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Return> {
    // SAFETY: passed on to the caller.
    unsafe { super::put(to, value) }.map_err(|_| returns::INVALID_ARGUMENT)
}

/// Reads what the caller has put at a place.
///
/// # Safety
/// `from` is null or valid for a read of `T`.
unsafe fn take<T: Copy>(from: *const T) -> Result<T, Return> {
    check_place(from)?;
    // SAFETY: not null, and valid by the caller's contract. Callers may pass unaligned places.
    Ok(unsafe { from.read_unaligned() })
}

/// Copies a text into a caller's buffer, which must be large enough for all of it.
///
/// # Safety
/// `to` is null or valid for `length` bytes.
unsafe fn put_text(to: *mut c_char, length: u32, text: &str) -> Result<(), Return> {
    check_place(to)?;
    let length = length as usize;
    if length <= text.len() {
        return Err(returns::INSUFFICIENT_SIZE);
    }
    // SAFETY: passed on to the caller.
    unsafe { super::put_text(to, length, text) }.map_err(|_| returns::INVALID_ARGUMENT)
}
