//! The kernel of a function.

use crate::code::{self, Code};
use crate::entries::FunctionEntry;
use gpubench_virtual_gpu_ptx as ptx;

pub fn kernel_of(function: &FunctionEntry) -> Result<&ptx::Kernel, Code> {
    function.program.module().kernel(&function.name).ok_or(code::NOT_FOUND)
}
