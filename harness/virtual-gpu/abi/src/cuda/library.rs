//! Libraries: texts that belong to no context, and are loaded into each when first used there.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};

use super::function::{attribute_of, kernel_of, param_info, set_attribute};
use super::global::{c_text, entries};
use super::module::{Options, function_of, load_text, parse, ptx_of, text_of};
use crate::process::{Process, current_handle, process};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::{FunctionEntry, KernelEntry, LibraryEntry};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuLibraryLoadData(
        library: *mut Handle,
        image: *const c_void,
        options: *mut c_int,
        values: *mut *mut c_void,
        count: c_uint,
        library_options: *mut c_int,
        library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        let options = Options { count, options, values };
        // SAFETY: the caller's image and arrays.
        unsafe { options.report(ptx_of(image).and_then(|text| create(library, text))) }
    }

    fn cuLibraryLoadFromFile(
        library: *mut Handle,
        path: *const c_char,
        options: *mut c_int,
        values: *mut *mut c_void,
        count: c_uint,
        library_options: *mut c_int,
        library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        let options = Options { count, options, values };
        // SAFETY: the caller's string and arrays.
        unsafe {
            let text = super::module::file_of(path);
            options.report(text.and_then(|text| create(library, text)))
        }
    }

    fn cuLibraryUnload(library: Handle) {
        let process = process()?;
        let modules = {
            let mut tables = process.ready()?;
            let gone = tables.libraries.remove(library)?;
            tables.kernels.remove_where(|kernel| kernel.library == library as usize);
            gone.modules
        };
        for module in modules.into_values() {
            // The context may have taken its modules with it.
            if process.tables().modules.get(module as Handle).is_ok() {
                super::module::unload(process, module as Handle)?;
            }
        }
        Ok(())
    }

    fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        // SAFETY: the caller's string.
        let name = unsafe { text_of(name) }?;
        let mut tables = process()?.ready()?;
        let found = kernel_in(&mut tables, library, &name)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(kernel, found) }
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, library: Handle) {
        let tables = process()?.ready()?;
        let found = tables.libraries.get(library)?.kernels.len();
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, found as c_uint) }
    }

    fn cuLibraryEnumerateKernels(kernels: *mut Handle, count: c_uint, library: Handle) {
        let mut tables = process()?.ready()?;
        let names = tables.libraries.get(library)?.kernels.clone();
        for (index, name) in names.iter().take(count as usize).enumerate() {
            let found = kernel_in(&mut tables, library, name)?;
            // SAFETY: the caller's array of `count` places, checked for null.
            unsafe { put(kernels.wrapping_add(index), found) }?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(module: *mut Handle, library: Handle) {
        let found = module_in(process()?, library)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(module, found) }
    }

    fn cuLibraryGetGlobal(
        pointer: *mut u64,
        bytes: *mut usize,
        library: Handle,
        name: *const c_char,
    ) {
        let process = process()?;
        let module = module_in(process, library)?;
        // SAFETY: the caller's string and places.
        unsafe { super::module::global(process, pointer, bytes, module, name) }
    }

    fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) {
        let process = process()?;
        process.ready()?.kernels.get(kernel)?;
        let found = function_handle(process, kernel)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(function, found) }
    }

    fn cuKernelGetLibrary(library: *mut Handle, kernel: Handle) {
        let found = process()?.ready()?.kernels.get(kernel)?.library;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(library, found as Handle) }
    }

    fn cuKernelGetName(name: *mut *const c_char, kernel: Handle) {
        let tables = process()?.ready()?;
        let text = c_text(&tables.kernels.get(kernel)?.name);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(name, text) }
    }

    fn cuKernelGetAttribute(value: *mut c_int, attribute: c_int, kernel: Handle, device: c_int) {
        let process = process()?;
        let entry = on_device(process, kernel, device)?;
        let found = attribute_of(process, &entry, attribute)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(value, found) }
    }

    fn cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: Handle, device: c_int) {
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.kernels.get_mut(kernel)?;
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        set_attribute(process, &mut entry.max_dynamic_shared, attribute, value)?;
        let (allowed, functions) = (entry.max_dynamic_shared, entry.functions.clone());
        for function in functions.into_values() {
            if let Ok(entry) = tables.functions.get_mut(function as Handle) {
                entry.max_dynamic_shared = allowed;
            }
        }
        Ok(())
    }

    fn cuKernelSetCacheConfig(kernel: Handle, config: c_int, device: c_int) {
        let _ = config;
        process()?.ready()?.kernels.get(kernel)?;
        if device == 0 { Ok(()) } else { Err(code::INVALID_DEVICE) }
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let entry = on_device(process()?, kernel, 0)?;
        // SAFETY: the caller's places.
        unsafe { param_info(kernel_of(&entry)?, index, offset, size) }
    }

    fn cuKernelGetParamCount(kernel: Handle, count: *mut usize) {
        let entry = on_device(process()?, kernel, 0)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, kernel_of(&entry)?.params.len()) }
    }
}

