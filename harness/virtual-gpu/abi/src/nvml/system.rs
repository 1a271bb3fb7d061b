//! Versions and process names.

use std::ffi::{c_char, c_int, c_uint};

use super::library::{library, only_device};
use super::returns;
use super::{check_not_null, put, put_text};
use crate::arguments;

entries! {
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let device = only_device()?;
        put_text(version, length, &device.machine().gpu.driver)
    }

    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) {
        let device = only_device()?;
        let machine = device.machine();
        // As the vendor numbers it: the interface's version, then the driver's.
        let text = format!("{}.{}", machine.cuda_version() / 1000, machine.gpu.driver);
        put_text(version, length, &text)
    }

    fn nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        let device = only_device()?;
        put(version, device.machine().cuda_version())
    }

    fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) {
        drop(library()?);
        check_not_null(name)?;
        if length == 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        let found = process_name(pid).ok_or(returns::NOT_FOUND)?;
        arguments::put_text(name, length as usize, &found).map_err(|_| returns::INVALID_ARGUMENT)
    }
}

/// The command that a process runs; its bare name if the kernel does not show the command.
fn process_name(pid: u32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command.split(|byte| *byte == 0).next().unwrap_or_default();
    if !first.is_empty() {
        return Some(String::from_utf8_lossy(first).into_owned());
    }
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
