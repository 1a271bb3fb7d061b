//! Values in memory and in register rows: single lanes, and full warps over contiguous memory.

use super::frame::Frame;
use crate::operands::Access;
use crate::types::Ty;

/// The value of `ty` at the start of `bytes`, extended to its row.
#[inline(always)]
pub(crate) fn read_value(bytes: &[u8], ty: Ty) -> u64 {
    let mut raw = [0u8; 8];
    let size = ty.bytes() as usize;
    raw[..size].copy_from_slice(&bytes[..size]);
    let value = u64::from_le_bytes(raw);
    if ty.bytes() < 4 { u64::from(super::bits::extend(value as u32, ty)) } else { value }
}

#[inline(always)]
pub(crate) fn write_value(bytes: &mut [u8], ty: Ty, value: u64) {
    let size = ty.bytes() as usize;
    bytes[..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Spreads contiguous memory over the rows of a full warp.
#[inline(always)]
pub(super) fn unpack(bytes: &[u8], frame: &mut Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups = bytes.chunks_exact(stride).map(|group| &group[element * size..][..size]);
        match size {
            8 => {
                for (lane, raw) in frame.r64[row].iter_mut().zip(groups) {
                    *lane = u64::from_le_bytes([
                        raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7],
                    ]);
                }
            }
            4 => {
                for (lane, raw) in frame.r32[row].iter_mut().zip(groups) {
                    *lane = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
                }
            }
            _ => {
                for (lane, raw) in frame.r32[row].iter_mut().zip(groups) {
                    *lane = read_value(raw, ty) as u32;
                }
            }
        }
    }
}

/// Gathers the rows of a full warp into contiguous memory.
#[inline(always)]
pub(super) fn pack(bytes: &mut [u8], frame: &Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups =
            bytes.chunks_exact_mut(stride).map(|group| &mut group[element * size..][..size]);
        match size {
            8 => {
                for (lane, raw) in frame.r64[row].iter().zip(groups) {
                    raw.copy_from_slice(&lane.to_le_bytes());
                }
            }
            4 => {
                for (lane, raw) in frame.r32[row].iter().zip(groups) {
                    raw.copy_from_slice(&lane.to_le_bytes());
                }
            }
            _ => {
                for (lane, raw) in frame.r32[row].iter().zip(groups) {
                    write_value(raw, ty, u64::from(*lane));
                }
            }
        }
    }
}
