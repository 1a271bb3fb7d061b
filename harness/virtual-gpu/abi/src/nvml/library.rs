//! Initialisation, and the texts of results.

use std::ffi::{c_char, c_uint};

use super::returns;
use gpubench_virtual_gpu_driver::nvml::library::{initialise, shut_down};

entries! {
    fn nvmlInit, nvmlInit_v2() {
        Ok(initialise()?)
    }

    fn nvmlInitWithFlags(flags: c_uint) {
        // NO_GPUS (1) and NO_ATTACH (2) change nothing where there is always one device.
        if flags & !3 != 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        Ok(initialise()?)
    }

    fn nvmlShutdown() {
        Ok(shut_down()?)
    }
}

/// The text of a result. It is answered before initialisation too.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the vendor's name")]
pub extern "C" fn nvmlErrorString(result: i32) -> *const c_char {
    returns::text_of(result).as_ptr()
}
