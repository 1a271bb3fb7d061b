//! Libraries: PTX that belongs to no context and is loaded into each context at first use.

use std::collections::BTreeMap;
use std::ffi::c_int;

use crate::calls::image::{Refusal, plain};
use crate::calls::launches;
use crate::calls::module::{self, function_of, load_text, parse};
use crate::code::{self, Code, refuse};
use crate::entries::{FunctionEntry, KernelEntry, KernelSettings, LibraryEntry};
use crate::handles::Handle;
use crate::process::{Process, current_handle, process};

/// Makes a library of a text.
pub fn create(text: String) -> Result<Handle, Refusal> {
    let process = process().map_err(plain)?;
    let mut tables = process.ready().map_err(plain)?;
    let parsed = parse(process.device.machine(), &text)?;
    let names = parsed.kernels.iter().map(|kernel| kernel.name.clone());
    let entry = LibraryEntry { kernels: names.collect(), text, modules: BTreeMap::new() };
    tables.libraries.insert(entry).map_err(plain)
}

/// Unloads a library from every context.
pub fn unload(library: Handle) -> Result<(), Code> {
    let process = process()?;
    let modules = {
        let mut tables = process.ready()?;
        let gone = tables.libraries.remove(library)?;
        let of_library = |kernel: &KernelEntry| kernel.library == library as usize;
        tables.kernels.remove_where(of_library);
        gone.modules
    };
    for module in modules.into_values() {
        // A destroyed context has taken its modules with it.
        if process.tables().modules.holds(module as Handle) {
            module::unload(process, module as Handle)?;
        }
    }
    Ok(())
}

/// The kernel of that name; the same handle every time.
pub fn kernel_in(
    tables: &mut crate::process::Tables,
    library: Handle,
    name: &str,
) -> Result<Handle, Code> {
    let known = tables.libraries.get(library)?.kernels.iter().any(|kernel| kernel == name);
    refuse(!known, code::NOT_FOUND)?;
    let library = library as usize;
    let same = |kernel: &KernelEntry| kernel.library == library && kernel.name == name;
    if let Some(handle) = tables.kernels.find(same) {
        return Ok(handle);
    }
    let (name, functions) = (name.to_owned(), BTreeMap::new());
    let settings = KernelSettings::default();
    tables.kernels.insert(KernelEntry { library, name, functions, settings })
}

/// The library's module in the current context, loaded now if it is not there yet.
pub fn module_in(process: &Process, library: Handle) -> Result<Handle, Code> {
    process.ready()?.libraries.get(library)?;
    process.current()?;
    let context = current_handle().ok_or(code::INVALID_CONTEXT)? as usize;
    let text = {
        let tables = process.ready()?;
        let entry = tables.libraries.get(library)?;
        let module = entry.modules.get(&context).map(|&module| module as Handle);
        if let Some(module) = module.filter(|module| tables.modules.holds(*module)) {
            return Ok(module);
        }
        entry.text.clone()
    };
    let module = load_text(process, &text).map_err(|(code, _)| code)?;
    let mut tables = process.tables();
    tables.libraries.get_mut(library)?.modules.insert(context, module as usize);
    Ok(module)
}

/// The kernel's function in the current context.
pub fn function_handle(process: &Process, kernel: Handle) -> Result<Handle, Code> {
    let entry = process.ready()?.kernels.get(kernel)?.clone();
    let module = module_in(process, entry.library as Handle)?;
    let context = current_handle().ok_or(code::INVALID_CONTEXT)? as usize;
    let mut tables = process.tables();
    let known = entry.functions.get(&context).map(|&function| function as Handle);
    if let Some(function) = known.filter(|function| tables.functions.holds(*function)) {
        return Ok(function);
    }
    let mut made = function_of(&tables, module, &entry.name)?;
    made.settings = entry.settings;
    let handle = tables.functions.insert(made)?;
    tables.kernels.get_mut(kernel)?.functions.insert(context, handle as usize);
    Ok(handle)
}

/// Sets an attribute of a kernel, in every context that has loaded it.
pub fn set_attribute(kernel: Handle, attribute: c_int, value: c_int) -> Result<(), Code> {
    let process = process()?;
    let mut tables = process.ready()?;
    let entry = tables.kernels.get_mut(kernel)?;
    launches::set(process, &mut entry.settings, attribute, value)?;
    let (settings, functions) = (entry.settings, entry.functions.clone());
    for function in functions.into_values() {
        if let Ok(entry) = tables.functions.get_mut(function as Handle) {
            entry.settings = settings;
        }
    }
    Ok(())
}

/// What a launch may be given as a function: one, or a library's kernel.
pub fn function(process: &Process, handle: Handle) -> Result<FunctionEntry, Code> {
    let is_kernel = process.ready()?.kernels.holds(handle);
    let handle = if is_kernel { function_handle(process, handle)? } else { handle };
    process.ready()?.functions.get(handle).cloned()
}
