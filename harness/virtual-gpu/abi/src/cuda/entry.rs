//! The form of an entry point.
#![expect(unsafe_code, reason = "exported names are unsafe by their nature")]

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
pub(super) use entries;
