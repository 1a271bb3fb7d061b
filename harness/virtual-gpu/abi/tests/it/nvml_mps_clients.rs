//! The lists of clients of MPS.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use crate::nvml_support::{
    Error, Tenant, alloc, as_root, context, nvml_device, ok, ready, wait_for_go,
};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::ProcessInfo;
use gpubench_virtual_gpu_driver::process;
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::{MpsDaemon, WHOLE};

/// Allocates 32 MiB, and stays.
fn tenant() -> Result<(), Error> {
    context()?;
    alloc(32 << 20)?;
    ready()?;
    wait_for_go()
}

fn listed(
    device: DeviceHandle,
    list: unsafe extern "C" fn(DeviceHandle, *mut u32, *mut ProcessInfo) -> i32,
) -> Result<Vec<u32>, Error> {
    let mut infos = [ProcessInfo::default(); 8];
    let mut count = 8;
    // SAFETY: an array of that length.
    ok(unsafe { list(device, &raw mut count, infos.as_mut_ptr()) })?;
    Ok(infos[..count as usize].iter().map(|info| info.pid).collect())
}

#[test]
fn mps_clients_have_their_own_list_without_the_server() -> Result<(), Error> {
    let test = test_name!();
    as_root(test, "hopper", tenant, || {
        let device = nvml_device()?;
        let tenant = Tenant::start(test)?;
        let all = || listed(device, nvmlDeviceGetComputeRunningProcesses_v3);
        let clients = || listed(device, nvmlDeviceGetMPSComputeRunningProcesses_v3);
        assert_eq!((all()?, clients()?), (vec![tenant.pid()], vec![]));
        // This process is daemon and server; the tenant's context becomes a client's.
        let shared = process::device().map_err(|code| format!("{code:?}"))?;
        let (own, machine) = (shared.process()?, shared.machine());
        let joined = shared.transact(|state, _| {
            let daemon = MpsDaemon { process: own, engine: WHOLE, ..MpsDaemon::default() };
            let daemon = mps::add_daemon(state, daemon)?;
            let server = mps::add_server(state, machine, daemon, own, 0)?;
            let client = state.contexts.live_mut().iter_mut().find(|c| c.process != own)?;
            client.server = server;
            Some(())
        })?;
        joined.ok_or("no room")?;
        let mut both = vec![tenant.pid(), std::process::id()];
        let mut found = all()?;
        both.sort_unstable();
        found.sort_unstable();
        assert_eq!((found, clients()?), (both, vec![tenant.pid()]));
        tenant.kill()?;
        assert_eq!((all()?, clients()?), (vec![std::process::id()], vec![]));
        Ok(())
    })
}
