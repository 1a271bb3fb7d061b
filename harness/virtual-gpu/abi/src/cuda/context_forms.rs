//! Later forms of the calls on contexts: with parameters, and for a context that is not current.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::context::{cuCtxCreate_v2, cuCtxGetDevice, cuCtxSynchronize};
use crate::arguments::{put, read};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::{pop_current, process, push_current};

/// `CUctxCreateParams`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CreateParams {
    pub affinities: *const c_void,
    pub affinity_count: c_int,
    pub graphics: *const c_void,
}

entries! {
    fn cuCtxCreate_v3(
        context: *mut Handle, affinities: *const c_void, count: c_int, flags: c_uint, device: c_int,
    ) {
        check_affinities(affinities, count)?;
        as_result(cuCtxCreate_v2(context, flags, device))
    }

    fn cuCtxCreate_v4(
        context: *mut Handle, params: *const CreateParams, flags: c_uint, device: c_int,
    ) {
        if !params.is_null() {
            let params = read(params)?;
            check_affinities(params.affinities, params.affinity_count)?;
            if !params.graphics.is_null() {
                return Err(code::NOT_SUPPORTED);
            }
        }
        as_result(cuCtxCreate_v2(context, flags, device))
    }

    fn cuCtxSynchronize_v2(context: Handle) {
        within(context, || cuCtxSynchronize())
    }

    fn cuCtxGetDevice_v2(device: *mut c_int, context: Handle) {
        within(context, || cuCtxGetDevice(device))
    }

    fn cuCtxGetId(context: Handle, id: *mut c_ulonglong) {
        let process = process()?;
        let slot = if context.is_null() {
            process.current_even_if_broken()?.slot
        } else {
            let tables = process.ready()?;
            tables.contexts.get(context).map_err(|_| code::INVALID_CONTEXT)?.slot
        };
        put(id, slot.into())
    }
}

fn as_result(number: i32) -> Result<(), Code> {
    if number == 0 {
        Ok(())
    } else {
        Err(Code(number))
    }
}

/// Shares of the SMs for a context are for MPS clients (cuCtxCreate_v3), by percentage here.
fn check_affinities(affinities: *const c_void, count: c_int) -> Result<(), Code> {
    if count < 0 || (count > 0 && affinities.is_null()) {
        return Err(code::INVALID_VALUE);
    }
    if count == 0 {
        Ok(())
    } else {
        Err(code::UNSUPPORTED_EXEC_AFFINITY)
    }
}

/// Runs a call with a context current, for its duration; the null handle means the current one.
fn within(context: Handle, call: impl FnOnce() -> i32) -> Result<(), Code> {
    if context.is_null() {
        return as_result(call());
    }
    process()?
        .ready()?
        .contexts
        .get(context)
        .map_err(|_| code::INVALID_CONTEXT)?;
    push_current(context);
    let number = call();
    let _ = pop_current();
    as_result(number)
}
