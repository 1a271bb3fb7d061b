//! Libraries: PTX that belongs to no context and is loaded into each context at first use.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::arguments::{c_text, put, text_of};
use crate::cuda::function::param_info;
use crate::cuda::module::{Options, file_of, global, ptx_of};
use gpubench_virtual_gpu_driver::calls::function::{attribute_of, kernel_of};
use gpubench_virtual_gpu_driver::calls::image::{Refusal, plain};
use gpubench_virtual_gpu_driver::calls::library::{
    self, function_handle, kernel_in, module_in, on_device,
};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuLibraryLoadData(
        library: *mut Handle, image: *const c_void, options: *mut c_int, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_int, library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        let options = Options { count, options, values };
        options.report(ptx_of(image).and_then(|text| create(library, text)))
    }

    fn cuLibraryLoadFromFile(
        library: *mut Handle, path: *const c_char, options: *mut c_int, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_int, library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        let options = Options { count, options, values };
        let text = file_of(path);
        options.report(text.and_then(|text| create(library, text)))
    }

    fn cuLibraryUnload(library: Handle) {
        library::unload(library)
    }

    fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        let name = text_of(name)?;
        let mut tables = process()?.ready()?;
        let found = kernel_in(&mut tables, library, &name)?;
        put(kernel, found)
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, library: Handle) {
        let tables = process()?.ready()?;
        let found = tables.libraries.get(library)?.kernels.len();
        put(count, found as c_uint)
    }

    fn cuLibraryEnumerateKernels(kernels: *mut Handle, count: c_uint, library: Handle) {
        let mut tables = process()?.ready()?;
        let names = tables.libraries.get(library)?.kernels.clone();
        for (index, name) in names.iter().take(count as usize).enumerate() {
            let found = kernel_in(&mut tables, library, name)?;
            put(kernels.wrapping_add(index), found)?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(module: *mut Handle, library: Handle) {
        let found = module_in(process()?, library)?;
        put(module, found)
    }

    fn cuLibraryGetGlobal(
        pointer: *mut u64, bytes: *mut usize, library: Handle, name: *const c_char,
    ) {
        let process = process()?;
        let module = module_in(process, library)?;
        global(process, pointer, bytes, module, name)
    }

    fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) {
        let process = process()?;
        process.ready()?.kernels.get(kernel)?;
        let found = function_handle(process, kernel)?;
        put(function, found)
    }

    fn cuKernelGetLibrary(library: *mut Handle, kernel: Handle) {
        let found = process()?.ready()?.kernels.get(kernel)?.library;
        put(library, found as Handle)
    }

    fn cuKernelGetName(name: *mut *const c_char, kernel: Handle) {
        let tables = process()?.ready()?;
        let text = c_text(&tables.kernels.get(kernel)?.name);
        put(name, text)
    }

    fn cuKernelGetAttribute(value: *mut c_int, attribute: c_int, kernel: Handle, device: c_int) {
        let process = process()?;
        let entry = on_device(process, kernel, device)?;
        let found = attribute_of(process, &entry, attribute)?;
        put(value, found)
    }

    fn cuKernelSetAttribute(attribute: c_int, value: c_int, kernel: Handle, device: c_int) {
        process()?.ready()?.kernels.get(kernel)?;
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        library::set_kernel_attribute(kernel, attribute, value)
    }

    fn cuKernelSetCacheConfig(kernel: Handle, config: c_int, device: c_int) {
        let _ = config;
        process()?.ready()?.kernels.get(kernel)?;
        if device == 0 { Ok(()) } else { Err(code::INVALID_DEVICE) }
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let entry = on_device(process()?, kernel, 0)?;
        param_info(kernel_of(&entry)?, index, offset, size)
    }

    fn cuKernelGetParamCount(kernel: Handle, count: *mut usize) {
        let entry = on_device(process()?, kernel, 0)?;
        put(count, kernel_of(&entry)?.params.len())
    }
}

unsafe fn create(to: *mut Handle, text: String) -> Result<(), Refusal> {
    if to.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    put(to, library::create(text)?).map_err(plain)
}
