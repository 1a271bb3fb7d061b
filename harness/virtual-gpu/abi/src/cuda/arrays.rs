//! Arrays, textures, copies and fills of rows, and what is known of an address.

use std::ffi::{c_int, c_uint, c_void};

use super::layout::{
    Array3dDescriptor, ArrayDescriptor, Copy2d, ResourceDescriptor, Side2d, TextureDescriptor,
};
use crate::arguments::{put, put_new, read};
use gpubench_virtual_gpu_driver::calls::array::{self, Resource, place_in};
use gpubench_virtual_gpu_driver::calls::copies::{Rows, anywhere, device, host, queue_rows};
use gpubench_virtual_gpu_driver::calls::fills;
use gpubench_virtual_gpu_driver::code::{self, Code, refuse};
use gpubench_virtual_gpu_driver::entries::Origin;
use gpubench_virtual_gpu_driver::fill_shape::Fill;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::{Tables, process};
use gpubench_virtual_gpu_ptx::Texture;

entries! {
    fn cuArrayCreate_v2(array: *mut Handle, descriptor: *const ArrayDescriptor) {
        let ArrayDescriptor { width, height, format, channels } = read(descriptor)?;
        put_new(array, || array::create([width, height, 0], format, channels))
    }

    fn cuArray3DCreate_v2(array: *mut Handle, descriptor: *const Array3dDescriptor) {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = read(descriptor)?;
        // CUDA_ARRAY3D_SURFACE_LDST is 2; layers, cubes and the like are not there.
        refuse(flags & !2 != 0, code::NOT_SUPPORTED)?;
        put_new(array, || array::create([width, height, depth], format, channels))
    }

    fn cuArrayDestroy(array: Handle) { array::destroy(array) }
    fn cuTexObjectCreate(
        object: *mut u64, resource: *const ResourceDescriptor, texture: *const TextureDescriptor,
        view: *const c_void,
    ) {
        let (from, how) = (read(resource)?, read(texture)?);
        refuse(!view.is_null(), code::NOT_SUPPORTED)?;
        let [one, two, pitch] = from.sizes;
        let memory = |sides, pitch| {
            Resource::Memory(from.handle, from.format, from.channels, sides, pitch)
        };
        // CU_RESOURCE_TYPE_ARRAY, _MIPMAPPED_ARRAY, _LINEAR and _PITCH2D are 0 to 3 (cuda.h).
        let from = match from.kind {
            0 => Resource::Array(from.handle as Handle),
            1 => return Err(code::NOT_SUPPORTED),
            2 => memory([one / element(from.format, from.channels)?, 0], one),
            3 => memory([one, two], pitch),
            _ => return Err(code::INVALID_VALUE),
        };
        // CU_TRSF_READ_AS_INTEGER is 1, CU_TRSF_NORMALIZED_COORDINATES 2.
        refuse(how.modes.iter().any(|mode| *mode > 3) || how.filter > 1, code::INVALID_VALUE)?;
        let how = Texture {
            modes: [how.modes[0], how.modes[1]],
            linear: how.filter == 1,
            as_integers: how.flags & 1 != 0,
            normalized: how.flags & 2 != 0,
            border: how.border,
            ..Texture::default()
        };
        put_new(object, || array::texture(from, how))
    }

    fn cuTexObjectDestroy(object: u64) { array::destroy_texture(object) }
    fn cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds(
        copy: *const Copy2d,
    ) { rows(copy, None) }
    fn cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz(copy: *const Copy2d, stream: Handle) {
        rows(copy, Some(stream))
    }

    fn cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds(
        pointer: u64, pitch: usize, value: u8, width: usize, height: usize,
    ) { fill((pointer, pitch), (value.into(), 1), (width, height), None) }
    fn cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds(
        pointer: u64, pitch: usize, value: c_uint, width: usize, height: usize,
    ) { fill((pointer, pitch), (value, 4), (width, height), None) }
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, pointer: u64) {
        let tables = process()?.ready()?;
        let found = value_of(&tables, attribute, pointer)?.ok_or(code::INVALID_VALUE)?;
        put_value(data, attribute, found)
    }

    // What does not hold for this address is answered with zeros.
    fn cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_int, data: *mut *mut c_void, pointer: u64,
    ) {
        let tables = process()?.ready()?;
        for index in 0..count as usize {
            let attribute = read(attributes.wrapping_add(index))?;
            let found = value_of(&tables, attribute, pointer)?.unwrap_or(0);
            put_value(read(data.wrapping_add(index))?, attribute, found)?;
        }
        if count == 0 { Err(code::INVALID_VALUE) } else { Ok(()) }
    }
}

