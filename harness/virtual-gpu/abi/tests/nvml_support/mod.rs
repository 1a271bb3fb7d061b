//! One device a test: the test runs itself again as an observer of a fresh device, and the
//! observer runs itself again as a tenant. Parts are told apart by an environment variable.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![expect(unsafe_code, reason = "the interfaces under test are C interfaces")]

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
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};

#[path = "../driver_support/mod.rs"]
mod driver_support;

#[allow(unused_imports, reason = "each test binary uses its own part")]
pub use driver_support::{Error, alloc, context, function, launch_on, ok, stream};

const PART: &str = "NVML_TEST_PART";

/// How long anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test whose tenant, if it has one, is `tenant`; the observer's body is `observer`.
pub fn observed(
    test: &str,
    time: TimeMode,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    observed_on(test, &Session::new(time, 1), &machine()?, tenant, observer)
}

/// As [`observed`], on any machine.
pub fn observed_on(
    test: &str,
    session: &Session,
    machine: &Machine,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    match std::env::var(PART).as_deref() {
        Ok("tenant") => return tenant(),
        Ok(_) => return observer(),
        Err(_) => {}
    }
    let dir = tempfile::tempdir()?;
    session.create(dir.path(), machine)?;
    let status = part(test, "observer")?.env(ENV, dir.path()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the observer of {test} failed").into())
    }
}

/// Runs the body as the only participant of virtual time.
pub fn alone(
    test: &str,
    machine: &Machine,
    body: impl FnOnce(&Device) -> Result<(), Error>,
) -> Result<(), Error> {
    let session = Session::new(TimeMode::Virtual, 1);
    observed_on(test, &session, machine, nobody, || {
        let device: Arc<Device> = process::device().map_err(|code| format!("{code:?}"))?;
        device.expect(0)?;
        device.join(0)?;
        body(&device)?;
        device.leave()?;
        Ok(())
    })
}

/// As [`observed`], on a machine of this name without noise, in wall time, where programs may
/// change the device's settings.
pub fn as_root(
    test: &str,
    machine: &str,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let session = Session::new(TimeMode::Wall, 1);
    observed_on(test, &session, &quiet(machine)?, tenant, observer)
}

/// As [`as_root`], where they may not.
pub fn as_user(
    test: &str,
    machine: &str,
    tenant: impl FnOnce() -> Result<(), Error>,
    observer: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let session = Session {
        privileged: false,
        ..Session::new(TimeMode::Wall, 1)
    };
    observed_on(test, &session, &quiet(machine)?, tenant, observer)
}

/// The tenant of tests that have none.
pub fn nobody() -> Result<(), Error> {
    Ok(())
}

/// The machine of most tests: the plain one without noise.
pub fn machine() -> Result<Machine, Error> {
    quiet("turing")
}

/// A machine without noise, which makes MIG instances in no time.
pub fn quiet(name: &str) -> Result<Machine, Error> {
    let mut machine = Machine::load(name)?;
    if let Some(mig) = &mut machine.mig {
        mig.instance_ms = 0;
    }
    machine.noise = Noise::default();
    Ok(machine)
}

fn part(test: &str, part: &str) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, part);
    Ok(command)
}

/// The other process of a test. It dies with the observer's interest in it.
pub struct Tenant(Child);

impl Tenant {
    /// Starts it and waits until it says that it is ready.
    pub fn start(test: &str) -> Result<Self, Error> {
        Self::start_with(test, &[])
    }

