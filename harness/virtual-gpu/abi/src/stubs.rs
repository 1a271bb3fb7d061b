//! A stub for every name of the vendor's interface that is not implemented here.
//!
//! Programs and preloaded interposers call what they find, and a missing name would be a call of
//! null. `build.rs` writes one line for each name in `stubs/*.txt` that no file of `abi` defines.
#![expect(unsafe_code, reason = "exported names are unsafe by their nature")]

use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::diagnostics::say_once;

/// The answer of a stub of libcuda. A program that does not expect it gives no name, so it is said.
fn absent_from_cuda(name: &str) -> i32 {
    say_once(&format!("{name} is not implemented: it answers CUDA_ERROR_NOT_SUPPORTED"));
    code::NOT_SUPPORTED.0
}

/// The answer of a stub of libnvidia-ml: `NVML_ERROR_NOT_SUPPORTED`, as hardware answers too.
fn absent_from_nvml(_name: &str) -> i32 {
    3
}

macro_rules! stubs {
    ($answer:expr; $( $name:ident )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the vendor's names")]
            extern "C" fn $name() -> i32 {
                $answer(stringify!($name))
            }
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
