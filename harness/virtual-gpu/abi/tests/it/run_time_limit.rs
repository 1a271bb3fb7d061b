//! The run-time limit for kernels: the sticky code, the Xid and its log line, and the device
//! attribute. Built-in machines have no limit.

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::FieldValue;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_model::machine::{BUILT_IN, Machine};

use crate::driver_support::call;
use crate::nvml_support::mig::out;
use crate::nvml_support::{
    Error, alloc, context, events_of, function, in_virtual_time, launch, next_event, nvml_device,
    ok, quiet,
};

const HANG: &str = Kernel::FaultHang.info().ptx;
const COPY: &str = Kernel::StreamCopy.info().ptx;
const MS: u64 = 1_000_000;
const LIMIT_MS: u64 = 5;
const LATE: i32 = 702;

/// Launches a kernel that spins for `budget_ns`; returns the code of the wait and its end.
fn spin(device: &Device, budget_ns: u64) -> Result<(i32, u64), Error> {
    let (flag, stamps) = (alloc(4)?, alloc(16)?);
    let hang = function(HANG, "fault_hang")?;
    let began_ns = device.now_ns();
    launch(hang, 1, 1, &mut [flag, budget_ns, stamps])?;
    let code = call!(cuCtxSynchronize());
    Ok((code, device.now_ns() - began_ns))
}

fn exec_timeout() -> Result<i32, Error> {
    let mut found = 9;
    // 17 is CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT.
    ok!(cuDeviceGetAttribute(&raw mut found, 17, 0))?;
    Ok(found)
}

#[test]
fn a_kernel_beyond_the_limit_ends_with_its_context() -> Result<(), Error> {
    let mut machine = quiet("hopper")?;
    machine.circumstances.kernel_run_time_limit_ms = LIMIT_MS;
    in_virtual_time(test_name!(), &machine, |device| {
        let handle = nvml_device()?;
        let set = events_of(handle, 8)?;
        let neighbour = context()?;
        assert_eq!(exec_timeout()?, 1);
        let (code, lasted_ns) = spin(device, (LIMIT_MS - 1) * MS)?;
        assert_eq!(code, 0, "shorter than the limit");
        assert!(lasted_ns < LIMIT_MS * MS, "{lasted_ns}");

        let doomed = context()?;
        let (code, lasted_ns) = spin(device, 2 * LIMIT_MS * MS)?;
        assert_eq!(code, LATE);
        let over_ns = lasted_ns.saturating_sub(LIMIT_MS * MS);
        assert!(lasted_ns >= LIMIT_MS * MS && over_ns < MS, "{lasted_ns}");
        let mut pointer = 0;
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 16)), LATE, "it is sticky");
        assert_eq!(call!(cuCtxSynchronize()), LATE);
        let _ = call!(cuCtxDestroy_v2(doomed));
        ok!(cuCtxSetCurrent(neighbour))?;
        ok!(cuCtxSynchronize())?;
        let event = next_event(set, 0);
        assert_eq!(event.map(|event| event.event_data), Ok(8));
        let field = FieldValue { field_id: 230, ..FieldValue::default() };
        let action = out(field, |to| call!(nvmlDeviceGetFieldValues(handle, 1, to)));
        assert_eq!(action.map(|field| (field.result, field.value)), Ok((0, 0)));
        assert_eq!(spin(device, MS)?.0, 0, "the neighbour continues");
        let log = std::fs::read_to_string(kernel_log::path(device.dir()))?;
        let text = "GPU stopped processing: the launch timed out and was terminated\n";
        let own = format!("): 8, pid={}, name=", std::process::id());
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains(&own) && log.ends_with(text), "{log}");
        Ok(())
    })
}

#[test]
fn copies_and_queued_kernels_do_not_count() -> Result<(), Error> {
    let mut machine = quiet("hopper")?;
    machine.circumstances.kernel_run_time_limit_ms = LIMIT_MS;
    machine.pcie.to_device_gb_per_s = 0.01;
    in_virtual_time(test_name!(), &machine, |device| {
        context()?;
        let bytes = 1usize << 20;
        let (from, to) = (alloc(bytes)?, alloc(bytes)?);
        let host = vec![7u8; bytes];
        let began_ns = device.now_ns();
        ok!(cuMemcpyHtoD_v2(from, host.as_ptr().cast(), bytes))?;
        let copied_ns = device.now_ns() - began_ns;
        assert!(copied_ns > 4 * LIMIT_MS * MS, "{copied_ns}");
        // At least four microseconds each.
        let copy = function(COPY, "stream_copy")?;
        let began_ns = device.now_ns();
        for _ in 0..8_000 {
            launch(copy, 1, 256, &mut [to, from, bytes as u64 / 16])?;
        }
        ok!(cuCtxSynchronize())?;
        let queued_ns = device.now_ns() - began_ns;
        assert!(queued_ns > 2 * LIMIT_MS * MS, "{queued_ns}");
        Ok(())
    })
}

#[test]
fn built_in_machines_have_no_limit_and_invalid_ones_are_refused() -> Result<(), Error> {
    for (name, _) in BUILT_IN {
        let limit_ms = Machine::load(name)?.circumstances.kernel_run_time_limit_ms;
        assert_eq!(limit_ms, 0, "{name}");
    }
    let text = gpubench_profiles::TURING.to_owned();
    let text = text + "\n[circumstances]\nkernel_run_time_limit_ms = 3600001\n";
    let error = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
    let want = "circumstances.kernel_run_time_limit_ms is 3600001, accepted is 0 to 3600000";
    assert!(error.as_ref().is_some_and(|error| error.contains(want)), "{error:?}");
    in_virtual_time(test_name!(), &quiet("hopper")?, |device| {
        context()?;
        assert_eq!(exec_timeout()?, 0);
        assert_eq!(spin(device, 2 * LIMIT_MS * MS)?.0, 0);
        Ok(())
    })
}
