//! Managed memory: one address for host and device.

use std::ffi::{c_int, c_uint, c_void};

use crate::arguments::{put, put_new};
use crate::cuda::layout::Location;
use gpubench_virtual_gpu_driver::calls::managed::{self, CPU, advise, prefetch, within};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::NOWHERE;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) {
        // CU_MEM_ATTACH_GLOBAL and CU_MEM_ATTACH_HOST are 1 and 2 (cuda.h).
        if bytes == 0 || !(1..=2).contains(&flags) {
            return Err(code::INVALID_VALUE);
        }
        put_new(pointer, || managed::allocate(bytes))
    }

    fn cuMemAdvise(pointer: u64, bytes: usize, advice: c_int, device: c_int) {
        advise(pointer, bytes, advice, device)
    }

    fn cuMemAdvise_v2(pointer: u64, bytes: usize, advice: c_int, location: Location) {
        advise(pointer, bytes, advice, ordinal(location)?)
    }

    fn cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz(
        pointer: u64, bytes: usize, device: c_int, stream: Handle,
    ) {
        prefetch(pointer, bytes, device, stream)
    }

    fn cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz(
        pointer: u64, bytes: usize, location: Location, flags: c_uint, stream: Handle,
    ) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        prefetch(pointer, bytes, ordinal(location)?, stream)
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void, size: usize, attribute: c_int, pointer: u64, bytes: usize,
    ) {
        range_attribute(data, size, attribute, pointer, bytes)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void, sizes: *mut usize, attributes: *mut c_int, count: usize,
        pointer: u64, bytes: usize,
    ) {
        if data.is_null() || sizes.is_null() || attributes.is_null() || count == 0 {
            return Err(code::INVALID_VALUE);
        }
        for index in 0..count {
            let (place, size) = (*data.add(index), *sizes.add(index));
            range_attribute(place, size, *attributes.add(index), pointer, bytes)?;
        }
        Ok(())
    }

    fn cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz(
        stream: Handle, pointer: u64, bytes: usize, flags: c_uint,
    ) {
        let process = process()?;
        process.stream(stream)?;
        if ![1, 2, 4].contains(&flags) {
            return Err(code::INVALID_VALUE);
        }
        // Visibility is a promise of the program's; nothing here depends on it.
        within(&*process.ready()?, pointer, bytes.max(1)).map(|_| ())
    }
}

/// A location as the older calls name it.
fn ordinal(location: Location) -> Result<c_int, Code> {
    // CU_MEM_LOCATION_TYPE_DEVICE is 1; HOST, HOST_NUMA and HOST_NUMA_CURRENT are 2 to 4 (cuda.h).
    match location.kind {
        1 => Ok(location.id),
        2..=4 => Ok(CPU),
        _ => Err(code::INVALID_VALUE),
    }
}

unsafe fn range_attribute(
    data: *mut c_void,
    size: usize,
    attribute: c_int,
    pointer: u64,
    bytes: usize,
) -> Result<(), Code> {
    let tables = process()?.ready()?;
    let start = within(&tables, pointer, bytes)?;
    let known = tables.advice.get(&start).copied().unwrap_or_default();
    let place = data.cast::<c_int>();
    if data.is_null() || size < 4 || !size.is_multiple_of(4) {
        return Err(code::INVALID_VALUE);
    }
    // CUmem_range_attribute (cuda.h).
    let value = match attribute {
        1 => c_int::from(known.read_mostly),
        2 => known.preferred,
        3 => {
            let by = [(known.accessed_by[0], CPU), (known.accessed_by[1], 0)];
            let listed = by.iter().filter(|(used, _)| *used).map(|(_, who)| *who);
            for (index, who) in listed
                .chain(std::iter::repeat(NOWHERE))
                .take(size / 4)
                .enumerate()
            {
                put(place.wrapping_add(index), who)?;
            }
            return Ok(());
        }
        4 => known.fetched_to,
        5 | 7 => {
            let at = if attribute == 5 {
                known.preferred
            } else {
                known.fetched_to
            };
            match at {
                CPU => 2,
                NOWHERE => 0,
                _ => 1,
            }
        }
        6 => known.preferred.max(0),
        8 => known.fetched_to.max(0),
        _ => return Err(code::INVALID_VALUE),
    };
    put(place, value)
}
