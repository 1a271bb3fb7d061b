//! Modules and their kernels: loading PTX, finding names, attributes, occupancy, launching.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::handles::Handle;
use crate::abi::process::{AllocationEntry, FunctionEntry, ModuleEntry, process};
use crate::abi::{put, put_text};
use crate::contents::BASE;
use crate::launch::{self, Request};
use crate::memory;
use crate::ptx;

/// `CU_JIT_ERROR_LOG_BUFFER` and its size (cuda.h, `CUjit_option`).
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

// Which PTX versions a driver takes is not modelled: the parser refuses what it does not know,
// which is stricter.
entries! {
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        // SAFETY: the caller's image.
        unsafe { load(module, image) }.map_err(|(code, text)| {
            crate::abi::say(&format!("module refused: {text}"));
            code
        })
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void,
    ) {
        // SAFETY: the caller's image.
        let loaded = unsafe { load(module, image) };
        loaded.map_err(|(code, text)| {
            // SAFETY: the caller's arrays of `count` entries.
            unsafe { write_log(count, options, values, &text) };
            code
        })
    }

    fn cuModuleUnload(module: Handle) {
        let process = process()?;
        let context = process.current_even_if_broken()?;
        process.ready()?.modules.get(module)?;
        process.device.wait_context(context.slot)?;
        let entry = process.tables().modules.remove(module)?;
        let owner = process.device.process()?;
        for (address, _) in entry.symbols.values() {
            process.device.transact(|s, _| memory::release(s, owner, address - BASE))?;
            process.tables().allocations.remove(address);
        }
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let process = process()?;
        // SAFETY: the caller's string.
        let name = unsafe { text_of(name) }?;
        let mut tables = process.ready()?;
        let entry = tables.modules.get(module)?;
        entry.program.module().kernel(&name).ok_or(code::NOT_FOUND)?;
        let made = FunctionEntry {
            context: entry.context,
            program: Arc::clone(&entry.program),
            name,
            hash: entry.hash,
            max_dynamic_shared: 0,
        };
        let handle = tables.functions.insert(made)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(function, handle) }
    }

    fn cuModuleGetGlobal_v2(
        pointer: *mut u64,
        bytes: *mut usize,
        module: Handle,
        name: *const c_char,
    ) {
        let process = process()?;
        // SAFETY: the caller's string.
        let name = unsafe { text_of(name) }?;
        let tables = process.ready()?;
        let found = tables.modules.get(module)?.symbols.get(&name).copied();
        let (address, size) = found.ok_or(code::NOT_FOUND)?;
        // SAFETY: the caller's places; null means not wanted (cuda.h).
        unsafe {
            if !pointer.is_null() {
                put(pointer, address)?;
            }
            if !bytes.is_null() {
                put(bytes, size as usize)?;
            }
        }
        Ok(())
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let process = process()?;
        let tables = process.ready()?;
        let entry = tables.functions.get(function)?;
        let kernel = entry.program.module().kernel(&entry.name).ok_or(code::NOT_FOUND)?;
        let gpu = &process.device.machine().gpu;
        let threads = kernel.max_threads.map_or(gpu.max_threads_per_block, |t| t[0] * t[1] * t[2]);
        let (major, minor) = process.device.machine().compute_capability();
        // CUfunction_attribute by number (cuda.h).
        let found = match attribute {
            0 => threads,
            1 => kernel.static_shared_bytes,
            2 | 7 | 9..=14 => 0,
            3 => kernel.local_bytes,
            4 => kernel.registers,
            5 => 70,
            6 => major * 10 + minor,
            8 => entry.max_dynamic_shared.max(gpu.shared_per_block_kib << 10),
            _ => return Err(code::INVALID_VALUE),
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(value, found as c_int) }
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        let process = process()?;
        let limit = process.device.machine().gpu.shared_per_sm_kib << 10;
        let mut tables = process.ready()?;
        let entry = tables.functions.get_mut(function)?;
        match attribute {
            8 => {
                let bytes = u32::try_from(value).map_err(|_| code::INVALID_VALUE)?;
                if bytes > limit {
                    return Err(code::INVALID_VALUE);
                }
                entry.max_dynamic_shared = bytes;
                Ok(())
            }
            // The carve-out is a hint.
            9 => Ok(()),
            _ => Err(code::INVALID_VALUE),
        }
    }

    fn cuFuncSetCacheConfig(function: Handle, config: c_int) {
        let _ = config;
        process()?.ready()?.functions.get(function).map(|_| ())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        shared_bytes: usize,
    ) {
        occupancy(blocks, function, threads, shared_bytes)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        shared_bytes: usize,
        flags: c_uint,
    ) {
        let _ = flags;
        occupancy(blocks, function, threads, shared_bytes)
    }

    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let process = process()?;
        let entry = process.ready()?.functions.get(function)?.clone();
        let stream = process.stream(stream)?;
        // SAFETY: the caller's arrays.
        let params = unsafe { gather(&entry, params, extra) }?;
        launch::launch(process, &Request {
            function: &entry,
            stream,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            params,
        })
    }
}

