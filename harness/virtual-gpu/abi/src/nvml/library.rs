//! Initialisation, the texts of results, versions, process names, confidential computing.

use std::ffi::{c_char, c_int, c_uint};

use super::types::ConfComputeSystemState;
use super::{check_not_null, put, put_text, returns};
use crate::arguments;
use gpubench_virtual_gpu_driver::code::refuse;
use gpubench_virtual_gpu_driver::host_process;
use gpubench_virtual_gpu_driver::nvml::library::{
    check_initialised, initialise, only_device, shut_down,
};
use gpubench_virtual_gpu_driver::nvml::modes::{Modes, modes};

entries! {
    fn nvmlInit, nvmlInit_v2() { Ok(initialise()?) }
    fn nvmlInitWithFlags(flags: c_uint) {
        // NO_GPUS (1) and NO_ATTACH (2) change nothing where there is always one device.
        refuse(flags & !3 != 0, returns::INVALID_ARGUMENT)?;
        Ok(initialise()?)
    }

    fn nvmlShutdown() { Ok(shut_down()?) }
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let device = only_device()?;
        put_text(version, length, &device.machine().gpu.driver)
    }

    fn nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        let device = only_device()?;
        put(version, device.machine().cuda_version())
    }

    fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) {
        check_initialised()?;
        check_not_null(name)?;
        refuse(length == 0, returns::INVALID_ARGUMENT)?;
        let found = host_process::name(pid).ok_or(returns::NOT_FOUND)?;
        arguments::put_text(name, length as usize, &found).map_err(|_| returns::INVALID_ARGUMENT)
    }

    fn nvmlSystemGetConfComputeState(state: *mut ConfComputeSystemState) {
        let Modes { environment, feature } = modes()?;
        put(state, ConfComputeSystemState { environment, feature, devtools: 0 })
    }
}

/// The text of a result. It is answered before initialisation too.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the vendor's name")]
pub extern "C" fn nvmlErrorString(result: i32) -> *const c_char {
    returns::text_of(result).as_ptr()
}
