//! Random calls on streams, events, arrays, functions, and random launches.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::{ArrayDescriptor, LaunchAttribute, LaunchConfig};
use gpubench_virtual_gpu_driver::handles::Handle;

use super::{ARRAY, BUFFER, EVENT, Fuzz, STREAM, call};

pub fn objects(fuzz: &mut Fuzz) {
    let kind = fuzz.dice.of(&[STREAM, EVENT, EVENT, ARRAY]);
    let (handle, stream, number) = (fuzz.of_kind(kind), fuzz.stream(), fuzz.number());
    let (mut made, flags) = (null_mut(), fuzz.flags());
    match fuzz.dice.below(10) {
        0 => drop(call!(fuzz, cuStreamCreateWithPriority(&raw mut made, flags, number))),
        1 => drop(call!(fuzz, cuStreamDestroy_v2(handle))),
        2 => drop(call!(fuzz, cuStreamSynchronize(stream))),
        3 => drop(call!(fuzz, cuStreamQuery(stream))),
        4 => drop(call!(fuzz, cuEventCreate(&raw mut made, flags))),
        5 => drop(call!(fuzz, cuEventDestroy_v2(handle))),
        6 => drop(call!(fuzz, cuEventRecord(handle, stream))),
        7 => {
            let event = fuzz.of_kind(EVENT);
            call!(fuzz, cuStreamWaitEvent(stream, event, flags));
        }
        8 => drop(call!(fuzz, cuEventSynchronize(handle))),
        _ => drop(call!(fuzz, cuEventQuery(handle))),
    }
    fuzz.keep(made);
}

pub fn memory_and_functions(fuzz: &mut Fuzz) {
    let (handle, number, flags) = (fuzz.of_kind(ARRAY), fuzz.number(), fuzz.flags());
    let (mut made, mut value) = (null_mut(), 0);
    match fuzz.dice.below(9) {
        0 => {
            let (format, channels) = (fuzz.number(), fuzz.dice.of(&[1, 2, 4, 3]));
            let (width, height) = (fuzz.size(), fuzz.small());
            let array = ArrayDescriptor { width, height, format, channels };
            call!(fuzz, cuArrayCreate_v2(&raw mut made, &raw const array));
        }
        1 | 2 => drop(call!(fuzz, cuArrayDestroy(handle))),
        3 | 4 => drop(call!(fuzz, cuFuncGetAttribute(&raw mut value, number, handle))),
        5 => {
            let (threads, shared) = (fuzz.number(), fuzz.size());
            let place = &raw mut value;
            let name = cuOccupancyMaxActiveBlocksPerMultiprocessor;
            // SAFETY: a valid pointer.
            let code = unsafe { name(place, handle, threads, shared) };
            fuzz.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code);
        }
        6 => {
            let mut block = 0;
            let (grid, block, limit) = (&raw mut value, &raw mut block, fuzz.number());
            call!(fuzz, cuOccupancyMaxPotentialBlockSize(grid, block, handle, None, 0, limit));
        }
        7 => {
            let (place, bytes) = (fuzz.registered.as_mut_ptr().cast(), BUFFER);
            if fuzz.dice.below(2) == 0 {
                call!(fuzz, cuMemHostRegister_v2(place, bytes, flags));
            } else {
                call!(fuzz, cuMemHostUnregister(place));
            }
        }
        _ => drop(call!(fuzz, cuCtxSynchronize())),
    }
    fuzz.keep(made);
}

pub fn launching(fuzz: &mut Fuzz, copy: Handle) {
    let function = if fuzz.dice.below(4) == 0 { fuzz.handle() } else { copy };
    // The addresses are valid or unmapped; the count is small, so that faults, which end the
    // context, stay rare.
    let mut args = [fuzz.pointer(), fuzz.pointer(), 0];
    let mut list: Vec<*mut c_void> =
        args.iter_mut().map(|arg| std::ptr::from_mut(arg).cast()).collect();
    let (grid, block) = ([fuzz.side(), 1, 1], [fuzz.side(), 1, 1]);
    let grid = if grid[0] > 65_535 { grid } else { [grid[0].min(64), 1, 1] };
    let (shared_bytes, stream) = (fuzz.dice.of(&[0, 0, 1024, u32::MAX]), fuzz.stream());
    let grid = if block[0] <= 1024 { [grid[0].min(64), 1, 1] } else { grid };
    let attribute = LaunchAttribute { id: fuzz.number(), pad: [0; 4], value: [1; 16] };
    let config = LaunchConfig {
        grid,
        block,
        shared_bytes,
        stream,
        attributes: &raw const attribute,
        attribute_count: fuzz.dice.of(&[0, 1]),
    };
    let params = if fuzz.dice.below(8) == 0 { null_mut() } else { list.as_mut_ptr() };
    call!(fuzz, cuLaunchKernelEx(&raw const config, function, params, null_mut()));
}
