//! Arrays.

use crate::arguments::{put, put_new, read};
use crate::cuda::layout::{Array3dDescriptor, ArrayDescriptor};
use gpubench_virtual_gpu_driver::calls::array;
use gpubench_virtual_gpu_driver::entries::ArrayEntry;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuArrayCreate_v2(array: *mut Handle, descriptor: *const ArrayDescriptor) {
        let ArrayDescriptor { width, height, format, channels } = read(descriptor)?;
        put_new(array, || array::create([width, height, 0], format, channels, 0))
    }

    fn cuArray3DCreate_v2(array: *mut Handle, descriptor: *const Array3dDescriptor) {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = read(descriptor)?;
        put_new(array, || array::create([width, height, depth], format, channels, flags))
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut ArrayDescriptor, array: Handle) {
        let ArrayEntry { sides, format, channels, .. } = *process()?.ready()?.arrays.get(array)?;
        let [width, height, _] = sides;
        put(descriptor, ArrayDescriptor { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut Array3dDescriptor, array: Handle) {
        let entry = *process()?.ready()?.arrays.get(array)?;
        let ArrayEntry { format, channels, flags, .. } = entry;
        let [width, height, depth] = entry.sides;
        put(descriptor, Array3dDescriptor { width, height, depth, format, channels, flags })
    }

    fn cuArrayDestroy(array: Handle) {
        array::destroy(array)
    }
}
