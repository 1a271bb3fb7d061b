//! Physical memory in a process without a context: no call ties it to one.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::{AccessDescriptor, AllocationProperties, Location};

use super::*;

const PAGE: usize = 2 << 20;

#[test]
fn physical_memory_needs_no_context_and_outlives_them() -> Result<(), Error> {
    with_context(|| {
        let before = free_bytes()?;
        let properties = AllocationProperties {
            kind: 1,
            handle_types: 1,
            location: Location::DEVICE,
            win32_metadata: null_mut(),
            flags: [0; 8],
        };
        let access = AccessDescriptor { location: Location::DEVICE, flags: 3 };
        let (mut current, mut handle, mut at): (Handle, u64, u64) = (null_mut(), 0, 0);
        // SAFETY: valid pointers and handles.
        unsafe {
            ok(cuCtxPopCurrent_v2(&raw mut current))?;
            ok(cuMemCreate(&raw mut handle, PAGE, &raw const properties, 0))?;
            let properties = &raw const properties;
            assert_eq!(cuMemCreate(&raw mut at, 1 << 40, properties, 0), 2, "too much");
            ok(cuMemAddressReserve(&raw mut at, PAGE, 0, 0, 0))?;
            let mut pointer = 0;
            assert_eq!(cuMemAlloc_v2(&raw mut pointer, PAGE), 201, "of a context");
            // A context that ends takes its own memory with it.
            let mut other: Handle = null_mut();
            ok(cuCtxCreate_v2(&raw mut other, 0, 0))?;
            ok(cuCtxDestroy_v2(other))?;
            ok(cuCtxPushCurrent_v2(current))?;
            assert_eq!(before - free_bytes()?, PAGE);
            ok(cuMemMap(at, PAGE, 0, handle, 0))?;
            ok(cuMemSetAccess(at, PAGE, &raw const access, 1))?;
            ok(cuMemsetD32_v2(at, 7, 4))?;
            assert_eq!(words(at, 4)?, [7; 4]);
            ok(cuMemUnmap(at, PAGE))?;
            ok(cuMemAddressFree(at, PAGE))?;
            ok(cuMemRelease(handle))?;
        }
        assert_eq!(free_bytes()?, before);
        Ok(())
    })
}
