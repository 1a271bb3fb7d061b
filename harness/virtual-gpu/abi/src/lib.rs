//! The exported C functions of libcuda and libnvidia-ml, and the virtual clock's interface.
//!
//! An entry point checks its arguments, makes one call into `driver` and stores the results. A
//! panic inside becomes `CUDA_ERROR_UNKNOWN` and never crosses into the caller.
//!
//! The pointers of a caller follow the contract of the vendor's header: null, or valid for the
//! access that the header documents. Every function here relies on that, so the contract stands
//! once, in `entry!`.
#![allow(
    missing_docs,
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "names, arguments and contracts are those of the vendor's headers"
)]
#![expect(unsafe_code, reason = "a C interface is made of raw pointers and exported names")]

/// Defines exported functions with one signature and one body, which ends in a `Result`.
macro_rules! entry {
    ($error:ty, [ $($name:ident),+ ] $arguments:tt $body:block) => {
        $( entry! { @one $error, $name $arguments $body } )+
    };
    (@one $error:ty, $name:ident ( $($argument:ident: $of:ty),* $(,)? ) $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe, reason = "the vendor's names; safe bodies occur")]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> i32 {
            $crate::guard(stringify!($name), || -> Result<(), $error> {
                // SAFETY: the caller's pointers follow the contract of the vendor's header.
                unsafe { $body }
            })
        }
    };
}

/// Declares structures of the vendor's headers: plain data in C's layout.
macro_rules! c_structs {
    ($( $(#[$meta:meta])* pub struct $name:ident {
        $( $(#[$field_meta:meta])* pub $field:ident: $of:ty ),* $(,)?
    } )*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy)]
            #[repr(C)]
            pub struct $name { $( $(#[$field_meta])* pub $field: $of ),* }
        )*
    };
}

mod arguments;
pub mod cuda;
pub mod nvml;
mod stubs;
pub mod vt;

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpubench_virtual_gpu_driver::diagnostics::say;
use gpubench_virtual_gpu_driver::stream::with_own_stream;
use gpubench_virtual_gpu_driver::{code, planted};

/// Runs the body of an entry point and returns its result as a number. Where the name ends in
/// `_ptsz` or `_ptds`, the null stream is the calling thread's own default stream.
fn guard<E: Into<i32>>(name: &'static str, body: impl FnOnce() -> Result<(), E>) -> i32 {
    if let Some(code) = planted::result(name) {
        return code;
    }
    let call = || match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.into(),
        Err(_) => {
            say(&format!("internal error in {name}"));
            code::UNKNOWN.0
        }
    };
    if name.ends_with("_ptsz") || name.ends_with("_ptds") { with_own_stream(call) } else { call() }
}
