//! Pools, mappings, managed and pinned memory, arrays.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::{
    AccessDescriptor, AllocationProperties, ArrayDescriptor, IpcHandle, Location, PoolProperties,
};

use super::*;

const MIB: usize = 1 << 20;

#[test]
fn a_pool_keeps_freed_memory_until_a_synchronisation() -> Result<(), Error> {
    with_context(|| {
        let (stream, before) = (stream()?, free_bytes()?);
        let (mut pool, mut first, mut second): (Handle, u64, u64) = (null_mut(), 0, 0);
        let mut used = 0_u64;
        let read = |pool, attribute, into: &mut u64| {
            call!(cuMemPoolGetAttribute(pool, attribute, std::ptr::from_mut(into).cast()))
        };
        ok!(cuDeviceGetDefaultMemPool(&raw mut pool, 0))?;
        ok!(cuMemAllocAsync(&raw mut first, 4 * MIB, stream))?;
        assert_eq!(before - free_bytes()?, 4 * MIB, "used memory counts");
        ok(read(pool, 7, &mut used))?;
        assert_eq!(used, 4 << 20);
        ok!(cuMemFreeAsync(first, stream))?;
        assert_eq!(before - free_bytes()?, 4 * MIB, "kept until a wait");
        ok!(cuMemAllocAsync(&raw mut second, 4 * MIB, stream))?;
        assert_eq!(second, first, "kept memory is reused");
        ok!(cuMemsetD8Async(second, 7, 4 * MIB, stream))?;
        assert_eq!(words(second, 1)?, [0x0707_0707]);
        ok!(cuMemFreeAsync(second, stream))?;
        ok!(cuStreamSynchronize(stream))?;
        assert_eq!(free_bytes()?, before, "back after the wait");
        ok(read(pool, 6, &mut used))?;
        assert_eq!(used, 4 << 20, "the high watermark stays");
        // A threshold keeps it beyond the wait.
        let mut keep = u64::MAX;
        ok!(cuMemPoolSetAttribute(pool, 4, (&raw mut keep).cast()))?;
        ok!(cuMemAllocAsync(&raw mut first, MIB, stream))?;
        ok!(cuMemFreeAsync(first, stream))?;
        ok!(cuCtxSynchronize())?;
        assert_eq!(before - free_bytes()?, 2 * MIB, "a large page is kept");
        keep = 0;
        ok!(cuMemPoolSetAttribute(pool, 4, (&raw mut keep).cast()))?;
        ok!(cuCtxSynchronize())?;
        assert_eq!(free_bytes()?, before);
        // Invalid use.
        assert_eq!(call!(cuMemAllocAsync(&raw mut first, 1 << 40, stream)), 2);
        assert_eq!(call!(cuMemAllocAsync(&raw mut first, 0, stream)), 1);
        assert_eq!(call!(cuMemFreeAsync(second, stream)), 1, "freed already");
        assert_eq!(call!(cuMemPoolDestroy(pool)), 1, "the default pool stays");
        assert_eq!(call!(cuMemPoolGetAttribute(pool, 4, null_mut())), 1);
        Ok(())
    })
}

#[test]
fn a_created_pool_has_its_limit() -> Result<(), Error> {
    with_context(|| {
        let (mut pool, mut pointer): (Handle, u64) = (null_mut(), 0);
        let properties = pool_properties(4 * MIB);
        ok!(cuMemPoolCreate(&raw mut pool, &raw const properties))?;
        let over = call!(cuMemAllocFromPoolAsync(&raw mut pointer, 6 * MIB, pool, null_mut()));
        assert_eq!(over, 2);
        ok!(cuMemAllocFromPoolAsync(&raw mut pointer, 4 * MIB, pool, null_mut()))?;
        ok!(cuMemPoolDestroy(pool))?;
        assert_eq!(call!(cuMemPoolDestroy(pool)), 400);
        ok!(cuMemFree_v2(pointer))
    })
}

pub fn pool_properties(max_bytes: usize) -> PoolProperties {
    PoolProperties {
        kind: 1,
        handle_types: 0,
        location: Location::DEVICE,
        win32_attributes: null_mut(),
        max_bytes,
        reserved: [0; 56],
    }
}

pub fn properties() -> AllocationProperties {
    AllocationProperties {
        kind: 1,
        handle_types: 1,
        location: Location::DEVICE,
        win32_metadata: null_mut(),
        flags: [0; 8],
    }
}