/// A C string as Rust text.
///
/// # Safety
/// `text` is null or a C string.
unsafe fn text_of(text: *const c_char) -> Result<String, Code> {
    if text.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: a C string by the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| code::INVALID_VALUE)
}

/// Loads PTX text.
///
/// # Safety
/// `image` is null or a C string (PTX) or another image, which is refused by its first bytes.
unsafe fn load(module: *mut Handle, image: *const c_void) -> Result<(), (Code, String)> {
    let plain = |code: Code| (code, String::new());
    if module.is_null() || image.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    let process = process().map_err(plain)?;
    let context = process.current().map_err(plain)?;
    // SAFETY: an image has at least four bytes; text ends with a null byte.
    let first = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), 4) };
    // ELF (cubin) and the fat binary's magic 0xBA55ED50.
    if first == b"\x7fELF" || first == [0x50, 0xed, 0x55, 0xba] {
        let text = "only PTX can run here: this is a compiled binary".to_owned();
        return Err((code::NO_BINARY_FOR_GPU, text));
    }
    // SAFETY: PTX is a C string.
    let text = unsafe { text_of(image.cast()) }.map_err(|_| plain(code::INVALID_IMAGE))?;
    let parsed = ptx::parse(&text).map_err(|error| (code::INVALID_PTX, error.to_string()))?;
    let host = &process.device.machine().host;
    process
        .device
        .charge(host.module_ns)
        .map_err(|error| plain(error.into()))?;
    let parsed = Arc::new(parsed);
    let mut addresses = Vec::new();
    let mut symbols = BTreeMap::new();
    for symbol in &parsed.symbols {
        let address = place(context.slot, symbol.bytes.max(1)).map_err(plain)?;
        addresses.push(address);
        symbols.insert(symbol.name.clone(), (address, symbol.bytes));
    }
    let program = ptx::Program::bind(Arc::clone(&parsed), addresses.clone())
        .map_err(|error| (code::INVALID_IMAGE, error.to_string()))?;
    for (index, address) in addresses.iter().enumerate() {
        let bytes = program.symbol_bytes(index);
        let size = parsed.symbols[index].bytes as usize;
        let target = process.contents.pointer(address - BASE, size as u64);
        let target = target.ok_or_else(|| plain(code::OUT_OF_MEMORY))?;
        // SAFETY: the symbol's own allocation, as large as its size.
        unsafe {
            std::ptr::write_bytes(target, 0, size);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len().min(size));
        }
    }
    let hash = blake3::hash(text.as_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    let entry = ModuleEntry {
        context: context.slot,
        program: Arc::new(program),
        symbols,
        hash: u64::from_le_bytes(word),
    };
    let handle = process.tables().modules.insert(entry).map_err(plain)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(module, handle) }.map_err(plain)
}

/// Device memory for a module's variable.
fn place(context: u32, bytes: u64) -> Result<u64, Code> {
    let process = process()?;
    let device = &process.device;
    let owner = device.process()?;
    let made = device
        .transact(|s, _| memory::allocate(s, owner, context, bytes))?
        .ok_or(code::OUT_OF_MEMORY)?;
    let address = BASE + made.offset;
    let mut tables = process.tables();
    let version = tables.next_version;
    tables.next_version += 1;
    let entry = AllocationEntry {
        bytes,
        context,
        version,
        unwritten: false,
    };
    tables.allocations.insert(address, entry);
    Ok(address)
}

