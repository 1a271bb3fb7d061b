//! Faults of kernels: the row of the machine's fault table that answers them.

use std::io::Write;
use std::ops::Range;

use crate::code::{self, Code};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::Cause;
use gpubench_virtual_gpu_ptx::{Counts, FaultKind, KernelFault};

/// The cause of a fault, and the counts until then. `ended` are the addresses of memory whose owner
/// has ended.
pub(crate) fn classify(fault: KernelFault, ended: &[Range<u64>]) -> Result<(Cause, Counts), Code> {
    let cause = match &fault.kind {
        FaultKind::BadLaunch(what) => {
            crate::diagnostics::say(&format!("launch refused: {what}"));
            return Err(code::INVALID_VALUE);
        }
        FaultKind::IllegalAddress { addr, .. } if ended.iter().any(|of| of.contains(addr)) => {
            Cause::ExporterEnd
        }
        FaultKind::IllegalAddress { .. } => Cause::IllegalAddress,
        FaultKind::Misaligned { .. } => Cause::Misaligned,
        FaultKind::InvalidAddressSpace { .. } => Cause::WrongAddressSpace,
        FaultKind::SharedOutOfRange { .. } => Cause::SharedOutOfBounds,
        FaultKind::Trap | FaultKind::Breakpoint => Cause::Trap,
        FaultKind::Assert { .. } => Cause::Assert,
        FaultKind::StackOverflow { .. } => Cause::StackOverflow,
        FaultKind::InvalidPc { .. } => Cause::BadPc,
        FaultKind::IllegalInstruction { .. } => Cause::IllegalInstruction,
        FaultKind::LaunchTimeout { .. } | FaultKind::Deadlock | FaultKind::Endless { .. } => {
            Cause::Deadlock
        }
    };
    if let FaultKind::Assert { .. } = &fault.kind {
        // The runtime prints a failed assertion on the program's error stream.
        crate::diagnostics::say(&fault.to_string());
    }
    print(&fault.printed);
    Ok((cause, fault.counts))
}

/// Says why a launch did not end: a device would run it on.
pub(crate) fn report_endless(kernel: &str, fault: &KernelFault) {
    if matches!(
        fault.kind,
        FaultKind::LaunchTimeout { .. } | FaultKind::Deadlock | FaultKind::Endless { .. }
    ) {
        crate::diagnostics::say(&format!("{kernel} ends with CUDA_ERROR_LAUNCH_TIMEOUT: {fault}"));
    }
}

/// The illegal instruction of launches with more threads than the machine file allows. PTX cannot
/// contain one.
pub fn planted(machine: &Machine, grid: [u32; 3], block: [u32; 3]) -> Option<Cause> {
    let limit = u64::from(machine.defects.illegal_instruction_threads);
    let threads: u64 = grid.iter().chain(&block).map(|&side| u64::from(side)).product();
    (limit > 0 && threads > limit).then_some(Cause::IllegalInstruction)
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
