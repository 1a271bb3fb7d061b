//! Modules: loading PTX, with the compiler's messages, and finding what is in it.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::arguments::{put, put_text, text_of};
use gpubench_virtual_gpu_driver::calls::image::{
    HEADER_BYTES, Refusal, cubin, fatbin_bytes, is_cubin, is_fatbin, plain, ptx_in,
};
use gpubench_virtual_gpu_driver::calls::module::{function_of, load_text, unload};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

/// `CUjit_option` (cuda.h): the time it took, and two logs with their sizes.
const WALL_TIME: c_int = 2;

const INFO_LOG: c_int = 3;

const INFO_LOG_BYTES: c_int = 4;

const ERROR_LOG: c_int = 5;

const ERROR_LOG_BYTES: c_int = 6;

// Which PTX versions a driver takes is not modelled: the parser refuses what it does not know,
// which is stricter.
entries! {
    fn cuModuleLoadData, cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        Options::NONE.report(ptx_of(image).and_then(|text| create(module, &text)))
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int,
        values: *mut *mut c_void,
    ) {
        let options = Options { count, options, values };
        options.report(ptx_of(image).and_then(|text| create(module, &text)))
    }

    fn cuModuleUnload(module: Handle) {
        unload(process()?, module)
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let process = process()?;
        let name = text_of(name)?;
        let mut tables = process.ready()?;
        let made = function_of(&tables, module, &name)?;
        let handle = tables.functions.insert(made)?;
        put(function, handle)
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
        return compiled(std::slice::from_raw_parts(image, bytes));
    }
    text_of(image.cast()).map_err(|_| plain(code::INVALID_IMAGE))
}

/// The PTX in a fat binary.
fn compiled(image: &[u8]) -> Result<String, Refusal> {
    ptx_in(image, process().map_err(plain)?.device.machine())
}

unsafe fn create(module: *mut Handle, text: &str) -> Result<(), Refusal> {
    if module.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    let process = process().map_err(plain)?;
    let handle = load_text(process, text)?;
    put(module, handle).map_err(plain)
}
