//! Libraries: PTX that belongs to no context and is loaded into each context at first use.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::arguments::{put, text_of};
use crate::cuda::function::param_info;
use crate::cuda::module::{Options, ptx_of};
use gpubench_virtual_gpu_driver::calls::function::kernel_of;
use gpubench_virtual_gpu_driver::calls::image::{Refusal, plain};
use gpubench_virtual_gpu_driver::calls::library::{self, kernel_in};
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

    fn cuLibraryUnload(library: Handle) {
        library::unload(library)
    }

    fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        let name = text_of(name)?;
        let mut tables = process()?.ready()?;
        let found = kernel_in(&mut tables, library, &name)?;
        put(kernel, found)
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        let process = process()?;
        process.ready()?.kernels.get(kernel)?;
        let entry = library::function(process, kernel)?;
        param_info(kernel_of(&entry)?, index, offset, size)
    }
}

unsafe fn create(to: *mut Handle, text: String) -> Result<(), Refusal> {
    if to.is_null() {
        return Err(plain(code::INVALID_VALUE));
    }
    put(to, library::create(text)?).map_err(plain)
}
