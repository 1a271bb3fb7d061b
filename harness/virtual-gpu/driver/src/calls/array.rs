//! Arrays: device memory in the shape that textures want. There are no textures, only the bytes.

use std::ffi::{c_int, c_uint};

/// Widest array in each dimension (CUDA C++ Programming Guide, technical specifications).
pub const WIDEST: [usize; 3] = [131_072, 65_536, 16_384];

/// Flags that a three-dimensional array may have: layered, cube map, surface, gather (cuda.h).
pub const FLAGS: c_uint = 1 | 2 | 4 | 8;

/// Bytes of one channel (`CUarray_format`, cuda.h); only the plain formats.
pub fn channel_bytes(format: c_int) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}
