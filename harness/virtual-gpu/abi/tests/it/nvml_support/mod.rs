//! One device per test: the test runs itself again as an observer of a new device, and the observer
//! runs itself again as a tenant. An environment variable has the role.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![expect(unsafe_code, reason = "the interfaces under test are C interfaces")]

pub mod gpm;
pub mod mig;

use std::ffi::c_char;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::EventData;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;

pub(crate) use crate::driver_support::{
    Error, alloc, call, context, function, launch_on, ok, stream,
};
pub use crate::mps_support::eventually;

const ROLE: &str = "NVML_TEST_ROLE";
/// File that the observer leaves in the device's folder: a name of no test would run nothing.
const OBSERVED: &str = "observed";

/// Time limit of the start of a tenant.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Runs a test with the roles `tenant` and `observer`.
pub fn observed(
    test: &str,
    time: TimeMode,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    observed_on(test, &Session::new(time, 1), &machine()?, tenant, observer)
}

/// Like [`observed`], on any machine.
pub fn observed_on(
    test: &str,
    session: &Session,
    machine: &Machine,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    match std::env::var(ROLE).as_deref() {
        Ok("tenant") => return tenant(),
        Ok(_) => {
            std::fs::write(flag(OBSERVED)?, "")?;
            return observer();
        }
        Err(_) => {}
    }
    let dir = tempfile::tempdir()?;
    session.create(dir.path(), machine)?;
    let status = process_in_role(test, "observer")?.env(ENV, dir.path()).status()?;
    if !dir.path().join(OBSERVED).exists() {
        return Err(format!("no test of this program is called {test}").into());
    }
    if status.success() { Ok(()) } else { Err(format!("the observer of {test} failed").into()) }
}

/// Runs the body as the only participant of virtual time.
pub fn in_virtual_time(
    test: &str,
    machine: &Machine,
    body: impl FnOnce(&Device) -> Result<(), Error>,
) -> Result<(), Error> {
    let session = Session::new(TimeMode::Virtual, 1);
    observed_on(test, &session, machine, no_tenant, || {
        let device: Arc<Device> = process::device().map_err(|code| format!("{code:?}"))?;
        device.expect(0)?;
        device.join(0)?;
        body(&device)?;
        device.leave()?;
        Ok(())
    })
}

/// Like [`observed`], on a machine of this name without noise, in wall time, with permission to
/// change settings.
pub fn as_root(
    test: &str,
    machine: &str,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let session = Session::new(TimeMode::Wall, 1);
    observed_on(test, &session, &quiet(machine)?, tenant, observer)
}

/// Like [`as_root`], without permission.
pub fn as_user(
    test: &str,
    machine: &str,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut session = Session::new(TimeMode::Wall, 1);
    session.privileged = false;
    observed_on(test, &session, &quiet(machine)?, tenant, observer)
}

/// The tenant of tests without one.
pub fn no_tenant() -> Result<(), Error> {
    Ok(())
}

/// The machine of most tests, without noise.
pub fn machine() -> Result<Machine, Error> {
    quiet("turing")
}

/// A machine without noise and with instant creation of MIG instances.
pub fn quiet(name: &str) -> Result<Machine, Error> {
    let mut machine = crate::mps_support::quiet(name)?;
    if let Some(mig) = &mut machine.mig {
        mig.instance_ms = 0;
    }
    Ok(machine)
}

