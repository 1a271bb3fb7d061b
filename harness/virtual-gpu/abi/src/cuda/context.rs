//! Contexts: creation, the thread's stack of them, limits, waiting for all work; green contexts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arguments::{put, put_new, put_optional, read};
use gpubench_virtual_gpu_driver::calls::context::{
    self, ALL_FLAGS, check_flags, create, destroy, invalid_context, release, retain,
};
use gpubench_virtual_gpu_driver::calls::green::{self, Steps, all_sms, granularity, split};
use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::entries::SmRange;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::{
    Process, current_handle, pop_current, process, push_current, set_current,
};
use gpubench_virtual_gpu_driver::rules::{Rule, are_strict};
use gpubench_virtual_gpu_driver::stream::GREATEST_PRIORITY;

entries! {
    fn cuCtxCreate_v2(context: *mut Handle, flags: c_uint, device: c_int) {
        refuse(device != 0, code::INVALID_DEVICE)?;
        check_flags(flags, ALL_FLAGS)?;
        let handle = create(process()?, flags)?;
        push_current(handle, false)?;
        put(context, handle)
    }

    fn cuCtxCreate_v3(
        context: *mut Handle, affinities: *const c_void, count: c_int, flags: c_uint, device: c_int,
    ) {
        check_affinities(affinities, count)?;
        succeed(cuCtxCreate_v2(context, flags, device))
    }

    fn cuCtxCreate_v4(
        context: *mut Handle, params: *const CreateParams, flags: c_uint, device: c_int,
    ) {
        if !params.is_null() {
            let params = read(params)?;
            check_affinities(params.affinities, params.affinity_count)?;
            refuse(!params.graphics.is_null(), code::NOT_SUPPORTED)?;
        }
        succeed(cuCtxCreate_v2(context, flags, device))
    }

    fn cuCtxDestroy_v2(context: Handle) {
        let process = process()?;
        destroy(process, context).map_err(invalid_context)?;
        if current_handle() == Some(context) {
            let _ = pop_current();
        }
        Ok(())
    }

    // Its only use: there is no call that attaches a context once more.
    fn cuCtxDetach(context: Handle) { succeed(cuCtxDestroy_v2(context)) }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let handle = retain(process()?, device)?;
        put(context, handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) { release(device) }
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        refuse(device != 0, code::INVALID_DEVICE)?;
        context::set_primary_flags(flags)
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        refuse(device != 0, code::INVALID_DEVICE)?;
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

    fn cuCtxGetLimit(value: *mut usize, limit: c_int) { put(value, context::limit(limit)?) }
    fn cuCtxSetLimit(limit: c_int, value: usize) { context::set_limit(limit, value) }
    fn cuCtxSynchronize() { context::synchronize() }

    // Forms of CUDA 13 for a context that need not be current.
    fn cuCtxSynchronize_v2(context: Handle) { within(context, || cuCtxSynchronize()) }
    fn cuCtxGetDevice_v2(device: *mut c_int, context: Handle) {
        within(context, || cuCtxGetDevice(device))
    }

    // The interface of contexts has been the second, of CUDA 3.2, since then.
    fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) {
        if !context.is_null() {
            context::for_one_thread(context)?;
        }
        put(version, 3020)
    }

    fn cuDeviceGetDevResource(device: c_int, resource: *mut Resource, kind: c_uint) {
        let process = process()?;
        drop(process.ready()?);
        refuse(device != 0, code::INVALID_DEVICE)?;
        refuse(kind != TYPE_SM, code::INVALID_RESOURCE_TYPE)?;
        let range = all_sms(process)?;
        put(resource, Resource::new(process, range))
    }

    fn cuDevSmResourceSplitByCount(
        result: *mut Resource, groups: *mut c_uint, input: *const Resource,
        remainder: *mut Resource, flags: c_uint, min_count: c_uint,
    ) {
        let process = process()?;
        drop(process.ready()?);
        refuse(groups.is_null() || input.is_null() || flags > 3, code::INVALID_VALUE)?;
        let (all, wanted) = (*input, *groups);
        refuse(all.kind != TYPE_SM, code::INVALID_RESOURCE_CONFIGURATION)?;
        let (major, _) = process.device.machine().compute_capability();
        let ignore = flags & IGNORE_COSCHEDULING != 0;
        let (least, step) = granularity(major, ignore);
        if min_count < least || !min_count.is_multiple_of(step) && min_count != all.sm_count {
            let answer = Rule::UnevenSplit.broken();
            if are_strict() {
                return Err(answer);
            }
        }
        // Without an array for results the call returns the possible number of groups.
        let wanted = if result.is_null() { u32::MAX } else { wanted };
        let max_groups = process.device.machine().gpu.smallest_groups;
        let split = split(all.range(), wanted, min_count, &Steps::of(major, ignore, max_groups))?;
        let made = split.fit.min(wanted);
        if !result.is_null() {
            let from_last = SPLITS.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            for group in 0..made {
                let at = if from_last { made - 1 - group } else { group };
                let first = all.first + at * split.size;
                let range = SmRange { first, count: split.size };
                *result.add(group as usize) = Resource::new(process, range);
            }
        }
        if !remainder.is_null() {
            *remainder = Resource::new(process, split.rest);
        }
        put(groups, made)
    }

    fn cuDevResourceGenerateDesc(
        descriptor: *mut Handle, resources: *const Resource, count: c_uint,
    ) {
        let process = process()?;
        drop(process.ready()?);
        if descriptor.is_null() || resources.is_null() || count == 0 || count > 1024 {
            return Err(code::INVALID_VALUE);
        }
        let parts = std::slice::from_raw_parts(resources, count as usize);
        if parts.iter().any(|part| part.kind != TYPE_SM || part.sm_count == 0) {
            return Err(code::INVALID_RESOURCE_TYPE);
        }
        let follows = |pair: &[Resource]| pair[0].first + pair[0].sm_count == pair[1].first;
        refuse(!parts.windows(2).all(follows), code::INVALID_RESOURCE_CONFIGURATION)?;
        let range = SmRange {
            first: parts[0].first,
            count: parts.iter().map(|part| part.sm_count).sum(),
        };
        let handle = process.tables().descriptors.insert(range)?;
        put(descriptor, handle)
    }

    fn cuGreenCtxCreate(green: *mut Handle, descriptor: Handle, device: c_int, flags: c_uint) {
        refuse(flags != DEFAULT_STREAM, code::INVALID_VALUE)?;
        refuse(device != 0, code::INVALID_DEVICE)?;
        put_new(green, || {
            let process = process()?;
            let range = *process.ready()?.descriptors.get(descriptor)?;
            green::create(process, range)
        })
    }

    fn cuGreenCtxDestroy(green: Handle) { green::destroy(green) }
    fn cuCtxFromGreenCtx(context: *mut Handle, green: Handle) {
        let entry = *process()?.ready()?.greens.get(green)?;
        put(context, entry.context as Handle)
    }
}

