//! The device and its attributes.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_char, c_int};

use super::attributes::attribute_of;
use super::global::entries;
use crate::process::{Process, process};
use crate::{put, put_text};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::cost::Part;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS;
use gpubench_virtual_gpu_driver::placement;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::WHOLE;

/// The only device, as a `CUdevice`.
const DEVICE: c_int = 0;

/// Answers only for the device there is.
fn known(device: c_int) -> Result<&'static Process, Code> {
    let process = process()?;
    drop(process.ready()?);
    if device == DEVICE && placement::seen(&process.device).is_ok() {
        Ok(process)
    } else {
        Err(code::INVALID_DEVICE)
    }
}

/// The device as the process sees it: the part that it may use, its memory, and its UUID.
fn shown(process: &Process) -> Result<Shown, Code> {
    let machine = process.device.machine();
    let context = placement::seen(&process.device)?;
    let shown = process.device.shared().read(|state| {
        let engine = &state.engines.rows[context.engine as usize];
        let instance = &state.instances.rows[engine.instance as usize];
        let divided = context.engine != WHOLE;
        Shown {
            part: placement::part(state, &context),
            bytes: memory::within_limits(state, machine, &context, instance.memory_bytes),
            uuid: if divided {
                mig::uuid(state, machine, context.engine)
            } else {
                machine.uuid()
            },
            name: match (&machine.mig, divided) {
                (Some(mig), true) => {
                    let profile = &mig.profile[instance.profile as usize].name;
                    format!("{} MIG {profile}", machine.gpu.product)
                }
                _ => machine.gpu.product.clone(),
            },
        }
    });
    Ok(shown.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)?)
}

/// See [`shown`].
struct Shown {
    part: Part,
    bytes: u64,
    uuid: String,
    name: String,
}

entries! {
    fn cuDeviceGetCount(count: *mut c_int) {
        let process = process()?;
        drop(process.ready()?);
        let seen = placement::seen(&process.device);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, c_int::from(seen.is_ok())) }
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        known(ordinal)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(device, DEVICE) }
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        let product = shown(known(device)?)?.name;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: the caller's buffer of that length.
        unsafe { put_text(name, length, &product) }
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        let bytes = uuid_bytes(&shown(known(device)?)?.uuid);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(uuid, bytes) }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let bytes = uuid_bytes(&shown(known(device)?)?.uuid);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(uuid, bytes) }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let usable = shown(known(device)?)?.bytes;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(bytes, usable as usize) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let process = known(device)?;
        let machine = process.device.machine();
        let found = match attribute {
            MULTIPROCESSOR_COUNT => c_int::try_from(shown(process)?.part.sm_count).ok(),
            COMPUTE_MODE => Some(compute_mode(process)? as c_int),
            L2_CACHE_SIZE => c_int::try_from(shown(process)?.part.l2_bytes).ok(),
            _ => attribute_of(machine, attribute),
        };
        let found = found.ok_or(code::INVALID_VALUE)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(value, found) }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) {
        let (x, y) = known(device)?.device.machine().compute_capability();
        // SAFETY: the caller's places, checked for null.
        unsafe {
            put(major, x as c_int)?;
            put(minor, y as c_int)
        }
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        known(device)?;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: the caller's buffer of that length.
        unsafe { put_text(id, length, &format!("0000:{PCI_BUS:02x}:00.0")) }
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        known(device)?;
        known(peer)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(can, 0) }
    }
}

/// Who may have a context.
fn compute_mode(process: &Process) -> Result<ComputeMode, Code> {
    let mode = process.device.shared().read(|state| state.compute_mode);
    Ok(mode.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)?)
}

/// `CUdevice_attribute` (cuda.h) of what depends on settings or on the part that the process sees.
const MULTIPROCESSOR_COUNT: c_int = 16;
const COMPUTE_MODE: c_int = 20;
const L2_CACHE_SIZE: c_int = 38;

fn uuid_bytes(uuid: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let digits: Vec<u8> = uuid.bytes().skip(4).filter(|b| *b != b'-').collect();
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
        *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
    }
    out
}
