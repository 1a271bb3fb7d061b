//! Modules: loading PTX, with the compiler's messages, and finding what is in it.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::global::entries;
use super::memory::take;
use crate::process::{Process, Tables, process};
use crate::{put, put_text};
use gpubench_virtual_gpu_driver::backing_store::BASE;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::{FunctionEntry, ModuleEntry, Origin};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_ptx as ptx;

/// `CUjit_option` (cuda.h): the time it took, and two logs with their sizes.
const WALL_TIME: c_int = 2;
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

/// A code and what the compiler has to say about it.
pub type Refusal = (Code, String);

// Which PTX versions a driver takes is not modelled: the parser refuses what it does not know,
// which is stricter.
entries! {
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        // SAFETY: the caller's image.
        unsafe { Options::NONE.report(ptx_of(image).and_then(|text| create(module, &text))) }
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void,
    ) {
        let options = Options { count, options, values };
        // SAFETY: the caller's image and arrays.
        unsafe { options.report(ptx_of(image).and_then(|text| create(module, &text))) }
    }

    fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        // SAFETY: the caller's image, of which only PTX can be loaded.
        unsafe { Options::NONE.report(ptx_of(image).and_then(|text| create(module, &text))) }
    }

    fn cuModuleLoad(module: *mut Handle, path: *const c_char) {
        // SAFETY: the caller's string.
        unsafe { Options::NONE.report(file_of(path).and_then(|text| create(module, &text))) }
    }

    fn cuModuleUnload(module: Handle) {
        let process = process()?;
        if process.ready()?.modules.get(module)?.of_library {
            return Err(code::NOT_PERMITTED);
        }
        unload(process, module)
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let process = process()?;
        // SAFETY: the caller's string.
        let name = unsafe { text_of(name) }?;
        let mut tables = process.ready()?;
        let made = function_of(&tables, module, &name)?;
        made.loaded.store(true, Ordering::Relaxed);
        let handle = tables.functions.insert(made)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(function, handle) }
    }

    fn cuModuleGetFunctionCount(count: *mut c_uint, module: Handle) {
        let tables = process()?.ready()?;
        let found = tables.modules.get(module)?.program.module().kernels.len();
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, found as c_uint) }
    }

    fn cuModuleEnumerateFunctions(functions: *mut Handle, count: c_uint, module: Handle) {
        let mut tables = process()?.ready()?;
        let program = Arc::clone(&tables.modules.get(module)?.program);
        for (index, kernel) in program.module().kernels.iter().take(count as usize).enumerate() {
            let made = function_of(&tables, module, &kernel.name)?;
            let handle = tables.functions.insert(made)?;
            // SAFETY: the caller's array of `count` places, checked for null.
            unsafe { put(functions.wrapping_add(index), handle) }?;
        }
        Ok(())
    }

    // CU_MODULE_EAGER_LOADING is 1, CU_MODULE_LAZY_LOADING 2 (cuda.h).
    fn cuModuleGetLoadingMode(mode: *mut c_int) {
        // SAFETY: the caller's place, checked for null.
        unsafe { put(mode, if is_eager() { 1 } else { 2 }) }
    }

    fn cuModuleGetGlobal_v2(
        pointer: *mut u64,
        bytes: *mut usize,
        module: Handle,
        name: *const c_char,
    ) {
        // SAFETY: the caller's string and places.
        unsafe { global(process()?, pointer, bytes, module, name) }
    }
}

/// Options of the compiler, as the program passes them.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many there are.
    pub count: c_uint,
    /// Their numbers.
    pub options: *mut c_int,
    /// Their values, or where results go.
    pub values: *mut *mut c_void,
}

impl Options {
    /// None at all.
    pub const NONE: Self = Self {
        count: 0,
        options: std::ptr::null_mut(),
        values: std::ptr::null_mut(),
    };

