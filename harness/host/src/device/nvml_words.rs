//! Errors of NVML in words: the driver's name, the usual causes, and the command that shows which.

use nvml_wrapper::error::NvmlError;

/// An error of the driver by its name in nvml.h, with its usual causes and the command that shows
/// which it is.
pub fn words(error: &NvmlError) -> String {
    let (name, causes) = match error {
        NvmlError::LibRmVersionMismatch => (
            "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            "library and kernel module have different versions, as after an update or in a \
             container with another library; cat /proc/driver/nvidia/version, then reboot",
        ),
        NvmlError::Unknown => (
            "NVML_ERROR_UNKNOWN",
            "a container that lost its devices (systemctl daemon-reload on the host; start it \
             again), or a GPU that failed (dmesg | grep -i -e nvrm -e xid)",
        ),
        NvmlError::NoPermission => (
            "NVML_ERROR_NO_PERMISSION",
            "this user or container may not open the devices; ls -l /dev/nvidia*",
        ),
        NvmlError::DriverNotLoaded => (
            "NVML_ERROR_DRIVER_NOT_LOADED",
            "the kernel module is not loaded; lsmod | grep nvidia, modprobe nvidia, dmesg",
        ),
        NvmlError::GpuLost => {
            ("NVML_ERROR_GPU_IS_LOST", "the GPU fell off the bus; dmesg | grep -i xid, then reboot")
        }
        NvmlError::ResetRequired => (
            "NVML_ERROR_RESET_REQUIRED",
            "the GPU needs a reset; nvidia-smi --gpu-reset, else reboot",
        ),
        NvmlError::OperatingSystem => (
            "NVML_ERROR_OPERATING_SYSTEM",
            "the system or a control group refuses the device; start the container with its GPU, \
             and under WSL nvidia-smi must work first",
        ),
        NvmlError::NotFound => {
            ("NVML_ERROR_NOT_FOUND", "NVML has nothing of this name; nvidia-smi -L")
        }
        other => return named(other),
    };
    format!("{error} ({name}): {causes}")
}

/// Answers that the wrapper does not know, by their names in nvml.h, from 23 on.
const NEWER: [&str; 8] = [
    "NVML_ERROR_INSUFFICIENT_RESOURCES: the driver has no more of what the call needs",
    "NVML_ERROR_FREQ_NOT_SUPPORTED: the device does not have this clock",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH: the driver does not have this form of the call",
    "NVML_ERROR_DEPRECATED: this driver has the call no more",
    "NVML_ERROR_NOT_READY: the GPU is not ready; ask again later",
    "NVML_ERROR_GPU_NOT_FOUND: no GPU was found; dmesg has the reason",
    "NVML_ERROR_INVALID_STATE: the GPU is in a state in which it cannot answer",
    "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: the device does not have this kind of reset",
];

/// An error of NVML in words, also one that the wrapper does not know.
pub fn named(error: &NvmlError) -> String {
    let code = match error {
        NvmlError::UnexpectedVariant(code) => code,
        NvmlError::FailedToLoadSymbol(text) => {
            let symbol = text.rsplit(' ').next().unwrap_or(text);
            return format!("the driver has no {symbol}; a newer driver has it");
        }
        error => return error.to_string(),
    };
    let known = (*code as usize).checked_sub(23).and_then(|at| NEWER.get(at));
    known.map_or_else(
        || format!("{code}, which this version does not know (nvml.h of the driver has it)"),
        |name| format!("{code} ({name})"),
    )
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::error::NvmlError;

    use super::named;

    #[test]
    fn an_answer_that_the_wrapper_does_not_know_has_its_number_and_its_name() {
        for (code, text) in [
            (23, "23 (NVML_ERROR_INSUFFICIENT_RESOURCES: "),
            (30, "30 (NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: "),
            (22, "22, which this version does not know"),
            (31, "31, which this version does not know"),
        ] {
            let found = named(&NvmlError::UnexpectedVariant(code));
            assert!(found.starts_with(text), "{found}");
        }
        let missing = NvmlError::FailedToLoadSymbol("lib.so: undefined symbol: nvmlNew".to_owned());
        assert_eq!(named(&missing), "the driver has no nvmlNew; a newer driver has it");
    }
}
