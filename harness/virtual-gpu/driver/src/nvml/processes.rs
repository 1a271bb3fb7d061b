//! Which processes have a context on the device, and how much memory each has.

use std::time::Duration;

use super::Error;
use super::library::{Target, catch_up_with_the_living, privileged};
use super::mig::device::ids;
use super::mig::is_divided;
use crate::device::Device;
use crate::session::{NVML_FAILS, NVML_HANGS};
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::is_client;
use gpubench_virtual_gpu_model::state::{Context, State};

/// A process with a context.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    pub pid: u32,
    pub bytes: u64,
    /// Ids of the GPU instance and the compute instance of the context, on a divided device.
    pub instance: Option<(u32, u32)>,
}

/// Processes with a context on the target, in the order of their slots; in MIG mode once for each
/// compute instance that they use. Clients of MPS have a context, so they and their server are
/// listed too.
pub fn compute(device: &Device, target: Target) -> Result<Vec<Running>, Error> {
    running(device, target, |_| true)
}

/// Those of them that are clients of MPS.
pub fn mps_clients(device: &Device, target: Target) -> Result<Vec<Running>, Error> {
    running(device, target, is_client)
}

/// Blocks while a test has planted a driver that hangs, and fails if it has planted one that fails.
fn act_as_planted(device: &Device) -> Result<(), Error> {
    let planted = device.dir().join(NVML_HANGS);
    while planted.exists() {
        // The test that planted it waits for this file; without it the test fails.
        let _ = std::fs::write(planted.with_extension("entered"), "");
        std::thread::sleep(Duration::from_millis(10));
    }
    match device.dir().join(NVML_FAILS).exists() {
        true => Err(Error::Unknown),
        false => Ok(()),
    }
}

fn running(
    device: &Device,
    target: Target,
    wanted: fn(&Context) -> bool,
) -> Result<Vec<Running>, Error> {
    act_as_planted(device)?;
    let offset = device.machine().circumstances.pid_offset as u32;
    catch_up_with_the_living(device)?;
    if is_divided(device)? && target == Target::Whole {
        // Only privileged callers may list the processes of all instances (nvml.h).
        privileged(device)?;
    }
    Ok(device.shared().read(|state| {
        let mut found = Vec::new();
        for (slot, process) in state.processes.live().iter().enumerate() {
            for engine in engines_of(state, slot as u32, target, wanted) {
                found.push(Running {
                    pid: process.pid + offset,
                    bytes: memory::process_bytes_on(state, slot as u32, engine),
                    instance: ids(state, engine),
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