    /// Puts the compiler's message where the program asked for it, and gives the code.
    ///
    /// # Errors
    /// The code that loading came to.
    ///
    /// # Safety
    /// Both arrays are null or have `count` entries; a log buffer is as large as its option says.
    pub(super) unsafe fn report(&self, loaded: Result<(), Refusal>) -> Result<(), Code> {
        if self.count > 0 && (self.options.is_null() || self.values.is_null()) {
            return Err(code::INVALID_VALUE);
        }
        let (code, text) = match loaded {
            Ok(()) => (None, String::new()),
            Err((code, text)) => (Some(code), text),
        };
        let host = &process()?.device.machine().host;
        // SAFETY: the caller's contract.
        unsafe {
            let wrote = self.log(ERROR_LOG, ERROR_LOG_BYTES, &text);
            self.log(
                INFO_LOG,
                INFO_LOG_BYTES,
                if code.is_none() { "loaded\n" } else { "" },
            );
            if let Some(place) = self.place_of(WALL_TIME) {
                put(place.cast::<f32>(), host.module_ns as f32 / 1e6)?;
            }
            if !wrote && !text.is_empty() {
                gpubench_virtual_gpu_driver::diagnostics::say(&format!("module refused: {text}"));
            }
        }
        code.map_or(Ok(()), Err)
    }

    /// # Safety
    /// As `report`.
    unsafe fn place_of(&self, option: c_int) -> Option<*mut *mut c_void> {
        (0..self.count as usize)
            // SAFETY: `count` entries.
            .find(|&index| unsafe { self.options.add(index).read() } == option)
            // SAFETY: as above.
            .map(|index| unsafe { self.values.add(index) })
    }

    /// Writes one of the logs, and its length in place of the buffer's. Says whether there was a
    /// place for it. A log that does not fit is cut.
    ///
    /// # Safety
    /// As `report`.
    unsafe fn log(&self, option: c_int, size: c_int, text: &str) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
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
}

/// A C string as Rust text.
///
/// # Errors
/// When there is none, or it is no text.
///
/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn text_of(text: *const c_char) -> Result<String, Code> {
    if text.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: a C string by the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| code::INVALID_VALUE)
}

fn plain(code: Code) -> Refusal {
    (code, String::new())
}

/// Whether kernels are loaded with their modules, and not when they are first asked for or run
/// (CUDA C++ Programming Guide, "Lazy Loading").
fn is_eager() -> bool {
    std::env::var_os("CUDA_MODULE_LOADING").is_some_and(|mode| mode == "EAGER")
}

/// Whether an image is compiled code: ELF (a cubin), or a fat binary by its magic 0xBA55ED50.
fn is_compiled(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba])
}

fn compiled() -> Refusal {
    let text = "only PTX can run here: this is a compiled binary".to_owned();
    (code::NO_BINARY_FOR_GPU, text)
}

/// The PTX that an image is.
///
/// # Errors
/// When it is something else.
///
/// # Safety
/// `image` is null or a C string (PTX) or another image, which is refused by its first bytes.
pub(super) unsafe fn ptx_of(image: *const c_void) -> Result<String, Refusal> {
    if image.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    // SAFETY: text ends with a null byte, and no byte after the first that differs is looked at.
    let is_magic = |magic: &[u8; 4]| unsafe {
        (0..4).all(|index| image.cast::<u8>().add(index).read() == magic[index])
    };
    if is_magic(b"\x7fELF") || is_magic(&[0x50, 0xed, 0x55, 0xba]) {
        return Err(compiled());
    }
    // SAFETY: PTX is a C string.
    unsafe { text_of(image.cast()) }.map_err(|_| plain(code::INVALID_IMAGE))
}

/// The PTX in a file.
///
/// # Errors
/// When there is no such file or it holds something else.
///
/// # Safety
/// `path` is null or a C string.
pub(super) unsafe fn file_of(path: *const c_char) -> Result<String, Refusal> {
    // SAFETY: the caller's contract.
    let path = unsafe { text_of(path) }.map_err(plain)?;
    let bytes =
        std::fs::read(&path).map_err(|error| (code::FILE_NOT_FOUND, format!("{path}: {error}")))?;
    if is_compiled(&bytes) {
        return Err(compiled());
    }
    let text = String::from_utf8(bytes).map_err(|_| plain(code::INVALID_IMAGE))?;
    // A C string ends at its first null byte.
    Ok(text.split('\0').next().unwrap_or_default().to_owned())
}

