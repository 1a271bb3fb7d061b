//! Modules and libraries: loading PTX, with the compiler's messages, and the kernels in it.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::arguments::{put, put_new, put_optional, put_text, text_of};
use gpubench_virtual_gpu_driver::calls::device::known;
use gpubench_virtual_gpu_driver::calls::image::{
    HEADER_BYTES, Refusal, cubin, fatbin_bytes, is_cubin, is_fatbin, plain, ptx_in,
};
use gpubench_virtual_gpu_driver::calls::launches::{attribute_of, fitting, kernel_of, set};
use gpubench_virtual_gpu_driver::calls::library::{self, kernel_in};
use gpubench_virtual_gpu_driver::calls::module::{
    function_of, joined, load_text, parse, unload, variable,
};
use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::entries::LinkEntry;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

/// `CUjit_option` (cuda.h): the time it took, and two logs with their sizes.
const WALL_TIME: c_int = 2;

const INFO_LOG: c_int = 3;

const INFO_LOG_BYTES: c_int = 4;

const ERROR_LOG: c_int = 5;

const ERROR_LOG_BYTES: c_int = 6;

/// `CUoccupancyB2DSize`: dynamic shared memory for a block of so many threads.
pub type SharedForBlock = unsafe extern "C" fn(c_int) -> usize;

