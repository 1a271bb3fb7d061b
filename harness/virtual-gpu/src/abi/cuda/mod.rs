//! The driver interface, one file for each kind of object.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

mod context;
mod copy;
mod device;
mod event;
mod global;
mod memory;
mod module;
mod stream;

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
                $crate::abi::guard(stringify!($name), || $body)
            }
        )*
    };
}
use entries;

pub use copy::noisy;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::context::*;
    pub use super::copy::*;
    pub use super::device::*;
    pub use super::event::*;
    pub use super::global::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::stream::*;
}