    /// As [`Tenant::start`], with more in its environment.
    pub fn start_with(test: &str, environment: &[(&str, &str)]) -> Result<Self, Error> {
        let _ = std::fs::remove_file(flag("ready")?);
        let mut command = part(test, "tenant")?;
        command.envs(environment.iter().copied());
        let child = command.stdin(Stdio::piped()).spawn()?;
        let mut tenant = Self(child);
        let began = Instant::now();
        while !flag("ready")?.exists() {
            if began.elapsed() > PATIENCE || tenant.0.try_wait()?.is_some() {
                return Err("the tenant did not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(tenant)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it and takes its status, so that it is gone for good.
    pub fn kill(mut self) -> Result<(), Error> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Lets it go on from its [`told_to_go_on`], to its end.
    pub fn finish(mut self) -> Result<(), Error> {
        drop(self.0.stdin.take());
        if self.0.wait()?.success() {
            Ok(())
        } else {
            Err("the tenant failed".into())
        }
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

/// The tenant's side of [`Tenant::start`].
pub fn ready() -> Result<(), Error> {
    std::fs::write(flag("ready")?, "")?;
    Ok(())
}

/// Waits for [`Tenant::finish`].
pub fn told_to_go_on() -> Result<(), Error> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The device's handle, in a library that has been initialised for it.
pub fn nvml_device() -> Result<DeviceHandle, Error> {
    let mut handle = null_mut();
    // SAFETY: a valid place.
    unsafe {
        ok(nvmlInit_v2())?;
        ok(nvmlDeviceGetHandleByIndex_v2(0, &raw mut handle))?;
    }
    Ok(handle)
}

/// Every getter of one whole number, with what the plain machine answers.
pub const NUMBERS: &[(Getter<u32>, u32)] = &[
    (nvmlDeviceGetIndex, 0),
    (nvmlDeviceGetMinorNumber, 0),
    (nvmlDeviceGetBoardId, 0x100),
    (nvmlDeviceGetMultiGpuBoard, 0),
    (nvmlDeviceGetBrand, 0),
    (nvmlDeviceGetArchitecture, 6),
    (nvmlDeviceGetNumGpuCores, 40 * 64),
    (nvmlDeviceGetMemoryBusWidth, 256),
    (nvmlDeviceGetBusType, 2),
    (nvmlDeviceGetComputeMode, 0),
    (nvmlDeviceGetPersistenceMode, 1),
    (nvmlDeviceGetDisplayMode, 0),
    (nvmlDeviceGetDisplayActive, 0),
    (nvmlDeviceGetVirtualizationMode, 0),
    (nvmlDeviceIsMigDeviceHandle, 0),
    (nvmlDeviceGetMaxMigDeviceCount, 0),
    (nvmlDeviceGetPerformanceState, 0),
    (nvmlDeviceGetPowerState, 0),
    (nvmlDeviceGetPowerManagementMode, 1),
    (nvmlDeviceGetPowerManagementLimit, 70_000),
    (nvmlDeviceGetPowerManagementDefaultLimit, 70_000),
    (nvmlDeviceGetEnforcedPowerLimit, 70_000),
    (nvmlDeviceGetPowerSource, 0),
    (nvmlDeviceGetMaxPcieLinkGeneration, 3),
    (nvmlDeviceGetGpuMaxPcieLinkGeneration, 3),
    (nvmlDeviceGetCurrPcieLinkGeneration, 3),
    (nvmlDeviceGetMaxPcieLinkWidth, 16),
    (nvmlDeviceGetCurrPcieLinkWidth, 16),
    (nvmlDeviceGetPcieSpeed, 8_000),
];

/// A getter of one figure.
pub type Getter<T> = unsafe extern "C" fn(DeviceHandle, *mut T) -> i32;

/// One figure.
pub fn figure<T: Default>(getter: Getter<T>, device: DeviceHandle) -> Result<T, Error> {
    let mut found = T::default();
    // SAFETY: a valid place.
    ok(unsafe { getter(device, &raw mut found) })?;
    Ok(found)
}

/// The text that a call writes into a buffer of `room` bytes.
pub fn text(room: u32, call: impl FnOnce(*mut c_char, u32) -> i32) -> Result<String, Error> {
    let mut buffer = vec![0x55u8; room as usize];
    ok(call(buffer.as_mut_ptr().cast(), room))?;
    let end = buffer
        .iter()
        .position(|byte| *byte == 0)
        .ok_or("no end of text")?;
    Ok(String::from_utf8(buffer[..end].to_vec())?)
}

/// As the driver's own, with what went wrong.
pub fn launch(function: Handle, grid: u32, block: u32, args: &mut [u64]) -> Result<(), Error> {
    ok(driver_support::launch(function, grid, block, args))
}

/// Runs the closure until it holds, and fails when it does not within the patience of a test.
pub fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    let began = Instant::now();
    while !holds()? {
        if began.elapsed() > PATIENCE {
            return Err(format!("never happened: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