/// Parses PTX.
///
/// # Errors
/// With the parser's message.
pub(super) fn parse(text: &str) -> Result<ptx::Module, Refusal> {
    ptx::parse(text).map_err(|error| {
        // As an H100 80GB HBM3 told such texts apart (driver 580.159.04, 2026-11-22).
        let code = match error.kind {
            ptx::Refused::Wrong => code::INVALID_PTX,
            ptx::Refused::NoPtx => code::INVALID_IMAGE,
            ptx::Refused::TooNew => code::UNSUPPORTED_PTX_VERSION,
        };
        (code, error.to_string())
    })
}

fn create(module: *mut Handle, text: &str) -> Result<(), Refusal> {
    if module.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    let process = process().map_err(plain)?;
    let handle = load_text(process, text, false)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(module, handle) }.map_err(plain)
}

/// Loads PTX into the current context.
///
/// # Errors
/// With the parser's message, if it was that.
pub(super) fn load_text(
    process: &Process,
    text: &str,
    of_library: bool,
) -> Result<Handle, Refusal> {
    let context = process.current().map_err(plain)?;
    let parsed = Arc::new(parse(text)?);
    let host = &process.device.machine().host;
    process
        .device
        .charge_locked(host.module_ns)
        .map_err(|error| plain(error.into()))?;
    let mut addresses = Vec::new();
    let mut symbols = BTreeMap::new();
    for symbol in &parsed.symbols {
        let address = place(process, context.slot, symbol.bytes.max(1)).map_err(plain)?;
        addresses.push(address);
        symbols.insert(symbol.name.clone(), (address, symbol.bytes));
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
        fill(target, size as usize, &bytes);
    }
    let loaded = parsed.kernels.iter().map(|kernel| {
        let state = Arc::new(AtomicBool::new(of_library || is_eager()));
        (kernel.name.clone(), state)
    });
    let loaded = loaded.collect();
    let hash = blake3::hash(text.as_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    let entry = ModuleEntry {
        context: context.slot,
        program: Arc::new(program),
        symbols,
        hash: u64::from_le_bytes(word),
        of_library,
        loaded,
    };
    process.tables().modules.insert(entry).map_err(plain)
}

/// Puts a variable's first value in place; what it does not say is zero already.
fn fill(target: *mut u8, size: usize, bytes: &[u8]) {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    let said = last.map_or(0, |last| last + 1).min(size);
    // SAFETY: the variable's own allocation, as large as its size.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, said) };
}

/// Device memory for a module's variable.
fn place(process: &Process, context: u32, bytes: u64) -> Result<u64, Code> {
    let made = take(process, context, bytes)?;
    let address = BASE + made.offset;
    process
        .tables()
        .enter(address, bytes, context, made.offset, Origin::Module);
    Ok(address)
}

/// Unloads a module once the work of its context is done.
///
/// # Errors
/// When it is not there.
pub(super) fn unload(process: &Process, module: Handle) -> Result<(), Code> {
    let context = process.ready()?.modules.get(module)?.context;
    process.device.wait_context(context)?;
    let entry = process.tables().modules.remove(module)?;
    process
        .tables()
        .functions
        .remove_where(|function| function.module == module as usize);
    let mut addresses = entry.symbols.values();
    addresses.try_for_each(|(address, _)| super::memory::forget(process, *address))
}

/// The kernel of that name in a module.
///
/// # Errors
/// When there is none.
pub(super) fn function_of(
    tables: &Tables,
    module: Handle,
    name: &str,
) -> Result<FunctionEntry, Code> {
    let entry = tables.modules.get(module)?;
    let loaded = entry.loaded.get(name).ok_or(code::NOT_FOUND)?;
    Ok(FunctionEntry {
        context: entry.context,
        module: module as usize,
        program: Arc::clone(&entry.program),
        name: name.to_owned(),
        hash: entry.hash,
        max_dynamic_shared: 0,
        carve_out: -1,
        loaded: Arc::clone(loaded),
    })
}

/// Where a variable of a module lies.
///
/// # Errors
/// When there is none of that name.
///
/// # Safety
/// `name` is null or a C string; the places are null or valid.
pub(super) unsafe fn global(
    process: &Process,
    pointer: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> Result<(), Code> {
    // SAFETY: the caller's contract.
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
