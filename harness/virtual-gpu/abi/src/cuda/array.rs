//! Arrays.

use crate::arguments::{put_new, read};
use crate::cuda::layout::ArrayDescriptor;
use gpubench_virtual_gpu_driver::calls::array;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuArrayCreate_v2(array: *mut Handle, descriptor: *const ArrayDescriptor) {
        let ArrayDescriptor { width, height, format, channels } = read(descriptor)?;
        put_new(array, || array::create([width, height], format, channels))
    }

    fn cuArrayDestroy(array: Handle) {
        array::destroy(array)
    }
}
