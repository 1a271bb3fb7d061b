//! Confidential computing: what the system can do, what is on, and how memory is divided by it.

use std::ffi::c_uint;

use super::types::{
    ConfComputeMemSizeInfo, ConfComputeSettings, ConfComputeSystemCaps, ConfComputeSystemState,
    Memory,
};
use super::{check_not_null, check_version, put};
use gpubench_virtual_gpu_driver::nvml::confidential::{self, Modes, Sizes, answering};

entries! {
    fn nvmlSystemGetConfComputeCapabilities(capabilities: *mut ConfComputeSystemCaps) {
        let device = answering()?;
        check_not_null(capabilities)?;
        let (cpu, is_capable) = confidential::capabilities(&device);
        put(capabilities, ConfComputeSystemCaps { cpu, gpus: c_uint::from(is_capable) })
    }

    fn nvmlSystemGetConfComputeState(state: *mut ConfComputeSystemState) {
        let Modes { environment, feature } = confidential::modes(&*answering()?);
        put(state, ConfComputeSystemState { environment, feature, devtools: 0 })
    }

    fn nvmlSystemGetConfComputeSettings(settings: *mut ConfComputeSettings) {
        let device = answering()?;
        let version = check_version(settings, 1)?;
        let Modes { environment, feature } = confidential::settings(&device)?;
        // NVML_CC_SYSTEM_MULTIGPU_NONE: there is one device.
        let found =
            ConfComputeSettings { version, environment, feature, devtools: 0, multi_gpu: 0 };
        put(settings, found)
    }

    fn nvmlSystemGetConfComputeGpusReadyState(is_accepting: *mut c_uint) {
        answering()?;
        // NVML_CC_ACCEPTING_CLIENT_REQUESTS_TRUE: the model refuses no client for it.
        put(is_accepting, 1)
    }
}

figures! {
    fn nvmlDeviceGetConfComputeMemSizeInfo(device) -> ConfComputeMemSizeInfo {
        let Sizes { protected_kib, unprotected_kib } = confidential::sizes(device)?;
        Ok(ConfComputeMemSizeInfo { protected_kib, unprotected_kib })
    }

    fn nvmlDeviceGetConfComputeProtectedMemoryUsage(device) -> Memory {
        Ok(confidential::protected(device)?.into())
    }
}