/// This program, to run a test in a role.
pub fn process_in_role(test: &str, role: &str) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([crate::filter_of(test), "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    Ok(command)
}

/// The other process of a test, killed when dropped.
pub struct Tenant(Child);

impl Tenant {
    /// Starts it and waits until it is ready.
    pub fn start(test: &str) -> Result<Self, Error> {
        Self::start_with(test, &[])
    }

    /// Like [`Tenant::start`], with more environment.
    pub fn start_with(test: &str, environment: &[(&str, &str)]) -> Result<Self, Error> {
        let _ = std::fs::remove_file(flag("ready")?);
        let mut command = process_in_role(test, "tenant")?;
        command.envs(environment.iter().copied());
        let child = command.stdin(Stdio::piped()).spawn()?;
        let mut tenant = Self(child);
        let began = Instant::now();
        while !flag("ready")?.exists() {
            if began.elapsed() > WAIT_LIMIT || tenant.0.try_wait()?.is_some() {
                return Err("the tenant did not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(tenant)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(mut self) -> Result<(), Error> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Lets it continue from [`wait_for_go`], and waits for its end.
    pub fn finish(mut self) -> Result<(), Error> {
        drop(self.0.stdin.take());
        if self.0.wait()?.success() { Ok(()) } else { Err("the tenant failed".into()) }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn flag(name: &str) -> Result<PathBuf, Error> {
    Ok(PathBuf::from(std::env::var_os(ENV).ok_or("no device")?).join(name))
}

/// Called by the tenant: ends [`Tenant::start`].
pub fn ready() -> Result<(), Error> {
    std::fs::write(flag("ready")?, "")?;
    Ok(())
}

/// Called by the tenant: waits for [`Tenant::finish`].
pub fn wait_for_go() -> Result<(), Error> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The device's handle, in a library that has been initialised for it.
pub fn nvml_device() -> Result<DeviceHandle, Error> {
    let mut handle = null_mut();
    ok!(nvmlInit_v2())?;
    ok!(nvmlDeviceGetHandleByIndex_v2(0, &raw mut handle))?;
    Ok(handle)
}

/// Every getter of one number, with its value on the plain machine.
pub const NUMBERS: &[(Getter<u32>, u32)] = &[
    (nvmlDeviceGetIndex, 0),
    (nvmlDeviceGetNumGpuCores, 40 * 64),
    (nvmlDeviceGetMemoryBusWidth, 256),
    (nvmlDeviceGetComputeMode, 0),
    (nvmlDeviceGetPersistenceMode, 1),
    (nvmlDeviceGetDisplayMode, 0),
    (nvmlDeviceGetDisplayActive, 0),
    (nvmlDeviceGetVirtualizationMode, 0),
    (nvmlDeviceIsMigDeviceHandle, 0),
    (nvmlDeviceGetMaxMigDeviceCount, 0),
    (nvmlDeviceGetPerformanceState, 0),
    (nvmlDeviceGetPowerManagementLimit, 70_000),
    (nvmlDeviceGetEnforcedPowerLimit, 70_000),
    (nvmlDeviceGetMaxPcieLinkGeneration, 3),
    (nvmlDeviceGetCurrPcieLinkGeneration, 3),
    (nvmlDeviceGetMaxPcieLinkWidth, 16),
    (nvmlDeviceGetCurrPcieLinkWidth, 16),
];

pub type Getter<T> = unsafe extern "C" fn(DeviceHandle, *mut T) -> i32;

pub fn figure<T: Default>(getter: Getter<T>, device: DeviceHandle) -> Result<T, Error> {
    let mut found = T::default();
    // SAFETY: a valid pointer.
    ok(unsafe { getter(device, &raw mut found) })?;
    Ok(found)
}

/// A set that is registered for these events.
pub fn events_of(device: DeviceHandle, types: u64) -> Result<Handle, Error> {
    let mut set: Handle = null_mut();
    ok!(nvmlEventSetCreate(&raw mut set))?;
    ok!(nvmlDeviceRegisterEvents(device, types, set))?;
    Ok(set)
}

/// The set's next event, or the code.
pub fn next_event(set: Handle, timeout_ms: u32) -> Result<EventData, i32> {
    let nothing = EventData {
        device: null_mut(),
        event_type: 0,
        event_data: 0,
        gpu_instance_id: 0,
        compute_instance_id: 0,
    };
    mig::out(nothing, |to| call!(nvmlEventSetWait_v2(set, to, timeout_ms)))
}

/// The text that a call writes into a buffer of `room` bytes.
pub fn text(room: u32, call: impl FnOnce(*mut c_char, u32) -> i32) -> Result<String, Error> {
    let mut buffer = vec![0x55u8; room as usize];
    ok(call(buffer.as_mut_ptr().cast(), room))?;
    let end = buffer.iter().position(|byte| *byte == 0).ok_or("no end of text")?;
    Ok(String::from_utf8(buffer[..end].to_vec())?)
}

pub fn launch(function: Handle, grid: u32, block: u32, args: &mut [u64]) -> Result<(), Error> {
    ok(crate::driver_support::launch(function, grid, block, args))
}
