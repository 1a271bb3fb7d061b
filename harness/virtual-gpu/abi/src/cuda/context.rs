//! Contexts: creation, the thread's stack of them, limits, waiting for all work.

use std::ffi::{c_int, c_uint};

use crate::arguments::{put, put_optional};
use gpubench_virtual_gpu_driver::calls::context::{
    self, ALL_FLAGS, check_flags, create, destroy, invalid_context, release, retain,
};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::{
    current_handle, pop_current, process, push_current, set_current,
};
use gpubench_virtual_gpu_driver::stream::GREATEST_PRIORITY;

entries! {
    fn cuCtxCreate_v2(context: *mut Handle, flags: c_uint, device: c_int) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        check_flags(flags, ALL_FLAGS)?;
        let handle = create(process()?, flags)?;
        push_current(handle, false)?;
        put(context, handle)
    }

    fn cuCtxDestroy_v2(context: Handle) {
        let process = process()?;
        destroy(process, context).map_err(invalid_context)?;
        if current_handle() == Some(context) {
            let _ = pop_current();
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let handle = retain(process()?, device)?;
        put(context, handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        release(device)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        context::set_primary_flags(flags)
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        if device != 0 {
            return Err(code::INVALID_DEVICE);
        }
        let tables = process()?.ready()?;
        put(flags, tables.primary_flags)?;
        put(active, c_int::from(tables.primary.is_some()))
    }

    fn cuCtxSetCurrent(context: Handle) {
        let one_thread = !context.is_null() && context::for_one_thread(context)?;
        set_current(context, one_thread)
    }

    fn cuCtxGetCurrent(context: *mut Handle) {
        drop(process()?.ready()?);
        put(context, current_handle().unwrap_or(std::ptr::null_mut()))
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        push_current(context, context::for_one_thread(context)?)
    }

    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        let popped = pop_current().ok_or(code::INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        put(context, popped)
    }

    fn cuCtxGetDevice(device: *mut c_int) {
        process()?.current_even_if_broken()?;
        put(device, 0)
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        let context = process()?.current()?;
        put(flags, context.flags)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        process()?.current()?;
        put_optional(least, 0);
        put_optional(greatest, GREATEST_PRIORITY);
        Ok(())
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_int) {
        put(value, context::limit(limit)?)
    }

    fn cuCtxSetLimit(limit: c_int, value: usize) {
        context::set_limit(limit, value)
    }

    fn cuCtxSynchronize() {
        context::synchronize()
    }
}