/// Puts the compiler's message where the caller asked for it.
///
/// # Safety
/// Both arrays are null or have `count` entries; a log buffer is as large as its option says.
unsafe fn write_log(count: c_uint, options: *mut c_int, values: *mut *mut c_void, text: &str) {
    if options.is_null() || values.is_null() {
        return;
    }
    // SAFETY: `count` entries each.
    let (options, values) = unsafe {
        (
            std::slice::from_raw_parts(options, count as usize),
            std::slice::from_raw_parts(values, count as usize),
        )
    };
    let value = |wanted: c_int| {
        options
            .iter()
            .position(|&option| option == wanted)
            .map(|index| values[index])
    };
    if let (Some(buffer), Some(bytes)) = (value(ERROR_LOG), value(ERROR_LOG_BYTES)) {
        // SAFETY: a buffer of that size by the caller's contract. A log that does not fit is cut;
        // one without a place is lost by the caller's choice.
        let _ = unsafe { put_text(buffer.cast(), bytes as usize, text) };
    }
}

fn occupancy(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    shared_bytes: usize,
) -> Result<(), Code> {
    let process = process()?;
    let entry = process.ready()?.functions.get(function)?.clone();
    let kernel = entry
        .program
        .module()
        .kernel(&entry.name)
        .ok_or(code::NOT_FOUND)?;
    let threads = u32::try_from(threads)
        .ok()
        .filter(|&t| t > 0)
        .ok_or(code::INVALID_VALUE)?;
    let shared = kernel.static_shared_bytes as u64 + shared_bytes as u64;
    let fit = launch::blocks_per_sm(process.device.machine(), kernel, threads, shared);
    // SAFETY: the caller's place, checked for null.
    unsafe { put(blocks, fit as c_int) }
}

/// Gathers a launch's arguments into one buffer laid out as the kernel wants them.
///
/// # Safety
/// `params` has an entry for each parameter, pointing at a value of its size, or `extra` is the
/// list that cuda.h describes.
unsafe fn gather(
    entry: &FunctionEntry,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, Code> {
    let kernel = entry
        .program
        .module()
        .kernel(&entry.name)
        .ok_or(code::NOT_FOUND)?;
    let mut out = vec![0; kernel.param_bytes as usize];
    if !params.is_null() {
        for (index, param) in kernel.params.iter().enumerate() {
            // SAFETY: one entry for each parameter.
            let value = unsafe { *params.add(index) };
            if value.is_null() {
                return Err(code::INVALID_VALUE);
            }
            let at = param.offset as usize;
            let target = &mut out[at..at + param.bytes as usize];
            // SAFETY: each entry points at a value of the parameter's size.
            unsafe {
                std::ptr::copy_nonoverlapping(value.cast(), target.as_mut_ptr(), target.len());
            }
        }
        return Ok(out);
    }
    if extra.is_null() {
        return if out.is_empty() {
            Ok(out)
        } else {
            Err(code::INVALID_VALUE)
        };
    }
    // CU_LAUNCH_PARAM_BUFFER_POINTER is 1, ..._SIZE is 2, ..._END is 0 (cuda.h).
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0);
    let mut at = 0;
    loop {
        // SAFETY: the list ends with the END key.
        let key = unsafe { *extra.add(at) } as usize;
        match key {
            0 => break,
            // SAFETY: a key is followed by its value.
            1 => buffer = unsafe { *extra.add(at + 1) }.cast(),
            // SAFETY: as above; this value is a pointer to the size.
            2 => size = unsafe { *(*extra.add(at + 1)).cast::<usize>() },
            _ => return Err(code::INVALID_VALUE),
        }
        at += 2;
    }
    if buffer.is_null() || size < out.len() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's buffer of `size` bytes, at least as many as wanted.
    unsafe { std::ptr::copy_nonoverlapping(buffer, out.as_mut_ptr(), out.len()) };
    Ok(out)
}