// Which PTX versions a driver takes is not modelled: the parser refuses what it does not know,
// which is stricter.
entries! {
    fn cuModuleLoadData, cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        Options::NONE.report(load(module, image, load_module))
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int,
        values: *mut *mut c_void,
    ) { Options { count, options, values }.report(load(module, image, load_module)) }
    fn cuModuleLoad(module: *mut Handle, path: *const c_char) {
        let text = file(path);
        let made = text.and_then(|text| put(module, load_module(text)?).map_err(plain));
        Options::NONE.report(if module.is_null() { Err(plain(code::INVALID_VALUE)) } else { made })
    }

    fn cuModuleGetGlobal_v2(
        pointer: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char,
    ) { put_variable(pointer, bytes, module, &text_of(name)?) }

    fn cuLinkCreate_v2(
        count: c_uint, options: *mut c_int, values: *mut *mut c_void, link: *mut Handle,
    ) {
        Options { count, options, values }.report(Ok(()))?;
        put_new(link, || process()?.ready()?.links.insert(LinkEntry::default()))
    }

    // CU_JIT_INPUT_PTX is 1, CU_JIT_INPUT_FATBINARY 2 (cuda.h).
    fn cuLinkAddData_v2(
        link: Handle, kind: c_int, data: *const c_void, bytes: usize, name: *const c_char,
        count: c_uint, options: *mut c_int, values: *mut *mut c_void,
    ) {
        let _ = name;
        let added = match kind {
            1 if bytes > 0 && !data.is_null() => {
                let text = std::slice::from_raw_parts(data.cast::<u8>(), bytes);
                // A null byte ends it.
                let text = text.split(|byte| *byte == 0).next().unwrap_or(text);
                add_to_link(link, String::from_utf8_lossy(text).into_owned())
            }
            2 => ptx_of(data).and_then(|text| add_to_link(link, text)),
            0 | 3 | 4 => Err(cubin()),
            _ => Err(plain(code::INVALID_VALUE)),
        };
        Options { count, options, values }.report(added)
    }

    fn cuLinkComplete(link: Handle, image: *mut *mut c_void, bytes: *mut usize) {
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.links.get_mut(link)?;
        let text = joined(&entry.texts);
        Options::NONE.report(parse(process.device.machine(), &text).map(|_| ()))?;
        entry.image = text.into_bytes().into_iter().chain([0]).collect();
        put(image, entry.image.as_mut_ptr().cast())?;
        put_optional(bytes, entry.image.len());
        Ok(())
    }

    fn cuLinkDestroy(link: Handle) { process()?.ready()?.links.remove(link).map(|_| ()) }
    fn cuModuleUnload(module: Handle) { unload(process()?, module) }
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let process = process()?;
        let name = text_of(name)?;
        let mut tables = process.ready()?;
        let made = function_of(&tables, module, &name)?;
        put(function, tables.functions.insert(made)?)
    }

    // A library is PTX that belongs to no context and is loaded into each context at first use.
    fn cuLibraryLoadData(
        library: *mut Handle, image: *const c_void, options: *mut c_int, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_int, library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        Options { count, options, values }.report(load(library, image, library::create))
    }

    fn cuLibraryUnload(library: Handle) { library::unload(library) }
    fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        let name = text_of(name)?;
        let mut tables = process()?.ready()?;
        put(kernel, kernel_in(&mut tables, library, &name)?)
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let process = process()?;
        process.ready()?.kernels.get(kernel)?;
        let entry = library::function(process, kernel)?;
        let param = kernel_of(&entry)?.params.get(index).ok_or(code::INVALID_VALUE)?;
        put(offset, param.offset as usize)?;
        put_optional(size, param.bytes as usize);
        Ok(())
    }

    fn cuLibraryGetGlobal(
        pointer: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char,
    ) { put_variable(pointer, bytes, library::module_in(process()?, library)?, &text_of(name)?) }

    fn cuKernelGetAttribute(value: *mut c_int, attribute: c_int, kernel: Handle, device: c_int) {
        let process = known(device)?;
        process.ready()?.kernels.get(kernel)?;
        put(value, attribute_of(process, &library::function(process, kernel)?, attribute)?)
    }

    fn cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: Handle, device: c_int) {
        known(device)?;
        library::set_attribute(kernel, attribute, value)
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        let process = process()?;
        set(process, &mut process.ready()?.functions.get_mut(function)?.settings, attribute, value)
    }

    // How a multiprocessor divides its store between cache and shared memory is a hint.
    fn cuFuncSetCacheConfig, cuFuncSetSharedMemConfig(function: Handle, config: c_int) {
        process()?.ready()?.functions.get(function)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    // The shape for launches of CUDA 3, which are not there. PyCUDA sets it before each of today's.
    fn cuFuncSetBlockShape(function: Handle, x: c_int, y: c_int, z: c_int) {
        process()?.ready()?.functions.get(function)?;
        if x.min(y).min(z) > 0 { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let process = process()?;
        let entry = process.ready()?.functions.get(function)?.clone();
        put(value, attribute_of(process, &entry, attribute)?)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize,
    ) {
        let process = process()?;
        let entry = library::function(process, function)?;
        let kernel = kernel_of(&entry)?;
        let threads = u32::try_from(threads).ok().filter(|&t| t > 0);
        let threads = threads.ok_or(code::INVALID_VALUE)?;
        put(blocks, fitting(process, kernel, threads, shared_bytes) as c_int)
    }

    // The block size at which most threads fit on an SM; of several, the largest.
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: Handle,
        shared_for_block: Option<SharedForBlock>, shared_bytes: usize, limit: c_int,
    ) {
        let process = process()?;
        let entry = library::function(process, function)?;
        let kernel = kernel_of(&entry)?;
        let gpu = &process.device.machine().gpu;
        let most = attribute_of(process, &entry, 0)?;
        let most = if limit > 0 { most.min(limit) } else { most };
        refuse(limit < 0, code::INVALID_VALUE)?;
        let mut best = (0, 0, 0);
        let whole_warps = (1..=most / 32).rev().map(|warps| warps * 32);
        for threads in whole_warps.chain((most < 32).then_some(most)) {
            let shared = match shared_for_block {
                Some(call) => call(threads),
                None => shared_bytes,
            };
            let fit = fitting(process, kernel, threads.unsigned_abs(), shared) as c_int;
            if fit * threads > best.0 {
                best = (fit * threads, fit, threads);
            }
        }
        let sms = c_int::try_from(gpu.sm_count).map_err(|_| code::INVALID_VALUE)?;
        put(grid, best.1 * sms)?;
        put(block, best.2)
    }
}

/// Options of the compiler, as the program passes them.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub count: c_uint,
    pub options: *mut c_int,
    /// Their values, or where results go.
    pub values: *mut *mut c_void,
}

impl Options {
    /// None at all.
    pub const NONE: Self =
        Self { count: 0, options: std::ptr::null_mut(), values: std::ptr::null_mut() };

