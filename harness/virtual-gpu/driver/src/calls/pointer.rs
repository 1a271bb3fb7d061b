//! Attributes of an address.

use std::ffi::c_int;

use crate::code::{self, Code};
use crate::entries::Origin;
use crate::pinned;
use crate::process::Tables;

/// An address as far as the driver knows it.
#[derive(Debug, Clone)]
pub struct Known {
    /// First address of its allocation.
    pub start: u64,
    /// Length of the allocation.
    pub bytes: u64,
    pub context: u32,
    /// How it came to be; `None` for pinned host memory.
    pub origin: Option<Origin>,
    /// A number that distinguishes the allocation from others.
    pub version: u64,
    /// Kernels may write it.
    pub writable: bool,
}

/// What the driver knows of an address; `None` for memory of the program.
pub fn known(tables: &Tables, pointer: u64) -> Option<Known> {
    if let Some((start, entry)) = tables.covering(pointer, 1) {
        return Some(Known {
            start,
            bytes: entry.bytes,
            context: entry.context,
            origin: Some(entry.origin.clone()),
            version: start,
            writable: entry.writable,
        });
    }
    let (start, entry) = pinned::covering(tables, pointer as usize, 1)?;
    Some(Known {
        start: start as u64,
        bytes: entry.bytes as u64,
        context: entry.context,
        origin: None,
        version: start as u64,
        writable: true,
    })
}

/// Bytes of an attribute's value (`CUpointer_attribute`, cuda.h).
pub fn size_of_attribute(attribute: c_int) -> Result<usize, Code> {
    match attribute {
        1 | 3..=5 | 7 | 11 | 12 | 14 | 17..=20 => Ok(8),
        2 | 6 | 8..=10 | 13 | 15 | 16 | 21 => Ok(4),
        _ => Err(code::INVALID_VALUE),
    }
}
