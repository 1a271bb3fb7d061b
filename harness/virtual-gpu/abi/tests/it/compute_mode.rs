//! The compute mode at the interfaces: setting, reading, and refused contexts with
//! CUDA_ERROR_DEVICE_UNAVAILABLE (46, cuda.h).

use std::ptr::null_mut;

use crate::driver_support::call;
use crate::nvml_support::mig::{divided, filled};
use crate::nvml_support::{
    Error, Tenant, as_root, as_user, context, figure, no_tenant, nvml_device, ok, ready,
    wait_for_go,
};
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::session::TimeMode;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;

const PROHIBITED: u32 = 2;
const EXCLUSIVE_PROCESS: u32 = 3;
const NOT_SUPPORTED: i32 = 3;

fn set(device: DeviceHandle, mode: u32) -> i32 {
    call!(nvmlDeviceSetComputeMode(device, mode))
}

fn mode(device: DeviceHandle) -> Result<u32, Error> {
    figure(nvmlDeviceGetComputeMode, device)
}

/// The codes of creating a context and of retaining the primary one; both are released.
fn context_codes() -> Result<(i32, i32), Error> {
    let (mut made, mut held): (Handle, Handle) = (null_mut(), null_mut());
    ok!(cuInit(0))?;
    let created = call!(cuCtxCreate_v2(&raw mut made, 0, 0));
    if created == 0 {
        ok!(cuCtxDestroy_v2(made))?;
    }
    let retained = call!(cuDevicePrimaryCtxRetain(&raw mut held, 0));
    if retained == 0 {
        ok!(cuDevicePrimaryCtxRelease_v2(0))?;
    }
    Ok((created, retained))
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_MODE` (cuda.h).
fn attribute() -> Result<i32, Error> {
    let mut found = -1;
    ok!(cuDeviceGetAttribute(&raw mut found, 20, 0))?;
    Ok(found)
}

#[test]
fn exclusive_process_refuses_other_processes_until_the_first_ends() -> Result<(), Error> {
    let test = test_name!();
    let tenant = || {
        let _context = context()?;
        ready()?;
        wait_for_go()
    };
    as_root(test, "turing", tenant, || {
        let device = nvml_device()?;
        assert_eq!((mode(device)?, context_codes()?), (0, (0, 0)));
        let held = Tenant::start(test)?;
        assert_eq!(context_codes()?, (0, 0), "the default admits every process");
        ok(set(device, EXCLUSIVE_PROCESS))?;
        assert_eq!((mode(device)?, attribute()?), (3, 3));
        assert_eq!(context_codes()?, (46, 46));
        held.kill()?;
        assert_eq!(context_codes()?, (0, 0), "dead processes do not count");
        ok(set(device, PROHIBITED))?;
        assert_eq!((context_codes()?, attribute()?), ((46, 46), 2));
        ok(set(device, 0))?;
        assert_eq!((context_codes()?, mode(device)?), ((0, 0), 0));
        Ok(())
    })
}

#[test]
fn root_sets_the_mode_except_under_mig() -> Result<(), Error> {
    as_root(test_name!(), "hopper", no_tenant, || {
        let device = nvml_device()?;
        for (number, want) in [(1, NOT_SUPPORTED), (4, 2), (u32::MAX, 2)] {
            assert_eq!(set(device, number), want, "{number}");
        }
        assert_eq!(set(null_mut(), 0), 2, "no such device");
        ok(set(device, EXCLUSIVE_PROCESS))?;
        let parent = divided()?;
        let part = filled(parent)?.device;
        assert_eq!((mode(parent)?, mode(part)?), (0, 0), "MIG has the default");
        for handle in [parent, part] {
            assert_eq!(set(handle, EXCLUSIVE_PROCESS), NOT_SUPPORTED);
        }
        Ok(())
    })
}

#[test]
fn setting_the_mode_needs_permission() -> Result<(), Error> {
    as_user(test_name!(), "turing", no_tenant, || {
        let device = nvml_device()?;
        assert_eq!(set(device, EXCLUSIVE_PROCESS), 4, "NO_PERMISSION");
        assert_eq!(mode(device)?, 0);
        Ok(())
    })
}

#[test]
fn an_mps_server_counts_as_one_process() -> Result<(), crate::mps_support::Error> {
    let machine = crate::mps_support::quiet("hopper")?;
    crate::mps_support::scene(test_name!(), TimeMode::Virtual, &machine, |stage| {
        let put = |mode| stage.device.transact(|state, _| state.compute_mode = mode);
        put(ComputeMode::ExclusiveProcess)?;
        let mut exclusive = stage.clients(&[(&[], "open; hold; close")])?.remove(0);
        assert_eq!(exclusive.until_hold()?, ["0"], "no daemon: a process without MPS");
        let daemon = stage.daemon("", &[])?;
        assert_eq!(stage.play_as(1, "open")?, ["805"], "no server starts");
        assert!(stage.log("control.log")?.contains("compute mode"));
        exclusive.go(stage)?;
        exclusive.finish()?;
        let script = "open; spin 1; hold; close";
        let mut clients = stage.clients(&[(&[], script), (&[], script)])?;
        for client in &mut clients {
            assert_eq!(client.until_hold()?, ["0", "0"]);
        }
        stage.device.expect(2)?;
        let elsewhere = [("CUDA_MPS_PIPE_DIRECTORY", "/nowhere")];
        let outsider = stage.client(2, &elsewhere, "open")?;
        assert_eq!(outsider.finish()?, ["46"], "the server has the device");
        for client in &mut clients {
            client.go(stage)?;
        }
        for client in clients {
            assert_eq!(client.finish()?, ["0"]);
        }
        daemon.command("quit")?;
        daemon.finish()
    })
}