/// Bytes of an element of a linear texture.
fn element(format: c_int, channels: c_uint) -> Result<usize, Code> {
    let bytes = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return Err(code::INVALID_VALUE),
    };
    if channels == 0 { Err(code::INVALID_VALUE) } else { Ok(bytes * channels as usize) }
}

unsafe fn rows(copy: *const Copy2d, stream: Option<Handle>) -> Result<(), Code> {
    let copy = read(copy)?;
    if copy.width_bytes == 0 || copy.height == 0 {
        return Ok(());
    }
    let (to, from) = (side(&copy.to, &copy)?, side(&copy.from, &copy)?);
    queue_rows(to, from, (copy.width_bytes, copy.height), stream)
}

/// One side of a copy. CU_MEMORYTYPE_HOST, _DEVICE, _ARRAY and _UNIFIED are 1 to 4 (cuda.h).
fn side(side: &Side2d, copy: &Copy2d) -> Result<Rows, Code> {
    if side.kind == 3 {
        return place_in(side.array, side.x_bytes, side.y);
    }
    let pitch = if side.pitch == 0 { copy.width_bytes } else { side.pitch };
    let before = side.y.checked_mul(pitch).and_then(|rows| rows.checked_add(side.x_bytes));
    let before = before.ok_or(code::INVALID_VALUE)? as u64;
    let at = |start: u64| start.checked_add(before).ok_or(code::INVALID_VALUE);
    let place = match side.kind {
        1 if side.host.is_null() => return Err(code::INVALID_VALUE),
        1 => host(at(side.host as u64)? as *const u8),
        2 => device(at(side.device)?),
        4 => anywhere(at(side.device)?),
        _ => return Err(code::INVALID_VALUE),
    };
    Ok((place?, pitch as u64))
}

/// Fills rows, each for itself.
fn fill(
    (pointer, pitch): (u64, usize),
    (value, element): (c_uint, u64),
    (width, height): (usize, usize),
    stream: Option<Handle>,
) -> Result<(), Code> {
    if width == 0 {
        return Ok(());
    }
    if height > 1 && (pitch as u64) < (width as u64).saturating_mul(element) {
        return Err(code::INVALID_VALUE);
    }
    (0..height as u64).try_for_each(|row| {
        let at = (pitch as u64).checked_mul(row).and_then(|rows| pointer.checked_add(rows));
        fills::queue(Fill::of(at.ok_or(code::INVALID_VALUE)?, value, element, width), stream)
    })
}

/// Stores the value of an attribute (`CUpointer_attribute`, cuda.h) with its size.
unsafe fn put_value(to: *mut c_void, attribute: c_int, value: u64) -> Result<(), Code> {
    match attribute {
        1 | 3..=5 | 7 | 11 | 12 | 14 | 17..=20 => put(to.cast::<u64>(), value),
        _ => put(to.cast::<c_int>(), value as c_int),
    }
}

/// An attribute of an address; none if it does not hold for it.
fn value_of(tables: &Tables, attribute: c_int, pointer: u64) -> Result<Option<u64>, Code> {
    let (start, bytes, context, origin) = match tables.covering(pointer, 1) {
        Some((start, a)) => (start, a.bytes, a.context, Some(&a.origin)),
        None => match gpubench_virtual_gpu_driver::pinned::covering(tables, pointer as usize, 1) {
            Some((start, pinned)) => (start as u64, pinned.bytes as u64, pinned.context, None),
            None if (1..=21).contains(&attribute) => return Ok(None),
            None => return Err(code::INVALID_VALUE),
        },
    };
    let managed = origin == Some(&Origin::Managed);
    Ok(Some(match attribute {
        1 => {
            let found = tables.contexts.find(|entry| entry.slot == context);
            found.map_or(0, |handle| handle as u64)
        }
        // CU_MEMORYTYPE_HOST and _DEVICE (cuda.h).
        2 => {
            if origin.is_none() {
                1
            } else {
                2
            }
        }
        3 => pointer,
        4 if origin.is_none() || managed => pointer,
        // No host address, and no tokens for peers.
        4 | 5 => return Ok(None),
        // A number that no other allocation has; whether copies wait; the device.
        7 | 11 | 19 | 20 => start,
        6 | 9 | 14 | 15 | 21 => 0,
        8 => managed.into(),
        10 => (origin == Some(&Origin::Plain)).into(),
        12 | 18 => bytes,
        13 => 1,
        // CU_MEM_ACCESS_FLAGS_PROT_READWRITE (cuda.h).
        16 => 3,
        17 => match origin {
            Some(Origin::Pool(pool)) if tables.graph_pool != Some(*pool) => *pool as u64,
            _ => 0,
        },
        _ => return Err(code::INVALID_VALUE),
    }))
}
