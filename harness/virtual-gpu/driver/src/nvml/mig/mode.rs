//! MIG mode: on, off, or pending.

use crate::device::Device;
use crate::nvml::Error;
use crate::nvml::events::WaitPolicy;
use crate::nvml::library::{catch_up_with_the_living, privileged};
use gpubench_virtual_gpu_model::machine::Mig;
use gpubench_virtual_gpu_model::mig;

pub use gpubench_virtual_gpu_model::mig::Activation;

/// Whether the mode is on, and whether it will be after a reset.
pub fn modes(device: &Device) -> Result<(bool, bool), Error> {
    supported(device)?;
    let mode = device.shared().read(|state| state.mig)?;
    Ok((mode.current, mode.pending))
}

/// Requests the mode, and says whether it took effect.
pub fn request(device: &Device, on: bool) -> Result<Activation, Error> {
    supported(device)?;
    privileged(device)?;
    catch_up_with_the_living(device)?;
    let machine = device.machine();
    Ok(device.transact(|state, _| mig::request_mode(state, machine, on))?)
}

/// The largest number of MIG devices that there can be now.
pub fn max_devices(device: &Device) -> Result<u32, Error> {
    let on = is_divided(device)?;
    let slices = device.machine().mig.as_ref().map_or(0, |mig| mig.slices);
    Ok(if on { slices } else { 0 })
}

pub(in crate::nvml) fn is_divided(device: &Device) -> Result<bool, Error> {
    Ok(device.shared().read(|state| state.mig.current)?)
}

/// Refuses while the mode is on.
pub(in crate::nvml) fn check_undivided(device: &Device) -> Result<(), Error> {
    if is_divided(device)? { Err(Error::NotSupported) } else { Ok(()) }
}

/// What the machine says about MIG.
pub(super) fn supported(device: &Device) -> Result<&Mig, Error> {
    device.machine().mig.as_ref().ok_or(Error::NotSupported)
}

/// As [`supported`], while the mode is on.
pub(super) fn enabled(device: &Device) -> Result<&Mig, Error> {
    let mig = supported(device)?;
    if is_divided(device)? { Ok(mig) } else { Err(Error::NotSupported) }
}

/// Makes the caller wait as long as the machine needs to create or destroy an instance, unless the
/// caller is a thread outside of virtual time.
pub(super) fn take_time(device: &Device) -> Result<(), Error> {
    let policy = WaitPolicy::of(device)?;
    if policy == WaitPolicy::Beside {
        return Ok(());
    }
    let instance_ns = supported(device)?.instance_ms * 1_000_000;
    policy.sleep_until(device, policy.now_ns(device) + instance_ns)
}