fn create(library: *mut Handle, text: String) -> Result<(), (Code, String)> {
    let plain = |code: Code| (code, String::new());
    if library.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    let mut tables = process().and_then(Process::ready).map_err(plain)?;
    let parsed = parse(&text)?;
    let kernels = parsed
        .kernels
        .iter()
        .map(|kernel| kernel.name.clone())
        .collect();
    let entry = LibraryEntry {
        text,
        kernels,
        modules: BTreeMap::new(),
    };
    let handle = tables.libraries.insert(entry).map_err(plain)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(library, handle) }.map_err(plain)
}

/// The kernel of that name; the same handle every time.
fn kernel_in(
    tables: &mut crate::process::Tables,
    library: Handle,
    name: &str,
) -> Result<Handle, Code> {
    let known = tables
        .libraries
        .get(library)?
        .kernels
        .iter()
        .any(|kernel| kernel == name);
    if !known {
        return Err(code::NOT_FOUND);
    }
    let library = library as usize;
    let same = |kernel: &KernelEntry| kernel.library == library && kernel.name == name;
    if let Some(handle) = tables.kernels.find(same) {
        return Ok(handle);
    }
    let (name, functions) = (name.to_owned(), BTreeMap::new());
    tables.kernels.insert(KernelEntry {
        library,
        name,
        max_dynamic_shared: 0,
        functions,
    })
}

/// The library's module in the current context, loaded now if it is not there yet.
fn module_in(process: &Process, library: Handle) -> Result<Handle, Code> {
    process.ready()?.libraries.get(library)?;
    process.current()?;
    let context = current_handle().ok_or(code::INVALID_CONTEXT)? as usize;
    let text = {
        let tables = process.ready()?;
        let entry = tables.libraries.get(library)?;
        let module = entry.modules.get(&context).map(|&module| module as Handle);
        if let Some(module) = module.filter(|module| tables.modules.get(*module).is_ok()) {
            return Ok(module);
        }
        entry.text.clone()
    };
    let module = load_text(process, &text, true).map_err(|(code, _)| code)?;
    let mut tables = process.tables();
    tables
        .libraries
        .get_mut(library)?
        .modules
        .insert(context, module as usize);
    Ok(module)
}

/// The kernel's function in the current context.
fn function_handle(process: &Process, kernel: Handle) -> Result<Handle, Code> {
    let entry = process.ready()?.kernels.get(kernel)?.clone();
    let module = module_in(process, entry.library as Handle)?;
    let context = current_handle().ok_or(code::INVALID_CONTEXT)? as usize;
    let mut tables = process.tables();
    let known = entry
        .functions
        .get(&context)
        .map(|&function| function as Handle);
    if let Some(function) = known.filter(|function| tables.functions.get(*function).is_ok()) {
        return Ok(function);
    }
    let mut made = function_of(&tables, module, &entry.name)?;
    made.max_dynamic_shared = entry.max_dynamic_shared;
    let handle = tables.functions.insert(made)?;
    tables
        .kernels
        .get_mut(kernel)?
        .functions
        .insert(context, handle as usize);
    Ok(handle)
}

fn on_device(process: &Process, kernel: Handle, device: c_int) -> Result<FunctionEntry, Code> {
    process.ready()?.kernels.get(kernel)?;
    if device != 0 {
        return Err(code::INVALID_DEVICE);
    }
    function(process, kernel)
}

/// What a launch may be given as a function: one, or a library's kernel.
///
/// # Errors
/// When it is neither.
pub(super) fn function(process: &Process, handle: Handle) -> Result<FunctionEntry, Code> {
    let is_kernel = process.ready()?.kernels.get(handle).is_ok();
    let handle = if is_kernel {
        function_handle(process, handle)?
    } else {
        handle
    };
    process.ready()?.functions.get(handle).cloned()
}