#[test]
fn mapped_memory_needs_access_rights() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let before = free_bytes()?;
        let (mut at, mut handles, mut page) = (0, [0_u64; 2], 0);
        let properties = properties();
        let access = AccessDescriptor { location: Location::DEVICE, flags: 3 };
        ok!(cuMemGetAllocationGranularity(&raw mut page, &raw const properties, 0))?;
        assert_eq!(page, 2 * MIB);
        ok!(cuMemAddressReserve(&raw mut at, 2 * page, 0, 0, 0))?;
        for (index, handle) in handles.iter_mut().enumerate() {
            ok!(cuMemCreate(handle, page, &raw const properties, 0))?;
            ok!(cuMemMap(at + (index * page) as u64, page, 0, *handle, 0))?;
        }
        assert_eq!(before - free_bytes()?, 2 * page);
        assert_eq!(call!(cuMemMap(at, page, 0, handles[0], 0)), 208, "mapped already");
        assert_eq!(call!(cuMemsetD8_v2(at, 1, 16)), 1, "no access yet");
        ok!(cuMemSetAccess(at, 2 * page, &raw const access, 1))?;
        // Across the boundary between the two.
        let border = at + page as u64 - 16;
        let data: Vec<u32> = (0..8).collect();
        ok!(cuMemcpyHtoD_v2(border, data.as_ptr().cast(), 32))?;
        assert_eq!(words(border, 8)?, data);
        let to = alloc(32)?;
        ok(launch(copy, 1, 32, null_mut(), &mut [to, border, 2]))?;
        assert_eq!(words(to, 8)?, data);
        // A second map of the same pages sees the same bytes.
        let mut again = 0;
        ok!(cuMemAddressReserve(&raw mut again, page, 0, 0, 0))?;
        ok!(cuMemMap(again, page, 0, handles[1], 0))?;
        ok!(cuMemSetAccess(again, page, &raw const access, 1))?;
        ok(launch(copy, 1, 32, null_mut(), &mut [border, to, 2]))?;
        ok!(cuMemsetD32_v2(again, 0xFF, 1))?;
        assert_eq!(words(border, 8)?, [0, 1, 2, 3, 0xFF, 5, 6, 7]);
        ok(launch(copy, 1, 32, null_mut(), &mut [to, border, 2]))?;
        assert_eq!(words(to, 8)?[4], 0xFF, "the second mapping shows the change");
        // Pages live as long as a mapping of them.
        for handle in handles {
            ok!(cuMemRelease(handle))?;
            assert_eq!(call!(cuMemRelease(handle)), 1);
        }
        assert_eq!(call!(cuMemAddressFree(at, 2 * page)), 1, "still mapped");
        assert_eq!(call!(cuMemUnmap(at + 4096, page)), 1);
        ok!(cuMemUnmap(at, 2 * page))?;
        ok!(cuMemAddressFree(at, 2 * page))?;
        assert_eq!(words(again, 1)?, [0xFF]);
        ok!(cuMemUnmap(again, page))?;
        ok!(cuMemAddressFree(again, page))?;
        ok!(cuMemFree_v2(to))?;
        assert_eq!(free_bytes()?, before);
        Ok(())
    })
}

#[test]
fn physical_memory_comes_in_whole_pages() -> Result<(), Error> {
    with_context(|| {
        let (mut handle, properties) = (0, properties());
        for (bytes, code) in [(0, 1), (1, 1), (3 * MIB, 1), (1 << 40, 2)] {
            let found = call!(cuMemCreate(&raw mut handle, bytes, &raw const properties, 0));
            assert_eq!(found, code, "{bytes} bytes");
        }
        Ok(())
    })
}

#[test]
fn host_and_kernels_share_managed_memory() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let before = free_bytes()?;
        let (mut from, mut to) = (0_u64, 0_u64);
        // SAFETY: valid pointers; managed memory of that size is accessible to the host.
        unsafe {
            ok(cuMemAllocManaged(&raw mut from, 4096, 1))?;
            ok(cuMemAllocManaged(&raw mut to, 4096, 1))?;
            assert_eq!(before - free_bytes()?, 4 * MIB, "two pages of it");
            let source = std::slice::from_raw_parts_mut(from as *mut u32, 1024);
            let target = to as *const u32;
            assert!(source.iter().all(|word| *word == 0), "new memory is zero");
            for round in 1..4 {
                source.fill(round);
                ok(launch(copy, 2, 128, null_mut(), &mut [to, from, 256]))?;
                ok(cuCtxSynchronize())?;
                assert_eq!(target.add(1023).read_volatile(), round, "written by the host only");
            }
            // Managed memory cannot exceed the device's memory.
            let mut huge = 0;
            assert_eq!(cuMemAllocManaged(&raw mut huge, before, 1), 2);
            assert_eq!(cuMemAllocManaged(&raw mut huge, 16, 9), 1);
            ok(cuMemFree_v2(from))?;
            ok(cuMemFree_v2(to))?;
            assert_eq!(cuMemFree_v2(to), 1);
        }
        assert_eq!(free_bytes()?, before);
        Ok(())
    })
}