    /// Stores the compiler's messages at the addresses among the options, and returns the code.
    pub(super) unsafe fn report(&self, loaded: Result<(), Refusal>) -> Result<(), Code> {
        if self.count > 0 && (self.options.is_null() || self.values.is_null()) {
            return Err(code::INVALID_VALUE);
        }
        let (code, text) = match loaded {
            Ok(()) => (None, String::new()),
            Err((code, text)) => (Some(code), text),
        };
        let host = &process()?.device.machine().host;
        let wrote = self.log(ERROR_LOG, ERROR_LOG_BYTES, &text);
        self.log(INFO_LOG, INFO_LOG_BYTES, if code.is_none() { "loaded\n" } else { "" });
        if let Some(place) = self.place_of(WALL_TIME) {
            put(place.cast::<f32>(), host.module_ns as f32 / 1e6)?;
        }
        if !wrote && !text.is_empty() {
            gpubench_virtual_gpu_driver::diagnostics::say(&format!("module refused: {text}"));
        }
        code.map_or(Ok(()), Err)
    }

    unsafe fn place_of(&self, option: c_int) -> Option<*mut *mut c_void> {
        (0..self.count as usize)
            .find(|&index| self.options.add(index).read() == option)
            .map(|index| self.values.add(index))
    }

    /// Writes one of the logs, and its length in place of the buffer's. Says whether there was a
    /// place for it. A log that does not fit is cut.
    unsafe fn log(&self, option: c_int, size: c_int, text: &str) -> bool {
        let (Some(buffer), Some(size)) = (self.place_of(option), self.place_of(size)) else {
            return false;
        };
        let room = size.read() as usize;
        if put_text(buffer.read().cast(), room, text).is_err() {
            return false;
        }
        size.write((text.len() + 1).min(room) as *mut c_void);
        true
    }
}

/// Adds a text to what a program links. Whether it loads is seen when all are there.
fn add_to_link(link: Handle, text: String) -> Result<(), Refusal> {
    let mut tables = process().and_then(|process| process.ready()).map_err(plain)?;
    tables.links.get_mut(link).map_err(plain)?.texts.push(text);
    Ok(())
}

unsafe fn file(path: *const c_char) -> Result<String, Refusal> {
    let path = text_of(path).map_err(plain)?;
    let bytes = std::fs::read(&path);
    let mut bytes = bytes.map_err(|error| (code::FILE_NOT_FOUND, format!("{path}: {error}")))?;
    if is_fatbin(&bytes) {
        let machine = process().map_err(plain)?.device.machine();
        return ptx_in(&bytes, machine);
    }
    bytes.push(0);
    ptx_of(bytes.as_ptr().cast())
}

/// Stores where a variable of a module lies, and its size.
unsafe fn put_variable(
    pointer: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: &str,
) -> Result<(), Code> {
    let (address, size) = variable(&*process()?.ready()?, module, name)?;
    put_optional(pointer, address);
    put_optional(bytes, size as usize);
    Ok(())
}

/// The PTX of an image in memory.
///
/// # Safety
/// `image` is null, a C string (PTX), or a cubin or fat binary as long as its header says.
pub unsafe fn ptx_of(image: *const c_void) -> Result<String, Refusal> {
    if image.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    let image = image.cast::<u8>();
    // Byte by byte, because a text can be shorter.
    let starts = |known: fn(&[u8]) -> bool| {
        let mut first = Vec::new();
        while first.len() < 4 && first.last() != Some(&0) {
            first.push(image.add(first.len()).read());
        }
        known(&first)
    };
    if starts(is_cubin) {
        return Err(cubin());
    }
    if starts(is_fatbin) {
        let bytes = fatbin_bytes(&image.cast::<[u8; HEADER_BYTES]>().read_unaligned())?;
        let machine = process().map_err(plain)?.device.machine();
        return ptx_in(std::slice::from_raw_parts(image, bytes), machine);
    }
    text_of(image.cast()).map_err(|_| plain(code::INVALID_IMAGE))
}

/// Loads the PTX of an image, and stores the handle of what was made of it.
unsafe fn load(
    to: *mut Handle,
    image: *const c_void,
    make: impl FnOnce(String) -> Result<Handle, Refusal>,
) -> Result<(), Refusal> {
    let text = ptx_of(image)?;
    if to.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    put(to, make(text)?).map_err(plain)
}

fn load_module(text: String) -> Result<Handle, Refusal> {
    load_text(process().map_err(plain)?, &text)
}
