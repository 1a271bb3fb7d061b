//! The structures of cuda.h that calls take, bit for bit, and what their fields mean here.

use std::ffi::{c_int, c_uint, c_void};

use gpubench_virtual_gpu_driver::calls::copies;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::copy_shape::{Copy, Place, Side};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::Process;

c_structs! {
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

    /// One side of `CUDA_MEMCPY3D_v2`.
    pub struct Side3d {
        pub x_bytes: usize,
        pub y: usize,
        pub z: usize,
        pub level: usize,
        pub kind: c_int,
        pub host: *mut c_void,
        pub device: u64,
        pub array: Handle,
        pub reserved: Handle,
        pub pitch: usize,
        pub height: usize,
    }

    /// `CUDA_MEMCPY3D_v2`.
    pub struct Copy3d {
        pub from: Side3d,
        pub to: Side3d,
        pub width_bytes: usize,
        pub height: usize,
        pub depth: usize,
    }
}

impl From<Side2d> for Side3d {
    fn from(side: Side2d) -> Self {
        Self {
            x_bytes: side.x_bytes,
            y: side.y,
            z: 0,
            level: 0,
            kind: side.kind,
            host: side.host,
            device: side.device,
            array: side.array,
            reserved: std::ptr::null_mut(),
            pitch: side.pitch,
            height: 0,
        }
    }
}

impl From<Copy2d> for Copy3d {
    fn from(copy: Copy2d) -> Self {
        Self {
            from: copy.from.into(),
            to: copy.to.into(),
            width_bytes: copy.width_bytes,
            height: copy.height,
            depth: 1,
        }
    }
}

impl Copy3d {
    /// The copy that the fields describe.
    pub fn resolve(&self, process: &Process) -> Result<Copy, Code> {
        Ok(Copy {
            to: self.side(process, &self.to)?,
            from: self.side(process, &self.from)?,
            width: self.width_bytes as u64,
            height: self.height as u64,
            depth: self.depth as u64,
        })
    }

    fn side(&self, process: &Process, side: &Side3d) -> Result<Side, Code> {
        let fits = |start: usize, length: usize, room: usize| {
            start.checked_add(length).is_some_and(|end| end <= room)
        };
        // CUmemorytype (cuda.h): host, device, array, unified.
        let (base, pitch, rows) = match side.kind {
            1 => (Place::Host(side.host as u64), side.pitch, side.height),
            2 => (copies::device(side.device)?, side.pitch, side.height),
            3 => {
                let array = *process.ready()?.arrays.get(side.array)?;
                let [width, height, depth] = array.sides.map(|side| side.max(1));
                let pitch = width * array.element_bytes as usize;
                if !fits(side.x_bytes, self.width_bytes, pitch)
                    || !fits(side.y, self.height, height)
                    || !fits(side.z, self.depth, depth)
                {
                    return Err(code::INVALID_VALUE);
                }
                (Place::Device(array.address), pitch, height)
            }
            4 => (copies::anywhere(side.device)?, side.pitch, side.height),
            _ => return Err(code::INVALID_VALUE),
        };
        // A pitch or height of 0 is allowed where there is only one row or slice.
        let pitch = if pitch == 0 && self.height <= 1 && self.depth <= 1 {
            side.x_bytes.saturating_add(self.width_bytes)
        } else {
            pitch
        };
        if side.level != 0 || !fits(side.x_bytes, self.width_bytes, pitch) {
            return Err(code::INVALID_VALUE);
        }
        let rows = if rows == 0 && self.depth <= 1 {
            self.height
        } else {
            rows
        };
        if side.kind != 3 && self.depth > 1 && !fits(side.y, self.height, rows) {
            return Err(code::INVALID_VALUE);
        }
        let before = side
            .z
            .checked_mul(rows)
            .and_then(|rows| rows.checked_add(side.y));
        let skipped = before
            .and_then(|rows| rows.checked_mul(pitch))
            .and_then(|bytes| bytes.checked_add(side.x_bytes))
            .ok_or(code::INVALID_VALUE)? as u64;
        let moved = |address: u64| address.checked_add(skipped).ok_or(code::INVALID_VALUE);
        let place = match base {
            // A null pointer with an offset is no pointer either.
            Place::Host(0) => Place::Host(0),
            Place::Host(address) => Place::Host(moved(address)?),
            Place::Device(address) => Place::Device(moved(address)?),
        };
        Ok(Side {
            place,
            pitch: pitch as u64,
            rows: rows as u64,
        })
    }
}

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
    /// `CUDA_KERNEL_NODE_PARAMS_v1`: the common beginning of all versions.
    pub struct KernelNode {
        pub function: Handle,
        pub grid: [c_uint; 3],
        pub block: [c_uint; 3],
        pub shared_bytes: c_uint,
        pub params: *mut *mut c_void,
        pub extra: *mut *mut c_void,
    }

    /// `CUDA_KERNEL_NODE_PARAMS_v2`.
    pub struct KernelNode2 {
        pub first: KernelNode,
        pub kernel: Handle,
        pub context: Handle,
    }

    /// `CUDA_MEMSET_NODE_PARAMS_v1`.
    pub struct MemsetNode {
        pub to: u64,
        pub pitch: usize,
        pub value: c_uint,
        pub element_bytes: c_uint,
        pub width: usize,
        pub height: usize,
    }

    /// `CUDA_MEM_ALLOC_NODE_PARAMS_v1`.
    pub struct AllocNode {
        pub pool: PoolProperties,
        pub access: *const AccessDescriptor,
        pub access_count: usize,
        pub bytes: usize,
        pub pointer: u64,
    }

    /// `CUlaunchAttribute`.
    pub struct LaunchAttribute {
        pub id: c_int,
        pub pad: [u8; 4],
        pub value: [u32; 16],
    }

    /// `CUlaunchConfig`.
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
            ("CUDA_MEMCPY2D_v2", size_of::<Copy2d>(), 128),
            ("CUDA_MEMCPY3D_v2", size_of::<Copy3d>(), 200),
            ("CUDA_ARRAY_DESCRIPTOR_v2", size_of::<ArrayDescriptor>(), 24),
            (
                "CUDA_ARRAY3D_DESCRIPTOR_v2",
                size_of::<Array3dDescriptor>(),
                40,
            ),
            (
                "CUmemAllocationProp_v1",
                size_of::<AllocationProperties>(),
                32,
            ),
            ("CUmemAccessDesc_v1", size_of::<AccessDescriptor>(), 12),
            ("CUmemPoolProps_v1", size_of::<PoolProperties>(), 88),
            ("CUDA_KERNEL_NODE_PARAMS_v1", size_of::<KernelNode>(), 56),
            ("CUDA_KERNEL_NODE_PARAMS_v2", size_of::<KernelNode2>(), 72),
            ("CUDA_MEMSET_NODE_PARAMS_v1", size_of::<MemsetNode>(), 40),
            ("CUDA_MEM_ALLOC_NODE_PARAMS_v1", size_of::<AllocNode>(), 120),
            ("CUlaunchAttribute", size_of::<LaunchAttribute>(), 72),
            ("CUlaunchConfig", size_of::<LaunchConfig>(), 56),
        ];
        for (name, found, wanted) in sizes {
            assert_eq!(found, wanted, "{name}");
        }
    }
}
