//! `nvmlReturn_t` by number, as nvml.h names them, with the texts of `nvmlErrorString`.

use std::ffi::CStr;

use gpubench_virtual_gpu_driver::nvml::Error;

/// A result that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return(pub i32);

macro_rules! returns {
    ($( $name:ident = $number:literal, $text:literal; )*) => {
        $( #[allow(dead_code, reason = "the list is the header's")] #[doc = stringify!($text)]
           pub const $name: Return = Return($number); )*

        /// Number and text of every result.
        pub const ALL: &[(i32, &CStr)] = &[(0, c"Success"), $( ($number, $text) ),*];
    };
}

// The texts are those that programs print and that some compare.
returns! {
    UNINITIALIZED = 1, c"Uninitialized";
    INVALID_ARGUMENT = 2, c"Invalid Argument";
    NOT_SUPPORTED = 3, c"Not Supported";
    NO_PERMISSION = 4, c"Insufficient Permissions";
    ALREADY_INITIALIZED = 5, c"Already Initialized";
    NOT_FOUND = 6, c"Not Found";
    INSUFFICIENT_SIZE = 7, c"Insufficient Size";
    INSUFFICIENT_POWER = 8, c"Insufficient External Power";
    DRIVER_NOT_LOADED = 9, c"Driver Not Loaded";
    TIMEOUT = 10, c"Timeout";
    IRQ_ISSUE = 11, c"Interrupt Request Issue";
    LIBRARY_NOT_FOUND = 12, c"NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = 13, c"Function Not Found";
    CORRUPTED_INFOROM = 14, c"Corrupted infoROM";
    GPU_IS_LOST = 15, c"GPU is lost";
    RESET_REQUIRED = 16, c"GPU requires reset";
    OPERATING_SYSTEM = 17, c"GPU access blocked by the operating system";
    LIB_RM_VERSION_MISMATCH = 18, c"Driver/library version mismatch";
    IN_USE = 19, c"In use by another client";
    MEMORY = 20, c"Insufficient Memory";
    NO_DATA = 21, c"No data";
    VGPU_ECC_NOT_SUPPORTED = 22, c"Not supported on a vGPU with ECC enabled";
    INSUFFICIENT_RESOURCES = 23, c"Insufficient Resources";
    FREQ_NOT_SUPPORTED = 24, c"Frequency Not Supported";
    ARGUMENT_VERSION_MISMATCH = 25, c"Argument version mismatch";
    DEPRECATED = 26, c"Deprecated";
    NOT_READY = 27, c"Not Ready";
    GPU_NOT_FOUND = 28, c"GPU Not Found";
    INVALID_STATE = 29, c"Invalid State";
    UNKNOWN = 999, c"Unknown Error";
}

/// The text of a result, known or not.
pub fn text_of(number: i32) -> &'static CStr {
    ALL.iter().find(|(known, _)| *known == number).map_or(c"Unknown Error", |(_, text)| text)
}

impl From<Return> for i32 {
    fn from(result: Return) -> Self {
        result.0
    }
}

impl From<Error> for Return {
    fn from(error: Error) -> Self {
        Self(error as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, text_of};

    #[test]
    fn numbers_are_unique_and_have_texts() {
        for (index, (number, text)) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|(other, _)| other != number), "{text:?}");
            assert_eq!(text_of(*number), *text);
        }
        assert_eq!(text_of(-5), c"Unknown Error");
    }
}
