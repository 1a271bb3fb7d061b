//! Random calls on memory, pools and mappings.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::{
    AccessDescriptor, AllocationProperties, IpcHandle, Location, PoolProperties,
};
use gpubench_virtual_gpu_driver::handles::Handle;

use super::{Fuzz, PHYSICAL, POOL, call};

pub fn properties(fuzz: &mut Fuzz) -> AllocationProperties {
    AllocationProperties {
        kind: fuzz.dice.of(&[1, 1, 1, 2]),
        handle_types: fuzz.dice.of(&[0, 1, 1, 8]),
        location: location(fuzz),
        win32_metadata: null_mut(),
        flags: [0; 8],
    }
}

pub fn location(fuzz: &mut Fuzz) -> Location {
    let other = Location { kind: fuzz.number(), id: fuzz.number() };
    fuzz.dice.of(&[Location::DEVICE, Location::DEVICE, Location::DEVICE, other])
}

pub fn pool_properties(fuzz: &mut Fuzz) -> PoolProperties {
    PoolProperties {
        kind: 1,
        handle_types: fuzz.dice.of(&[0, 0, 1]),
        location: location(fuzz),
        win32_attributes: null_mut(),
        max_bytes: fuzz.dice.of(&[0, 0, 1 << 20, 4 << 20]),
        reserved: [0; 56],
    }
}

pub fn memory(fuzz: &mut Fuzz) {
    let (mut at, mut more, bytes) = (0, 0, fuzz.size());
    let (pointer, handle, stream) = (fuzz.pointer(), fuzz.of_kind(POOL), fuzz.stream());
    let (mut word, number, flags) = ([0_u64; 8], fuzz.number(), fuzz.flags());
    let place: *mut c_void = word.as_mut_ptr().cast();
    match fuzz.dice.below(21) {
        0..=2 => drop(call!(fuzz, cuMemAlloc_v2(&raw mut at, bytes))),
        3 | 4 => drop(call!(fuzz, cuMemFree_v2(pointer))),
        5 => {
            let height = fuzz.size();
            call!(fuzz, cuMemAllocPitch_v2(&raw mut at, &raw mut more, bytes, height, 4));
        }
        6 | 7 => drop(call!(fuzz, cuMemAllocAsync(&raw mut at, bytes, stream))),
        8 => drop(call!(fuzz, cuMemAllocFromPoolAsync(&raw mut at, bytes, handle, stream))),
        9 => drop(call!(fuzz, cuMemFreeAsync(pointer, stream))),
        10 => {
            let (properties, mut pool) = (pool_properties(fuzz), null_mut());
            call!(fuzz, cuMemPoolCreate(&raw mut pool, &raw const properties));
            fuzz.keep(pool);
        }
        11 => drop(call!(fuzz, cuMemPoolDestroy(handle))),
        12 | 13 => drop(call!(fuzz, cuMemPoolGetAttribute(handle, number, place))),
        14 => drop(call!(fuzz, cuMemPoolSetAttribute(handle, number, place))),
        15 => drop(call!(fuzz, cuMemAllocManaged(&raw mut at, bytes, flags))),
        16 | 17 => drop(call!(fuzz, cuMemGetAddressRange_v2(&raw mut at, &raw mut more, pointer))),
        18 => drop(call!(fuzz, cuMemGetInfo_v2(&raw mut more, null_mut()))),
        19 => {
            let mut ipc = IpcHandle([0; 64]);
            call!(fuzz, cuIpcGetMemHandle(&raw mut ipc, pointer));
            ipc.0[fuzz.dice.below(64)] ^= 1;
            call!(fuzz, cuIpcOpenMemHandle_v2(&raw mut at, ipc, 1));
            call!(fuzz, cuIpcCloseMemHandle(pointer));
        }
        _ => drop(call!(fuzz, cuDeviceGraphMemTrim(fuzz.dice.of(&[0, 0, 1])))),
    }
    fuzz.keep_pointer(at);
}

pub fn mapping(fuzz: &mut Fuzz) {
    let (mut at, mut handle_out, bytes) = (0, 0, fuzz.size());
    let (pointer, handle) = (fuzz.pointer(), fuzz.of_kind(PHYSICAL) as u64);
    let page = fuzz.dice.of(&[2 << 20, 2 << 20, 2 << 20, 4 << 20, bytes]);
    match fuzz.dice.below(12) {
        0 => drop(call!(fuzz, cuMemAddressReserve(&raw mut at, page, 0, pointer, 0))),
        1 => drop(call!(fuzz, cuMemAddressFree(pointer, page))),
        2 | 3 => {
            let properties = properties(fuzz);
            call!(fuzz, cuMemCreate(&raw mut handle_out, page, &raw const properties, 0));
        }
        4 => drop(call!(fuzz, cuMemRelease(handle))),
        5 => drop(call!(fuzz, cuMemMap(pointer, page, 0, handle, 0))),
        6 => drop(call!(fuzz, cuMemUnmap(pointer, page))),
        7 => {
            let (location, other) = (location(fuzz), fuzz.number());
            let flags = fuzz.dice.of(&[3, 3, 1, other]);
            let access = AccessDescriptor { location, flags };
            call!(fuzz, cuMemSetAccess(pointer, page, &raw const access, 1));
        }
        8..=10 => {
            // The usual sequence of calls, sometimes with a random one in between.
            let properties = properties(fuzz);
            call!(fuzz, cuMemAddressReserve(&raw mut at, page, 0, 0, 0));
            call!(fuzz, cuMemCreate(&raw mut handle_out, page, &raw const properties, 0));
            let (to, from) = match fuzz.dice.below(6) {
                0 => (pointer, handle_out),
                1 => (at, handle),
                _ => (at, handle_out),
            };
            let length = fuzz.dice.of(&[page, page, page, 2 << 20, 4 << 20]);
            call!(fuzz, cuMemMap(to, length, 0, from, 0));
            let location = location(fuzz);
            let access = AccessDescriptor { location, flags: 3 };
            call!(fuzz, cuMemSetAccess(to, length, &raw const access, 1));
        }
        _ => {
            let retained = pointer as *mut c_void;
            call!(fuzz, cuMemRetainAllocationHandle(&raw mut handle_out, retained));
        }
    }
    fuzz.keep_pointer(at);
    fuzz.keep(handle_out as Handle);
}
