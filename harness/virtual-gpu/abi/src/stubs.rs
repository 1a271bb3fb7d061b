//! A stub for every name of the vendor's interface that is not implemented here.
//!
//! Programs and preloaded interposers call what they find, and a missing name would be a call of
//! null. `build.rs` writes one line for each name in `stubs/*.txt` that no file of `abi` defines.
#![expect(unsafe_code, reason = "exported names are unsafe by their nature")]

/// What a stub of libcuda answers: `CUDA_ERROR_NOT_SUPPORTED`.
const CUDA_NOT_SUPPORTED: i32 = 801;
/// What a stub of libnvidia-ml answers: `NVML_ERROR_NOT_SUPPORTED`.
const NVML_NOT_SUPPORTED: i32 = 3;

macro_rules! stubs {
    ($answer:expr; $( $name:ident )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the vendor's names")]
            extern "C" fn $name() -> i32 {
                $answer
            }
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
