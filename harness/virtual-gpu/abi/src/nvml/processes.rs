//! Which processes have a context on the device, and how much memory each has.

use std::ffi::c_uint;
use std::time::Duration;

use super::library::catch_up_with_the_living;
use super::returns::{self, Return};
use super::target::{Target, target};
use super::types::{ProcessDetail, ProcessDetailList, ProcessInfo, ProcessInfoV1};
use super::{DeviceHandle, check_version, mig, put_list, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::session::{NVML_FAILS, NVML_HANGS};
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::is_client;
use gpubench_virtual_gpu_model::state::{Context, State};

/// First major compute capability whose driver gives the detailed list (nvml.h: Hopper).
const DETAILS_SINCE: u32 = 9;

impl From<ProcessInfo> for ProcessInfoV1 {
    fn from(info: ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            used_gpu_memory: info.used_gpu_memory,
        }
    }
}

impl From<ProcessInfo> for ProcessDetail {
    fn from(info: ProcessInfo) -> Self {
        Self {
            pid: info.pid,
            used_gpu_memory: info.used_gpu_memory,
            gpu_instance_id: info.gpu_instance_id,
            compute_instance_id: info.compute_instance_id,
            used_protected_memory: 0,
        }
    }
}

entries! {
    fn nvmlDeviceGetComputeRunningProcesses(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfoV1,
    ) {
        put_list(&running(handle, any)?, count, infos)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        put_list(&running(handle, any)?, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfoV1,
    ) {
        target(handle)?;
        put_list(&NO_PROCESS, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        target(handle)?;
        put_list(&NO_PROCESS, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfoV1,
    ) {
        put_list(&running(handle, is_client)?, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        put_list(&running(handle, is_client)?, count, infos)
    }

    fn nvmlDeviceGetRunningProcessDetailList(
        handle: DeviceHandle, details: *mut ProcessDetailList,
    ) {
        let (device, _) = target(handle)?;
        check_version(details, 1)?;
        let request = read(details)?;
        if device.machine().compute_capability().0 < DETAILS_SINCE {
            return Err(returns::NOT_SUPPORTED);
        }
        let found = match request.mode {
            0 => running(handle, any)?,
            1 => Vec::new(),
            2 => running(handle, is_client)?,
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        put_list(&found, &raw mut (*details).entries, request.processes)
    }
}

/// The graphics processes, which this device never has.
const NO_PROCESS: [ProcessInfo; 0] = [];

/// Selects every context.
const fn any(_: &Context) -> bool {
    true
}

/// Blocks while a test has planted a driver that hangs, and fails if it has planted one that fails.
fn act_as_planted(device: &Device) -> Result<(), Return> {
    let planted = device.dir().join(NVML_HANGS);
    while planted.exists() {
        // The test that planted it waits for this file; without it the test fails.
        let _ = std::fs::write(planted.with_extension("entered"), "");
        std::thread::sleep(Duration::from_millis(10));
    }
    match device.dir().join(NVML_FAILS).exists() {
        true => Err(returns::UNKNOWN),
        false => Ok(()),
    }
}

/// Processes with such a context on the target of a handle, in the order of their slots; in MIG
/// mode once for each compute instance that they use. Clients of MPS have a context, so they and
/// their server are listed among all processes too.
fn running(handle: DeviceHandle, wanted: fn(&Context) -> bool) -> Result<Vec<ProcessInfo>, Return> {
    let (device, target) = target(handle)?;
    act_as_planted(&device)?;
    catch_up_with_the_living(&device)?;
    let divided = device.shared().read(|state| state.mig.current)?;
    if divided && target == Target::Whole {
        // Only privileged callers may list the processes of all instances (nvml.h).
        mig::privileged(&device)?;
    }
    Ok(device.shared().read(|state| {
        let mut found = Vec::new();
        for (slot, process) in state.processes.live().iter().enumerate() {
            for engine in engines_of(state, slot as u32, target, wanted) {
                let (gpu_instance_id, compute_instance_id) = mig::ids(state, engine);
                found.push(ProcessInfo {
                    pid: process.pid,
                    used_gpu_memory: memory::process_bytes_on(state, slot as u32, engine),
                    gpu_instance_id,
                    compute_instance_id,
                });
            }
        }
        found
    })?)
}

/// Rows of the compute engines on which a process has such a context, each once.
fn engines_of(
    state: &State,
    process: u32,
    target: Target,
    wanted: fn(&Context) -> bool,
) -> Vec<u32> {
    let on_target = |engine: u32| target == Target::Whole || target == Target::Engine(engine);
    let contexts = state.contexts.live().iter();
    let mut rows: Vec<u32> = contexts
        .filter(|c| c.live && c.process == process && on_target(c.engine) && wanted(c))
        .map(|c| c.engine)
        .collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
