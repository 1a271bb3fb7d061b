//! Calls that launch kernels, and what kernels are launched by.

use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::entries::{FunctionEntry, KernelSettings};
use crate::execute::perform;
use crate::handles::Handle;
use crate::launch;
pub use crate::launch::kernel_of;
use crate::launch::request::Shape;
use crate::operation::{Action, Kernel, WaitPolicy};
use crate::process::Process;
use gpubench_virtual_gpu_ptx as ptx;

/// What a launch attribute means here (`CUlaunchAttributeID`, cuda.h).
enum Meaning {
    /// A hint, or a permission that need not be used.
    Hint,
    /// All blocks at the same time.
    Cooperative,
    /// Blocks in clusters of this shape.
    Cluster,
    /// Something that the launch would be wrong without.
    Missing,
    /// No attribute.
    Unknown,
}

/// The meaning of an attribute by its number.
fn meaning(attribute: c_int) -> Meaning {
    match attribute {
        // Ignore, access policy, synchronization policy, cluster scheduling, early start,
        // priority, memory domains, preferred cluster, carve-out, link-centric scheduling.
        0 | 1 | 3 | 5 | 6 | 8..=11 | 14 | 16 => Meaning::Hint,
        2 => Meaning::Cooperative,
        4 => Meaning::Cluster,
        // Events that a launch triggers, nodes that the device updates, further shared memory.
        7 | 12 | 13 | 15 | 17 | 18 => Meaning::Missing,
        _ => Meaning::Unknown,
    }
}

/// Gives a shape what an attribute says.
pub fn apply(shape: &mut Shape, id: c_int, value: &[c_uint; 16]) -> Result<(), Code> {
    match meaning(id) {
        Meaning::Hint => {}
        Meaning::Cooperative => shape.cooperative = value[0] != 0,
        Meaning::Cluster if value[..3] == [1, 1, 1] => {}
        Meaning::Cluster | Meaning::Missing => return Err(code::NOT_SUPPORTED),
        Meaning::Unknown => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

pub fn queue(process: &Process, stream: Handle, kernel: Kernel) -> Result<(), Code> {
    let stream = process.stream(stream)?;
    launch::check_residence(process, &kernel.function, &kernel.shape, &stream.placement)?;
    let action = Action::Kernel(Box::new(kernel));
    perform(process, &stream, action, WaitPolicy::Later)
}

/// An attribute of a kernel, by its number in `CUfunction_attribute` (cuda.h).
pub fn attribute_of(
    process: &Process,
    function: &FunctionEntry,
    attribute: c_int,
) -> Result<c_int, Code> {
    let kernel = kernel_of(function)?;
    let gpu = &process.device.machine().gpu;
    let (major, minor) = process.device.machine().compute_capability();
    let declared = kernel.max_threads.or(kernel.required_threads);
    let threads = declared.map_or(gpu.max_threads_per_block, |sides| sides.iter().product());
    // Of `.target sm_70`, the 70.
    let target = function.program.module().target.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = target.chars().take_while(char::is_ascii_digit);
    let found = match attribute {
        0 => threads,
        1 => kernel.static_shared_bytes,
        CARVE_OUT => return Ok(function.settings.carve_out.map_or(-1, |part| part as c_int)),
        2 | 7 | 10..=14 => 0,
        3 => kernel.local_bytes,
        4 => kernel.registers,
        5 => digits.collect::<String>().parse().unwrap_or(major * 10 + minor),
        6 => major * 10 + minor,
        DYNAMIC_SHARED => function.dynamic_shared(gpu),
        _ => return Err(code::INVALID_VALUE),
    };
    c_int::try_from(found).map_err(|_| code::INVALID_VALUE)
}

/// Sets an attribute of a kernel, of which only dynamic shared memory has an effect.
pub fn set(
    process: &Process,
    settings: &mut KernelSettings,
    attribute: c_int,
    value: c_int,
) -> Result<(), Code> {
    let most = process.device.machine().shared_opt_in_bytes();
    match (attribute, u32::try_from(value)) {
        (DYNAMIC_SHARED, Ok(bytes)) if bytes <= most => settings.dynamic_shared = bytes,
        (CARVE_OUT, part) if (-1..=100).contains(&value) => settings.carve_out = part.ok(),
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` and `_PREFERRED_SHARED_MEMORY_CARVEOUT`.
const DYNAMIC_SHARED: c_int = 8;

const CARVE_OUT: c_int = 9;

/// Blocks of a kernel on one SM.
pub fn fitting(process: &Process, kernel: &ptx::Kernel, threads: u32, shared_bytes: usize) -> u32 {
    let shared = u64::from(kernel.static_shared_bytes).saturating_add(shared_bytes as u64);
    launch::blocks_per_sm(process.device.machine(), kernel, threads, shared)
}
