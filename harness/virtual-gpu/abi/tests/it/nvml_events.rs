//! NVML events: Xids from registration on, once per set, in wall and virtual time.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::NO_INSTANCES;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process;
use gpubench_virtual_gpu_driver::session::TimeMode;

use crate::driver_support::call;
use crate::nvml_support::{
    Error, Tenant, context, events_of, function, launch, next_event, no_tenant, nvml_device,
    observed, ok, ready, wait_for_go,
};

const STORE: &str = Kernel::FaultIllegalStore.info().ptx;
const TRAP: &str = Kernel::FaultTrap.info().ptx;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const TIMEOUT: i32 = 10;
const XID: u64 = 8;

/// Fails a new context; returns the code of the synchronisation.
fn fault(text: &str, name: &str, args: &mut [u64]) -> Result<i32, Error> {
    let context = context()?;
    let kernel = function(text, name)?;
    launch(kernel, 1, 1, args)?;
    let code = call!(cuCtxSynchronize());
    call!(cuCtxDestroy_v2(context));
    Ok(code)
}

#[test]
fn xids_reach_every_set_registered_before() -> Result<(), Error> {
    let test = test_name!();
    let tenant = || {
        assert_eq!(fault(STORE, "fault_illegal_store", &mut [16, 1])?, 700);
        ready()?;
        wait_for_go()?;
        assert_eq!(fault(TRAP, "fault_trap", &mut [1, 16])?, 719);
        Ok(())
    };
    observed(test, TimeMode::Wall, tenant, || {
        let device = nvml_device()?;
        let early = events_of(device, XID)?;
        let deaf = events_of(device, 0)?;
        let tenant = Tenant::start(test)?;
        let late = events_of(device, XID)?;
        let first = next_event(early, 5_000).map_err(|code| format!("code {code}"))?;
        assert_eq!((first.event_type, first.event_data), (XID, 31));
        assert_eq!((first.device, first.gpu_instance_id), (device, NO_INSTANCES.0));
        let began = Instant::now();
        assert_eq!(next_event(early, 60).err(), Some(TIMEOUT), "each event comes once");
        assert!(began.elapsed() >= Duration::from_millis(60));
        assert_eq!(next_event(late, 0).err(), Some(TIMEOUT), "events before registration are lost");
        assert_eq!(next_event(deaf, 0).err(), Some(TIMEOUT), "nothing was registered");
        tenant.finish()?;
        // A second registration must keep pending events.
        ok!(nvmlDeviceRegisterEvents(device, XID, late))?;
        for set in [early, late] {
            let second = next_event(set, 5_000).map_err(|code| format!("code {code}"))?;
            assert_eq!(second.event_data, 13);
            assert_eq!(next_event(set, 0).err(), Some(TIMEOUT));
        }
        wrong_sets_and_types_are_refused(device, early)
    })
}

fn wrong_sets_and_types_are_refused(device: DeviceHandle, set: Handle) -> Result<(), Error> {
    // SAFETY: wrong handles and null pointers are under test.
    unsafe {
        let register = nvmlDeviceRegisterEvents;
        assert_eq!(nvmlEventSetCreate(null_mut()), INVALID_ARGUMENT);
        assert_eq!(register(device, 1 << 40, set), INVALID_ARGUMENT);
        assert_eq!(register(device, XID | 2, set), NOT_SUPPORTED);
        assert_eq!(register(null_mut(), XID, set), INVALID_ARGUMENT);
        assert_eq!(register(device, XID, null_mut()), INVALID_ARGUMENT);
        assert_eq!(nvmlEventSetWait_v2(set, null_mut(), 0), INVALID_ARGUMENT);
        ok(nvmlEventSetFree(set))?;
        assert_eq!(nvmlEventSetFree(set), INVALID_ARGUMENT);
        assert_eq!(next_event(set, 0).err(), Some(INVALID_ARGUMENT));
    }
    Ok(())
}

#[test]
fn a_waiter_in_virtual_time_gets_the_xid_at_its_instant() -> Result<(), Error> {
    observed(test_name!(), TimeMode::Virtual, no_tenant, || {
        let device = process::device().map_err(|code| format!("{code:?}"))?;
        device.expect(0)?;
        device.expect(1)?;
        let tenant = Arc::clone(&device);
        let thread = std::thread::spawn(move || -> Result<u64, Error> {
            tenant.join(1)?;
            tenant.sleep_until(200_000_000)?;
            assert_eq!(fault(STORE, "fault_illegal_store", &mut [16, 1])?, 700);
            let fault_ns = tenant.now_ns();
            tenant.leave()?;
            Ok(fault_ns)
        });
        device.join(0)?;
        let handle = nvml_device()?;
        let set = events_of(handle, XID)?;
        let began = device.now_ns();
        let nothing = next_event(set, 100);
        let waited_ns = device.now_ns() - began;
        let event = next_event(set, 60_000).map_err(|code| format!("code {code}"))?;
        let (seen_ns, mut kib) = (device.now_ns(), 1);
        ok!(nvmlDeviceGetPcieThroughput(handle, 0, &raw mut kib))?;
        let window_ns = device.now_ns() - seen_ns;
        device.leave()?;
        let raised_ns = thread.join().map_err(|_| "the tenant panicked")??;
        assert_eq!(nothing.err(), Some(TIMEOUT));
        assert!((100_000_000..100_010_000).contains(&waited_ns), "{waited_ns}");
        assert_eq!(event.event_data, 31);
        // The waiter polls every millisecond; the tenant's call took some time to return.
        assert!(seen_ns.abs_diff(raised_ns) <= 1_000_000, "{seen_ns} against {raised_ns}");
        assert!((20_000_000..20_010_000).contains(&window_ns), "{window_ns}");
        assert_eq!(kib, 0);
        Ok(())
    })
}
