//! Launching kernels: arguments, attributes, cooperative launches.

use std::ffi::{c_uint, c_void};

use crate::arguments::read;
use crate::cuda::layout::LaunchConfig;
use gpubench_virtual_gpu_driver::calls::launches::{self, apply};
use gpubench_virtual_gpu_driver::calls::library;
use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::entries::FunctionEntry;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::launch;
use gpubench_virtual_gpu_driver::launch::request::Shape;
use gpubench_virtual_gpu_driver::operation::Kernel;
use gpubench_virtual_gpu_driver::process::{Process, process};

entries! {
    fn cuLaunchKernel, cuLaunchKernel_ptsz(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle,
        params: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cooperative: false,
        };
        queue(function, &shape, stream, params, extra)
    }

    fn cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle,
        params: *mut *mut c_void,
    ) {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cooperative: true,
        };
        queue(function, &shape, stream, params, std::ptr::null_mut())
    }

    fn cuLaunchKernelEx, cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig, function: Handle, params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = read(config)?;
        let mut shape = Shape {
            grid: config.grid,
            block: config.block,
            shared_bytes: config.shared_bytes,
            cooperative: false,
        };
        for index in 0..config.attribute_count as usize {
            let attribute = read(config.attributes.wrapping_add(index))?;
            apply(&mut shape, attribute.id, &attribute.value)?;
        }
        queue(function, &shape, config.stream, params, extra)
    }
}

unsafe fn queue(
    function: Handle,
    shape: &Shape,
    stream: Handle,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<(), Code> {
    let process = process()?;
    let kernel = kernel(process, function, shape, params, extra)?;
    launches::queue(process, stream, kernel)
}

/// A kernel with its arguments, as a launch wants it.
///
/// # Safety
/// `params` is null or has an entry for each parameter, pointing at a value of its size; else
/// `extra` is null or the list that cuda.h describes.
unsafe fn kernel(
    process: &Process,
    handle: Handle,
    shape: &Shape,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Kernel, Code> {
    let function = library::function(process, handle)?;
    let params = gather(&function, params, extra)?;
    launch::check(process.device.machine(), &function, shape)
        .or_else(|code| process.refuse(code))?;
    Ok(Kernel { function, handle: handle as usize, shape: *shape, params })
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
    let kernel = entry.program.module().kernel(&entry.name).ok_or(code::NOT_FOUND)?;
    let mut out = vec![0; kernel.param_bytes as usize];
    if !params.is_null() {
        for (index, param) in kernel.params.iter().enumerate() {
            let value = *params.add(index);
            refuse(value.is_null(), code::INVALID_VALUE)?;
            let at = param.offset as usize;
            let target = &mut out[at..at + param.bytes as usize];
            std::ptr::copy_nonoverlapping(value.cast(), target.as_mut_ptr(), target.len());
        }
        return Ok(out);
    }
    if extra.is_null() {
        return if out.is_empty() { Ok(out) } else { Err(code::INVALID_VALUE) };
    }
    // CU_LAUNCH_PARAM_BUFFER_POINTER is 1, ..._SIZE is 2, ..._END is 0 (cuda.h).
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0);
    let mut at = 0;
    loop {
        let key = *extra.add(at) as usize;
        match key {
            0 => break,
            1 => buffer = (*extra.add(at + 1)).cast(),
            2 => size = *(*extra.add(at + 1)).cast::<usize>(),
            _ => return Err(code::INVALID_VALUE),
        }
        at += 2;
    }
    refuse(buffer.is_null() || size < out.len(), code::INVALID_VALUE)?;
    std::ptr::copy_nonoverlapping(buffer, out.as_mut_ptr(), out.len());
    Ok(out)
}
