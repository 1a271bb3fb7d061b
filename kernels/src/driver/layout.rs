//! Structures of cuda.h that calls take, with their exact layout.

use std::ffi::{c_int, c_uint, c_void};

/// `CUDA_ARRAY_DESCRIPTOR_v2`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptor {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) format: c_int,
    pub(super) channels: c_uint,
}

/// `CUdevResource`: a tagged union; programs read only the count of SMs. The size is that of CUDA
/// 12.4 and later.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct DevResource {
    pub(super) kind: c_uint,
    _internal: [u8; 92],
    pub(super) sm_count: c_uint,
    /// Least SMs of a group, and the multiple that groups have; 0 before CUDA 13.
    pub(super) min_partition: c_uint,
    pub(super) alignment: c_uint,
    _rest: [u8; 36],
}

impl DevResource {
    pub(super) const EMPTY: Self = Self {
        kind: 0,
        _internal: [0; 92],
        sm_count: 0,
        min_partition: 0,
        alignment: 0,
        _rest: [0; 36],
    };
}

const _: () = assert!(size_of::<DevResource>() == 144);

/// `CUmemLocation_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Location {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

/// `CUmemAllocationProp_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AllocationProperties {
    pub(super) kind: c_int,
    pub(super) handle_types: c_int,
    pub(super) location: Location,
    pub(super) win32_metadata: *mut c_void,
    pub(super) flags: [u8; 8],
}

/// `CUmemPoolProps_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct PoolProperties {
    pub(super) kind: c_int,
    pub(super) handle_types: c_int,
    pub(super) location: Location,
    pub(super) win32_attributes: *mut c_void,
    pub(super) max_bytes: usize,
    pub(super) reserved: [u8; 56],
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AllocNode {
    pub(super) pool: PoolProperties,
    pub(super) access: *const AccessDescriptor,
    pub(super) access_count: usize,
    pub(super) bytes: usize,
    pub(super) pointer: u64,
}

/// `CUmemAccessDesc_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AccessDescriptor {
    pub(super) location: Location,
    pub(super) flags: c_int,
}

/// `CUipcMemHandle_v1`: names device memory of one process to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct IpcHandle(pub [u8; 64]);

impl IpcHandle {
    /// The handle as hexadecimal digits, to hand it to another process.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The handle of these digits; `None` unless there are two for each byte.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 64];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_unchanged_after_text_conversion() {
        let mut handle = IpcHandle([0; 64]);
        for (index, byte) in handle.0.iter_mut().enumerate() {
            *byte = (index * 37 % 256) as u8;
        }
        assert_eq!(IpcHandle::from_hex(&handle.to_hex()), Some(handle));
        let signs = "+f".repeat(64);
        for wrong in ["", "00", &"0".repeat(127), &"g".repeat(128), &"é".repeat(64), &signs] {
            assert_eq!(IpcHandle::from_hex(wrong), None, "{wrong}");
        }
    }

    /// Sizes that a C compiler gives these structures on 64-bit Linux (cuda.h, CUDA 12.9).
    #[test]
    fn sizes_are_those_of_the_header() {
        use cudarc::driver::sys;
        assert_eq!(size_of::<ArrayDescriptor>(), size_of::<sys::CUDA_ARRAY_DESCRIPTOR>());
        assert_eq!(size_of::<Location>(), size_of::<sys::CUmemLocation>());
        assert_eq!(size_of::<AllocationProperties>(), size_of::<sys::CUmemAllocationProp>());
        assert_eq!(size_of::<AccessDescriptor>(), size_of::<sys::CUmemAccessDesc>());
        assert_eq!(size_of::<PoolProperties>(), size_of::<sys::CUmemPoolProps>());
        assert_eq!(size_of::<AllocNode>(), size_of::<sys::CUDA_MEM_ALLOC_NODE_PARAMS>());
        assert_eq!(size_of::<IpcHandle>(), size_of::<sys::CUipcMemHandle>());
    }
}
