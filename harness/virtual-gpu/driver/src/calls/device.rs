//! The device as the process sees it.

use std::ffi::c_int;

use crate::code::{self, Code};
use crate::cost::Part;
use crate::placement;
use crate::process::{Process, process};
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::state::WHOLE;
use gpubench_virtual_gpu_model::{memory, mig};

/// The only device, as a `CUdevice`.
pub const DEVICE: c_int = 0;

/// Refuses every ordinal but that of the visible device.
pub fn known(device: c_int) -> Result<&'static Process, Code> {
    let process = process()?;
    drop(process.ready()?);
    if device == DEVICE && placement::visible_context(&process.device).is_ok() {
        Ok(process)
    } else {
        Err(code::INVALID_DEVICE)
    }
}

/// The device as the process sees it: the part that it may use, its memory, and its UUID.
pub fn shown(process: &Process) -> Result<Shown, Code> {
    let machine = process.device.machine();
    let context = placement::visible_context(&process.device)?;
    let shown = process.device.shared().read(|state| {
        let engine = &state.engines.rows[context.engine as usize];
        let instance = &state.instances.rows[engine.instance as usize];
        let divided = context.engine != WHOLE;
        Shown {
            part: placement::part(state, &context),
            bytes: memory::within_limits(state, machine, &context, instance.memory_bytes),
            uuid: if divided { mig::uuid(state, machine, context.engine) } else { machine.uuid() },
            name: match (&machine.mig, divided) {
                (Some(mig), true) => {
                    let profile = &mig.profile[instance.profile as usize].name;
                    format!("{} MIG {profile}", machine.gpu.product)
                }
                _ => machine.gpu.product.clone(),
            },
        }
    });
    Ok(shown?)
}

/// The device as the process sees it.
pub struct Shown {
    /// The SMs and caches that the process may use.
    pub part: Part,
    pub bytes: u64,
    pub uuid: String,
    pub name: String,
}

/// Who may have a context.
pub fn compute_mode(process: &Process) -> Result<ComputeMode, Code> {
    let mode = process.device.shared().read(|state| state.compute_mode);
    Ok(mode?)
}

/// `CUdevice_attribute` (cuda.h) of what depends on settings or on the part that the process sees.
pub const MULTIPROCESSOR_COUNT: c_int = 16;

/// The mode that admits contexts.
pub const COMPUTE_MODE: c_int = 20;

/// Bytes of L2.
pub const L2_CACHE_SIZE: c_int = 38;

/// The bytes of a UUID that is written in hexadecimal digits.
pub fn uuid_bytes(uuid: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let digits: Vec<u8> = uuid.bytes().skip(4).filter(|b| *b != b'-').collect();
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
        *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
    }
    out
}
