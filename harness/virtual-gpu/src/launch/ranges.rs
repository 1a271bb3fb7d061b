//! The host memory behind the device addresses that a launch may touch.
#![expect(
    unsafe_code,
    reason = "device and pinned memory are raw mappings that kernels access"
)]

use crate::abi::code::{self, Code};
use crate::abi::process::Process;
use crate::contents::BASE;
use crate::ptx::DeviceMemory;

/// The ranges of a launch, and which allocation each belongs to.
pub struct Ranges<'a> {
    /// For the interpreter.
    pub memory: DeviceMemory<'a>,
    /// Address of the allocation behind each range; none for pinned host memory.
    pub starts: Vec<Option<u64>>,
    /// Length of each range.
    pub bytes: Vec<u64>,
}

impl Ranges<'_> {
    fn add(&mut self, at: u64, bytes: u64, host: *mut u8, start: Option<u64>) -> Result<(), Code> {
        // SAFETY: device memory stays mapped for the process's life, and pinned memory until it
        // is freed, which takes it off the table first; nothing else writes it during a launch
        // but the program's own races.
        let mapped = unsafe { self.memory.map_raw(at, bytes, host, true, true) };
        mapped.map_err(|error| {
            crate::abi::say(&error.to_string());
            code::UNKNOWN
        })?;
        self.starts.push(start);
        self.bytes.push(bytes);
        Ok(())
    }
}

/// Everything that kernels of a context may touch.
///
/// # Errors
/// When the tables contradict each other, which is a bug.
pub fn ranges(process: &Process, context: u32) -> Result<Ranges<'static>, Code> {
    let tables = process.tables();
    let mut out = Ranges {
        memory: DeviceMemory::new(),
        starts: Vec::new(),
        bytes: Vec::new(),
    };
    for (&address, entry) in &tables.allocations {
        if entry.context == context {
            let host = process.contents.pointer(address - BASE, entry.bytes);
            out.add(
                address,
                entry.bytes,
                host.ok_or(code::UNKNOWN)?,
                Some(address),
            )?;
        }
    }
    for (&address, &(bytes, _)) in &tables.pinned {
        out.add(address as u64, bytes as u64, address as *mut u8, None)?;
    }
    Ok(out)
}