/// `CUctxCreateParams` (cuda.h).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CreateParams {
    affinities: *const c_void,
    affinity_count: c_int,
    graphics: *const c_void,
}

fn succeed(number: i32) -> Result<(), Code> {
    if number == 0 { Ok(()) } else { Err(Code(number)) }
}

/// Shares of the SMs for a context are for MPS clients (cuCtxCreate_v3), by percentage here.
fn check_affinities(affinities: *const c_void, count: c_int) -> Result<(), Code> {
    match count {
        0 => Ok(()),
        1.. if !affinities.is_null() => Err(code::UNSUPPORTED_EXEC_AFFINITY),
        _ => Err(code::INVALID_VALUE),
    }
}

/// Runs a call with a context current, for its duration; the null handle means the current one.
fn within(context: Handle, call: impl FnOnce() -> i32) -> Result<(), Code> {
    if context.is_null() {
        return succeed(call());
    }
    push_current(context, context::for_one_thread(context)?)?;
    let number = call();
    let _ = pop_current();
    succeed(number)
}

// Green contexts: SMs set aside for some streams of one process.
//
// A green context lives in the primary context's address space and its kernels run beside those of
// the process's other green contexts, each on its own SMs. Nothing else is divided: memory,
// bandwidth and the end by a fault are the whole process's.

/// `CU_DEV_RESOURCE_TYPE_SM` (cuda.h).
const TYPE_SM: c_uint = 1;

/// `CU_GREEN_CTX_DEFAULT_STREAM` (cuda.h): the only flag, and it is needed.
const DEFAULT_STREAM: c_uint = 1;

/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING` (cuda.h).
const IGNORE_COSCHEDULING: c_uint = 1;

/// Splits of this process. That two of them choose the same SMs is documented nowhere, so every
/// second one numbers its groups from the last.
static SPLITS: AtomicU32 = AtomicU32::new(0);

/// `CUdevResource` (cuda.h, CUDA 13): the vendor keeps a hidden part; here it holds the first SM.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    kind: c_uint,
    first: c_uint,
    _hidden: [u8; 88],
    sm_count: c_uint,
    min_partition: c_uint,
    alignment: c_uint,
    flags: c_uint,
    _rest: [u8; 24],
    next: *mut Resource,
}

impl Resource {
    fn new(process: &Process, range: SmRange) -> Self {
        let (major, _) = process.device.machine().compute_capability();
        let (min_partition, alignment) = granularity(major, false);
        Self {
            kind: TYPE_SM,
            first: range.first,
            _hidden: [0; 88],
            sm_count: range.count,
            min_partition,
            alignment,
            flags: 0,
            _rest: [0; 24],
            next: std::ptr::null_mut(),
        }
    }

    const fn range(&self) -> SmRange {
        SmRange { first: self.first, count: self.sm_count }
    }
}

#[cfg(test)]
mod tests {
    use super::Resource;

    #[test]
    fn the_structure_is_the_header_s() {
        assert_eq!(size_of::<Resource>(), 144);
        assert_eq!(std::mem::offset_of!(Resource, sm_count), 96);
        assert_eq!(std::mem::offset_of!(Resource, next), 136);
    }
}
