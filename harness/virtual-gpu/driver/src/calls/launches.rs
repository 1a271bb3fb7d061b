//! Launching kernels, and the attributes of launches.

use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::handles::Handle;
use crate::issue::perform;
use crate::launch;
use crate::launch::shape::Shape;
use crate::operation::{Action, Kernel, WaitPolicy};
use crate::process::Process;

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

/// Queues a kernel in a stream.
pub fn queue(process: &Process, stream: Handle, kernel: Kernel) -> Result<(), Code> {
    let stream = process.stream(stream)?;
    launch::check_residence(process, &kernel.function, &kernel.shape, &stream.placement)?;
    let action = Action::Kernel(Box::new(kernel));
    perform(process, &stream, action, WaitPolicy::Later)
}
