//! Faults of kernels: the error code that the program gets, and the Xid in the log.

use std::io::Write;

use super::outcome::Fault;
use crate::code::{self, Code};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_ptx::{Counts, FaultKind, KernelFault};

/// The error code and the Xid of a fault, and the counts until then. Pairs follow the vendor's
/// documents (XID catalogue, cuda.h); the Xid of traps and stack overflows is an inference.
pub(crate) fn classify(fault: KernelFault) -> Result<(Fault, Counts), Code> {
    let (code, xid) = match &fault.kind {
        FaultKind::BadLaunch(what) => {
            crate::diagnostics::say(&format!("launch refused: {what}"));
            return Err(code::INVALID_VALUE);
        }
        FaultKind::IllegalAddress { .. } => (code::ILLEGAL_ADDRESS, 31),
        FaultKind::Misaligned { .. } => (code::MISALIGNED_ADDRESS, 13),
        FaultKind::InvalidAddressSpace { .. } => (code::INVALID_ADDRESS_SPACE, 13),
        FaultKind::SharedOutOfRange { .. } | FaultKind::Trap | FaultKind::Breakpoint => {
            (code::LAUNCH_FAILED, 13)
        }
        FaultKind::Assert { .. } => (code::ASSERT, 0),
        FaultKind::StackOverflow { .. } => (code::HARDWARE_STACK_ERROR, 13),
        FaultKind::InvalidPc { .. } => (code::INVALID_PC, 13),
        FaultKind::IllegalInstruction { .. } => (code::ILLEGAL_INSTRUCTION, 13),
        FaultKind::LaunchTimeout { .. } | FaultKind::Deadlock => (code::LAUNCH_TIMEOUT, 0),
    };
    if let FaultKind::Assert { .. } = &fault.kind {
        // The runtime prints a failed assertion on the program's error stream.
        crate::diagnostics::say(&fault.to_string());
    }
    print(&fault.printed);
    Ok((Fault { code, xid }, fault.counts))
}

/// The illegal instruction of launches with more threads than the machine file allows. PTX cannot
/// contain one.
pub fn planted(machine: &Machine, grid: [u32; 3], block: [u32; 3]) -> Option<Fault> {
    let limit = u64::from(machine.defects.illegal_instruction_threads);
    let threads: u64 = grid
        .iter()
        .chain(&block)
        .map(|&side| u64::from(side))
        .product();
    (limit > 0 && threads > limit).then_some(Fault {
        code: code::ILLEGAL_INSTRUCTION,
        xid: 13,
    })
}

/// Refuses a full execution that reads an allocation that a sampled launch left unwritten.
pub(crate) fn refuse_unwritten(kernel: &str, start: u64) -> Code {
    crate::diagnostics::say(&format!(
        "{kernel} reads the allocation at {start:#x}, which the last launch or copy into it was \
         only sampled to fill"
    ));
    code::NOT_SUPPORTED
}

/// Prints the `printf` output of kernels, as the driver does when the host waits.
pub(crate) fn print(lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let mut out = std::io::stdout().lock();
    for line in lines {
        // The program may have closed its output.
        let _ = out.write_all(line.as_bytes());
    }
    let _ = out.flush();
}
