//! Memory: of the device, arrays, managed and pinned memory, pools, physical memory and its maps,
//! memory and events of other processes, copies and fills.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::arguments::{put, put_new, put_optional, read};
use crate::cuda::layout::{
    AccessDescriptor, AllocationProperties, IpcHandle, Location, PoolProperties,
};
use gpubench_virtual_gpu_driver::calls::copies::{anywhere, device, host, queue};
use gpubench_virtual_gpu_driver::calls::{
    fills, ipc, managed, memory, pinned, pool, virtual_memory,
};
use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::fill_shape::Fill;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::pool::default_of;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::virtual_memory::{GRANULARITY, whole_maps};

entries! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (left, all) = memory::info()?;
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) {
        put_new(pointer, || memory::allocate(bytes))
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width_bytes: usize, height: usize,
        element_bytes: c_uint,
    ) {
        let row = memory::pitch(width_bytes, element_bytes)?;
        put_new(pitch, || {
            let bytes = row.checked_mul(height).ok_or(code::OUT_OF_MEMORY)?;
            put_new(pointer, || memory::allocate(bytes))?;
            Ok(row)
        })
    }

    fn cuMemFree_v2(pointer: u64) { memory::free(pointer) }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, pointer: u64) {
        let (start, bytes) = memory::range_of(pointer)?;
        put_optional(base, start);
        put_optional(size, bytes);
        Ok(())
    }

    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) {
        // CU_MEM_ATTACH_GLOBAL and CU_MEM_ATTACH_HOST are 1 and 2 (cuda.h).
        refuse(bytes == 0 || !(1..=2).contains(&flags), code::INVALID_VALUE)?;
        put_new(pointer, || managed::allocate(bytes))
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        put_new(pointer, || pinned::allocate(bytes, flags))
    }

    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        put_new(pointer, || pinned::allocate(bytes, 0))
    }

    fn cuMemFreeHost(pointer: *mut c_void) { pinned::free(pointer as usize) }
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) {
        pinned::register(pointer, bytes, flags)
    }

    fn cuMemHostUnregister(pointer: *mut c_void) { pinned::unregister(pointer) }
    fn cuMemHostGetDevicePointer_v2(
        device_pointer: *mut u64, pointer: *mut c_void, flags: c_uint,
    ) { put(device_pointer, pinned::device_pointer(pointer, flags)?) }
    fn cuMemAllocAsync, cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Handle) {
        put_new(pointer, || pool::allocate(None, bytes, stream))
    }

    fn cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz(
        pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle,
    ) { put_new(pointer, || pool::allocate(Some(pool), bytes, stream)) }
    fn cuMemFreeAsync, cuMemFreeAsync_ptsz(pointer: u64, stream: Handle) {
        pool::free(pointer, stream)
    }

    fn cuMemPoolCreate(pool: *mut Handle, properties: *const PoolProperties) {
        let properties = read(properties)?;
        // CU_MEM_ALLOCATION_TYPE_PINNED is 1 (cuda.h). Pools cannot be exported.
        if properties.kind != 1 || properties.location != Location::DEVICE {
            return Err(code::INVALID_VALUE);
        }
        refuse(properties.handle_types != 0, code::NOT_SUPPORTED)?;
        put_new(pool, || pool::create(properties.max_bytes as u64))
    }

    fn cuMemPoolDestroy(pool: Handle) { pool::destroy(pool) }
    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        // The first three attributes are of type int, the others are 64-bit numbers (cuda.h).
        let value = match attribute {
            1..=3 => read(value.cast::<c_int>())? as u64,
            4 | 6 | 8 => read(value.cast::<u64>())?,
            _ => return Err(code::INVALID_VALUE),
        };
        pool::set_attribute(process()?.ready()?.pools.get_mut(pool)?, attribute, value)
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let tables = process.ready()?;
        let entry = tables.pools.get(pool)?;
        // An H100 80GB HBM3 refused them (driver 580.159.04 of CUDA 13.0, 2026-11-22).
        if attribute > 8 && !process.device.machine().is_after_cuda_13_0() {
            return Err(code::INVALID_VALUE);
        }
        match pool::attribute_of(entry, attribute)? {
            (found, true) => put(value.cast(), found),
            (found, false) => put(value.cast(), found as c_int),
        }
    }

    fn cuMemPoolSetAccess(pool: Handle, access: *const AccessDescriptor, count: usize) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        // The device that owns the pool cannot be locked out of it, and there is no other.
        for index in 0..count.min(64) {
            let access = read(access.wrapping_add(index))?;
            refuse(access.location != Location::DEVICE || access.flags != 3, code::INVALID_VALUE)?;
        }
        Ok(())
    }

    // Programs cannot replace the default pool of the device.
    fn cuDeviceGetDefaultMemPool, cuDeviceGetMemPool(pool: *mut Handle, device: c_int) {
        put(pool, default_of(device)? as Handle)
    }

    fn cuMemGetAllocationGranularity(
        bytes: *mut usize, properties: *const AllocationProperties, which: c_int,
    ) {
        check_properties(&read(properties)?)?;
        refuse(!(0..=1).contains(&which), code::INVALID_VALUE)?;
        drop(process()?.ready()?);
        put(bytes, GRANULARITY as usize)
    }

    fn cuMemCreate(
        handle: *mut u64, bytes: usize, properties: *const AllocationProperties, flags: c_ulonglong,
    ) {
        let properties = read(properties)?;
        check_properties(&properties)?;
        refuse(flags != 0, code::INVALID_VALUE)?;
        put_new(handle, || virtual_memory::create(bytes as u64, properties.handle_types == FILE))
    }

    fn cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: u64, kind: c_int, flags: c_ulonglong,
    ) {
        refuse(kind != FILE || flags != 0, code::INVALID_VALUE)?;
        put_new(shareable.cast::<c_int>(), || virtual_memory::export(handle))
    }

    // The descriptor itself is passed as if it were a pointer (cuda.h).
    fn cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut c_void, kind: c_int) {
        let descriptor = c_int::try_from(shareable as usize).ok().filter(|_| kind == FILE);
        put_new(handle, || virtual_memory::import(descriptor.ok_or(code::INVALID_VALUE)?))
    }

    fn cuMemRelease(handle: u64) { virtual_memory::release(handle) }
    fn cuMemRetainAllocationHandle(handle: *mut u64, pointer: *mut c_void) {
        put_new(handle, || virtual_memory::retain(pointer as u64))
    }

    fn cuMemAddressReserve(
        pointer: *mut u64, bytes: usize, alignment: usize, wish: u64, flags: c_ulonglong,
    ) {
        refuse(flags != 0, code::INVALID_VALUE)?;
        put_new(pointer, || virtual_memory::reserve(bytes as u64, alignment, wish))
    }

    fn cuMemAddressFree(pointer: u64, bytes: usize) { virtual_memory::free(pointer, bytes as u64) }
    fn cuMemMap(pointer: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        // The header allows no offset yet (cuMemMap).
        refuse(offset != 0 || flags != 0, code::INVALID_VALUE)?;
        virtual_memory::map(pointer, bytes as u64, handle)
    }

    fn cuMemUnmap(pointer: u64, bytes: usize) { virtual_memory::unmap(pointer, bytes as u64) }
    fn cuMemSetAccess(pointer: u64, bytes: usize, access: *const AccessDescriptor, count: usize) {
        let process = process()?;
        let mut tables = process.ready()?;
        let maps = whole_maps(&tables, pointer, bytes as u64)?;
        refuse(count == 0, code::INVALID_VALUE)?;
        for index in 0..count.min(64) {
            let access = read(access.wrapping_add(index))?;
            // CU_MEM_ACCESS_FLAGS_PROT_NONE, READ and READWRITE are 0, 1 and 3 (cuda.h).
            if access.location != Location::DEVICE || ![0, 1, 3].contains(&access.flags) {
                return Err(code::INVALID_VALUE);
            }
            for (address, _) in &maps {
                if let Some(entry) = tables.allocations.get_mut(address) {
                    entry.readable = access.flags & 1 != 0;
                    entry.writable = access.flags & 2 != 0;
                }
            }
        }
        Ok(())
    }

    fn cuIpcGetMemHandle(handle: *mut IpcHandle, pointer: u64) {
        put(handle, IpcHandle(ipc::memory_handle(pointer)?))
    }

    fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: IpcHandle, flags: c_uint) {
        // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS is the only flag, and is required (cuda.h).
        refuse(flags != 1, code::INVALID_VALUE)?;
        put_new(pointer, || ipc::open_memory(&handle.0))
    }

    fn cuIpcCloseMemHandle(pointer: u64) { ipc::close_memory(pointer) }
    fn cuIpcGetEventHandle(handle: *mut IpcHandle, event: Handle) {
        put(handle, IpcHandle(ipc::event_handle(event)?))
    }

    fn cuIpcOpenEventHandle(event: *mut Handle, handle: IpcHandle) {
        put_new(event, || ipc::open_event(&handle.0))
    }

    fn cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, bytes: usize) {
        queue(device(to), host(from), bytes, None)
    }

    fn cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz(
        to: u64, from: *const c_void, bytes: usize, stream: Handle,
    ) { queue(device(to), host(from), bytes, Some(stream)) }
    fn cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: u64, bytes: usize) {
        queue(host(to), device(from), bytes, None)
    }

    fn cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void, from: u64, bytes: usize, stream: Handle,
    ) { queue(host(to), device(from), bytes, Some(stream)) }
    fn cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) {
        queue(device(to), device(from), bytes, None)
    }

    fn cuMemcpy, cuMemcpy_ptds(to: u64, from: u64, bytes: usize) {
        queue(anywhere(to), anywhere(from), bytes, None)
    }

    fn cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz(
        to: u64, from: u64, bytes: usize, stream: Handle,
    ) { queue(device(to), device(from), bytes, Some(stream)) }
    fn cuMemcpyAsync, cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) {
        queue(anywhere(to), anywhere(from), bytes, Some(stream))
    }

    fn cuMemsetD8_v2, cuMemsetD8_v2_ptds(pointer: u64, value: u8, count: usize) {
        fills::queue(Fill::of(pointer, value.into(), 1, count), None)
    }

    fn cuMemsetD8Async, cuMemsetD8Async_ptsz(
        pointer: u64, value: u8, count: usize, stream: Handle,
    ) { fills::queue(Fill::of(pointer, value.into(), 1, count), Some(stream)) }
    fn cuMemsetD16_v2, cuMemsetD16_v2_ptds(pointer: u64, value: u16, count: usize) {
        fills::queue(Fill::of(pointer, value.into(), 2, count), None)
    }

    fn cuMemsetD16Async, cuMemsetD16Async_ptsz(
        pointer: u64, value: u16, count: usize, stream: Handle,
    ) { fills::queue(Fill::of(pointer, value.into(), 2, count), Some(stream)) }
    fn cuMemsetD32_v2, cuMemsetD32_v2_ptds(pointer: u64, value: c_uint, count: usize) {
        fills::queue(Fill::of(pointer, value, 4, count), None)
    }

    fn cuMemsetD32Async, cuMemsetD32Async_ptsz(
        pointer: u64, value: c_uint, count: usize, stream: Handle,
    ) { fills::queue(Fill::of(pointer, value, 4, count), Some(stream)) }
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR` (cuda.h).
const FILE: c_int = 1;

fn check_properties(properties: &AllocationProperties) -> Result<(), Code> {
    // CU_MEM_ALLOCATION_TYPE_PINNED is 1 (cuda.h).
    refuse(properties.kind != 1 || properties.location != Location::DEVICE, code::INVALID_VALUE)?;
    match properties.handle_types {
        0 | FILE => Ok(()),
        2 | 4 | 8 => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}