#[test]
fn kernels_read_and_write_pinned_memory_in_place() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (mut pinned, mut at): (*mut c_void, u64) = (null_mut(), 0);
        let mut own = vec![3_u32; 1024];
        let place = own.as_mut_ptr().cast::<c_void>();
        // SAFETY: valid pointers; `own` outlives its registration.
        unsafe {
            ok(cuMemHostAlloc(&raw mut pinned, 4096, 2))?;
            ok(cuMemHostRegister_v2(place, 4096, 0))?;
            assert_eq!(cuMemHostRegister_v2(place, 4096, 0), 712);
            assert_eq!(cuMemHostRegister_v2(place.add(8), 8, 0), 712);
            ok(cuMemHostGetDevicePointer_v2(&raw mut at, pinned, 0))?;
            for round in [3, 4] {
                own.fill(round);
                ok(launch(copy, 2, 128, null_mut(), &mut [at, place as u64, 256]))?;
                ok(cuCtxSynchronize())?;
                assert_eq!(pinned.cast::<u32>().add(1023).read(), round);
            }
            assert_eq!(cuMemFreeHost(place), 1, "registered, not allocated");
            ok(cuMemHostUnregister(place))?;
            assert_eq!(cuMemHostUnregister(place), 713);
            assert_eq!(cuMemHostUnregister(null_mut()), 1);
            ok(cuMemFreeHost(pinned))?;
            assert_eq!(cuMemFreeHost(pinned), 1);
            // After unregistration it is no longer mapped.
            assert_eq!(launch(copy, 1, 32, null_mut(), &mut [place as u64, at, 2]), 0);
            assert_eq!(cuCtxSynchronize(), 700);
        }
        Ok(())
    })
}

#[test]
fn pitched_memory_and_arrays_have_whole_rows() -> Result<(), Error> {
    with_context(|| {
        let (mut at, mut pitch, before) = (0, 0, free_bytes()?);
        let mut array: Handle = null_mut();
        let mut descriptor = ArrayDescriptor { width: 1024, height: 2048, format: 1, channels: 1 };
        ok!(cuMemAllocPitch_v2(&raw mut at, &raw mut pitch, 10, 6, 4))?;
        assert_eq!(pitch, 512);
        ok!(cuMemsetD8_v2(at, 99, 6 * pitch))?;
        ok!(cuMemFree_v2(at))?;
        ok!(cuArrayCreate_v2(&raw mut array, &raw const descriptor))?;
        assert_eq!(before - free_bytes()?, 2 * MIB);
        ok!(cuArrayDestroy(array))?;
        assert_eq!(call!(cuArrayDestroy(array)), 400);
        descriptor.width = 0;
        assert_eq!(call!(cuArrayCreate_v2(&raw mut array, &raw const descriptor)), 1);
        assert_eq!(call!(cuArrayCreate_v2(&raw mut array, std::ptr::null())), 1);
        assert_eq!(free_bytes()?, before);
        Ok(())
    })
}

#[test]
fn a_process_cannot_open_its_own_memory() -> Result<(), Error> {
    with_context(|| {
        let at = alloc(4096)?;
        let (mut start, mut handle) = (0_u64, IpcHandle([0; 64]));
        ok!(cuIpcGetMemHandle(&raw mut handle, at))?;
        assert_eq!(call!(cuIpcOpenMemHandle_v2(&raw mut start, handle, 1)), 201);
        handle.0[0] ^= 1;
        assert_eq!(call!(cuIpcOpenMemHandle_v2(&raw mut start, handle, 1)), 1);
        assert_eq!(call!(cuIpcGetMemHandle(&raw mut handle, 12)), 1);
        Ok(())
    })
}

// No call ties physical memory to a context.
#[test]
fn physical_memory_needs_no_context_and_outlives_them() -> Result<(), Error> {
    with_context(|| {
        let before = free_bytes()?;
        let properties = properties();
        let access = AccessDescriptor { location: Location::DEVICE, flags: 3 };
        let (mut current, mut handle, mut at): (Handle, u64, u64) = (null_mut(), 0, 0);
        ok!(cuCtxPopCurrent_v2(&raw mut current))?;
        ok!(cuMemCreate(&raw mut handle, 2 * MIB, &raw const properties, 0))?;
        let properties = &raw const properties;
        assert_eq!(call!(cuMemCreate(&raw mut at, 1 << 40, properties, 0)), 2, "too much");
        ok!(cuMemAddressReserve(&raw mut at, 2 * MIB, 0, 0, 0))?;
        let mut pointer = 0;
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 2 * MIB)), 201, "of a context");
        // A context that ends takes its own memory with it.
        let mut other: Handle = null_mut();
        ok!(cuCtxCreate_v2(&raw mut other, 0, 0))?;
        ok!(cuCtxDestroy_v2(other))?;
        ok!(cuCtxPushCurrent_v2(current))?;
        assert_eq!(before - free_bytes()?, 2 * MIB);
        ok!(cuMemMap(at, 2 * MIB, 0, handle, 0))?;
        ok!(cuMemSetAccess(at, 2 * MIB, &raw const access, 1))?;
        ok!(cuMemsetD32_v2(at, 7, 4))?;
        assert_eq!(words(at, 4)?, [7; 4]);
        ok!(cuMemUnmap(at, 2 * MIB))?;
        ok!(cuMemAddressFree(at, 2 * MIB))?;
        ok!(cuMemRelease(handle))?;
        assert_eq!(free_bytes()?, before);
        Ok(())
    })
}
