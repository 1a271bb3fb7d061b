//! The structures of cuda.h that calls take, bit for bit.

use std::ffi::{c_int, c_uint, c_void};

use gpubench_virtual_gpu_driver::handles::Handle;

c_structs! {
    /// `CUDA_ARRAY_DESCRIPTOR_v2`.
    pub struct ArrayDescriptor {
        pub width: usize,
        pub height: usize,
        pub format: c_int,
        pub channels: c_uint,
    }

    /// `CUDA_ARRAY3D_DESCRIPTOR_v2`.
    pub struct Array3dDescriptor {
        pub width: usize,
        pub height: usize,
        pub depth: usize,
        pub format: c_int,
        pub channels: c_uint,
        pub flags: c_uint,
    }

    /// One side of `CUDA_MEMCPY2D_v2`.
    pub struct Side2d {
        pub x_bytes: usize,
        pub y: usize,
        pub kind: c_int,
        pub host: *mut c_void,
        pub device: u64,
        pub array: Handle,
        pub pitch: usize,
    }

    /// `CUDA_MEMCPY2D_v2`.
    pub struct Copy2d {
        pub from: Side2d,
        pub to: Side2d,
        pub width_bytes: usize,
        pub height: usize,
    }

    /// `CUDA_RESOURCE_DESC_v1`; the union by the words that it has for an array and for memory.
    pub struct ResourceDescriptor {
        pub kind: c_int,
        pub handle: u64,
        pub format: c_int,
        pub channels: c_uint,
        pub sizes: [usize; 3],
        pub rest: [u64; 11],
        pub flags: c_uint,
    }

    /// `CUDA_TEXTURE_DESC_v1`.
    pub struct TextureDescriptor {
        pub modes: [c_uint; 3],
        pub filter: c_uint,
        pub flags: c_uint,
        pub rest: [c_uint; 5],
        pub border: [f32; 4],
        pub reserved: [c_int; 12],
    }

    /// `CUmemLocation_v1`.
    #[derive(PartialEq, Eq)]
    pub struct Location {
        pub kind: c_int,
        pub id: c_int,
    }
}

impl Location {
    /// The device, as `CU_MEM_LOCATION_TYPE_DEVICE` of ordinal 0.
    pub const DEVICE: Self = Self { kind: 1, id: 0 };
}

c_structs! {
    /// `CUmemAllocationProp_v1`.
    pub struct AllocationProperties {
        pub kind: c_int,
        pub handle_types: c_int,
        pub location: Location,
        pub win32_metadata: *mut c_void,
        pub flags: [u8; 8],
    }

    /// `CUmemAccessDesc_v1`.
    pub struct AccessDescriptor {
        pub location: Location,
        pub flags: c_int,
    }

    /// `CUmemPoolProps_v1`.
    pub struct PoolProperties {
        pub kind: c_int,
        pub handle_types: c_int,
        pub location: Location,
        pub win32_attributes: *mut c_void,
        pub max_bytes: usize,
        pub reserved: [u8; 56],
    }
}

/// `CUipcMemHandle_v1` and `CUipcEventHandle_v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct IpcHandle(pub [u8; 64]);

c_structs! {
    /// `CUDA_MEM_ALLOC_NODE_PARAMS_v1`.
    pub struct AllocNode {
        pub pool: PoolProperties,
        pub access: *const AccessDescriptor,
        pub access_count: usize,
        pub bytes: usize,
        pub pointer: u64,
    }

    pub struct LaunchAttribute {
        pub id: c_int,
        pub pad: [u8; 4],
        pub value: [u32; 16],
    }

    pub struct LaunchConfig {
        pub grid: [c_uint; 3],
        pub block: [c_uint; 3],
        pub shared_bytes: c_uint,
        pub stream: Handle,
        pub attributes: *const LaunchAttribute,
        pub attribute_count: c_uint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that a C compiler gives these structures on 64-bit Linux (cuda.h of CUDA 13.5).
    #[test]
    fn sizes_are_those_of_the_header() {
        let sizes = [
            ("CUDA_ARRAY_DESCRIPTOR_v2", size_of::<ArrayDescriptor>(), 24),
            ("CUDA_ARRAY3D_DESCRIPTOR_v2", size_of::<Array3dDescriptor>(), 40),
            ("CUDA_MEMCPY2D_v2", size_of::<Copy2d>(), 128),
            ("CUDA_RESOURCE_DESC_v1", size_of::<ResourceDescriptor>(), 144),
            ("CUDA_TEXTURE_DESC_v1", size_of::<TextureDescriptor>(), 104),
            ("CUmemAllocationProp_v1", size_of::<AllocationProperties>(), 32),
            ("CUmemAccessDesc_v1", size_of::<AccessDescriptor>(), 12),
            ("CUmemPoolProps_v1", size_of::<PoolProperties>(), 88),
            ("CUDA_MEM_ALLOC_NODE_PARAMS_v1", size_of::<AllocNode>(), 120),
            ("CUlaunchAttribute", size_of::<LaunchAttribute>(), 72),
            ("CUlaunchConfig", size_of::<LaunchConfig>(), 56),
        ];
        for (name, found, wanted) in sizes {
            assert_eq!(found, wanted, "{name}");
        }
    }
}
