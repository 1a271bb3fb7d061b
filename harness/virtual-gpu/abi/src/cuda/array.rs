//! Arrays: device memory in the shape that textures want. There are no textures, only the bytes.

use crate::arguments::{put, read};
use crate::cuda::layout::{Array3dDescriptor, ArrayDescriptor};
use gpubench_virtual_gpu_driver::backing_store::BASE;
use gpubench_virtual_gpu_driver::calls::array::{FLAGS, WIDEST, channel_bytes};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::device_memory::{forget, take};
use gpubench_virtual_gpu_driver::entries::{ArrayEntry, Origin};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuArrayCreate_v2(array: *mut Handle, descriptor: *const ArrayDescriptor) {
        let flat = read(descriptor)?;
        create(array, &Array3dDescriptor {
            width: flat.width,
            height: flat.height,
            depth: 0,
            format: flat.format,
            channels: flat.channels,
            flags: 0,
        })
    }

    fn cuArray3DCreate_v2(array: *mut Handle, descriptor: *const Array3dDescriptor) {
        create(array, &read(descriptor)?)
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut ArrayDescriptor, array: Handle) {
        let entry = *process()?.ready()?.arrays.get(array)?;
        put(descriptor, ArrayDescriptor {
            width: entry.sides[0],
            height: entry.sides[1],
            format: entry.format,
            channels: entry.channels,
        })
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut Array3dDescriptor, array: Handle) {
        let entry = *process()?.ready()?.arrays.get(array)?;
        let [width, height, depth] = entry.sides;
        let ArrayEntry { format, channels, flags, .. } = entry;
        put(descriptor, Array3dDescriptor { width, height, depth, format, channels, flags })
    }

    fn cuArrayDestroy(array: Handle) {
        let process = process()?;
        process.current()?;
        let entry = *process.ready()?.arrays.get(array)?;
        process.device.wait_context(entry.context)?;
        process.device.charge_locked(process.device.machine().host.free_ns)?;
        forget(process, entry.address)?;
        process.tables().arrays.remove(array)?;
        Ok(())
    }
}

unsafe fn create(array: *mut Handle, wanted: &Array3dDescriptor) -> Result<(), Code> {
    let element_bytes = channel_bytes(wanted.format)
        .filter(|_| [1, 2, 4].contains(&wanted.channels))
        .map(|bytes| bytes * u64::from(wanted.channels))
        .ok_or(code::INVALID_VALUE)?;
    let sides = [wanted.width, wanted.height, wanted.depth];
    let too_wide = sides
        .iter()
        .zip(WIDEST)
        .any(|(side, widest)| *side > widest);
    if array.is_null() || wanted.width == 0 || too_wide || wanted.flags & !FLAGS != 0 {
        return Err(code::INVALID_VALUE);
    }
    // The widest of all are 2^47 elements of 16 bytes: no overflow.
    let elements: u64 = sides.iter().map(|&side| side.max(1) as u64).product();
    let bytes = elements * element_bytes;
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge_locked(process.device.machine().host.alloc_ns)?;
    let made = take(process, context.slot, bytes)?;
    let address = BASE + made.offset;
    let mut tables = process.tables();
    tables.enter(address, bytes, context.slot, made.offset, Origin::Array);
    let handle = tables.arrays.insert(ArrayEntry {
        address,
        context: context.slot,
        sides,
        format: wanted.format,
        channels: wanted.channels,
        flags: wanted.flags,
        element_bytes,
    })?;
    put(array, handle)
}
