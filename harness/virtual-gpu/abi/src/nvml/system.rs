//! Versions and process names.

use std::ffi::{c_char, c_int, c_uint};

use super::returns;
use super::{check_not_null, put, put_text};
use crate::arguments;
use gpubench_virtual_gpu_driver::host_process;
use gpubench_virtual_gpu_driver::nvml::library::{check_initialised, only_device};

entries! {
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
        if length == 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        let found = host_process::name(pid).ok_or(returns::NOT_FOUND)?;
        arguments::put_text(name, length as usize, &found).map_err(|_| returns::INVALID_ARGUMENT)
    }
}
