//! Confidential computing: whether it is on.

use super::put;
use super::types::ConfComputeSystemState;
use gpubench_virtual_gpu_driver::nvml::confidential::{Modes, modes};

entries! {
    fn nvmlSystemGetConfComputeState(state: *mut ConfComputeSystemState) {
        let Modes { environment, feature } = modes()?;
        put(state, ConfComputeSystemState { environment, feature, devtools: 0 })
    }
}
