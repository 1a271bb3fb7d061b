//! Modules: loading PTX and finding what is in it.
#![expect(
    unsafe_code,
    reason = "memory of the device and of the program is reached by raw pointers"
)]

use std::sync::Arc;

use super::image::{Refusal, check_target, plain};
use crate::backing_store::BASE;
use crate::code::{self, Code};
use crate::device_memory::{self, take};
use crate::entries::{FunctionEntry, KernelSettings, ModuleEntry, Origin};
use crate::handles::Handle;
use crate::process::{Process, Tables};
use ::gpubench_virtual_gpu_ptx as ptx;
use gpubench_virtual_gpu_model::machine::Machine;

/// Parses PTX that the device can run.
pub fn parse(machine: &Machine, text: &str) -> Result<ptx::Module, Refusal> {
    let parsed = ptx::parse(text).map_err(|error| {
        // As an H100 80GB HBM3 distinguished such texts (driver 580.159.04, 2026-11-22).
        let code = match error.kind {
            ptx::Refused::Wrong => code::INVALID_PTX,
            ptx::Refused::NoPtx => code::INVALID_IMAGE,
            ptx::Refused::TooNew => code::UNSUPPORTED_PTX_VERSION,
        };
        (code, error.to_string())
    })?;
    check_target(machine, &parsed.target)?;
    Ok(parsed)
}

/// Several texts as one: those that follow lose their headers.
pub fn joined(texts: &[String]) -> String {
    const HEADERS: [&str; 3] = [".version", ".target", ".address_size"];
    let is_header = |line: &&str| HEADERS.iter().any(|word| line.trim_start().starts_with(word));
    let [first, rest @ ..] = texts else { return String::new() };
    let bodies = rest.iter().flat_map(|text| text.lines().filter(|line| !is_header(line)));
    bodies.fold(first.clone(), |all, line| all + "\n" + line)
}

/// Loads PTX into the current context.
pub fn load_text(process: &Process, text: &str) -> Result<Handle, Refusal> {
    let context = process.current().map_err(plain)?;
    let parsed = Arc::new(parse(process.device.machine(), text)?);
    let host = &process.device.machine().host;
    process.device.charge_locked(host.module_ns).map_err(|error| plain(error.into()))?;
    let mut addresses = Vec::new();
    for symbol in &parsed.symbols {
        addresses.push(place(process, context.slot, symbol.bytes.max(1)).map_err(plain)?);
    }
    let program = ptx::Program::bind(Arc::clone(&parsed), addresses.clone())
        .map_err(|error| (code::INVALID_IMAGE, error.to_string()))?;
    for (index, address) in addresses.iter().enumerate() {
        let size = parsed.symbols[index].bytes;
        let target = process.host_address(address - BASE, size).map_err(plain)?;
        let bytes = program.symbol_bytes(index);
        // Zeros are pages given back, and not pages of the host's disk.
        let cleared = process.contents.scrub(address - BASE, size);
        cleared.map_err(|_| plain(code::OUT_OF_MEMORY))?;
        write_first_value(target, size as usize, &bytes);
    }
    let hash = blake3::hash(text.as_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    let entry = ModuleEntry {
        context: context.slot,
        program: Arc::new(program),
        symbols: addresses,
        hash: u64::from_le_bytes(word),
    };
    process.tables().modules.insert(entry).map_err(plain)
}

/// Writes the initial value of a variable; bytes after its last non-zero one are zero already.
fn write_first_value(target: *mut u8, size: usize, bytes: &[u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    let length = last.map_or(0, |last| last + 1).min(size);
    // SAFETY: the variable's own allocation, as large as its size.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, length) };
}

/// Device memory for a module's variable.
pub fn place(process: &Process, context: u32, bytes: u64) -> Result<u64, Code> {
    let made = take(process, context, bytes)?;
    let address = BASE + made.offset;
    process.tables().enter(address, bytes, context, made.offset, Origin::Module);
    Ok(address)
}

/// Unloads a module once the work of its context is done.
pub fn unload(process: &Process, module: Handle) -> Result<(), Code> {
    let context = process.ready()?.modules.get(module)?.context;
    process.device.wait_context(context)?;
    let entry = process.tables().modules.remove(module)?;
    process.tables().functions.remove_where(|function| function.module == module as usize);
    let mut addresses = entry.symbols.iter();
    addresses.try_for_each(|address| device_memory::forget(process, *address))
}

pub fn function_of(tables: &Tables, module: Handle, name: &str) -> Result<FunctionEntry, Code> {
    let entry = tables.modules.get(module)?;
    entry.program.module().kernel(name).ok_or(code::NOT_FOUND)?;
    Ok(FunctionEntry {
        context: entry.context,
        module: module as usize,
        program: Arc::clone(&entry.program),
        name: name.to_owned(),
        hash: entry.hash,
        settings: KernelSettings::default(),
    })
}

pub fn variable(tables: &Tables, module: Handle, name: &str) -> Result<(u64, u64), Code> {
    let entry = tables.modules.get(module)?;
    let mut symbols = entry.program.module().symbols.iter().zip(&entry.symbols);
    let found = symbols.find(|(symbol, _)| symbol.name == name);
    found.map(|(symbol, address)| (*address, symbol.bytes)).ok_or(code::NOT_FOUND)
}
