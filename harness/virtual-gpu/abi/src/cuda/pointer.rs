//! What is known about an address.

use std::ffi::{c_int, c_uint, c_void};

use crate::arguments::put;
use gpubench_virtual_gpu_driver::calls::pointer::{Known, known, size_of_attribute};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::Origin;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::{Tables, process};

entries! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, pointer: u64) {
        let tables = process()?.ready()?;
        let known = known(&tables, pointer).ok_or(code::INVALID_VALUE)?;
        answer(&tables, data, attribute, pointer, &known)
    }

    fn cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_int, data: *mut *mut c_void, pointer: u64,
    ) {
        if attributes.is_null() || data.is_null() || count == 0 {
            return Err(code::INVALID_VALUE);
        }
        let tables = process()?.ready()?;
        let known = known(&tables, pointer);
        for index in 0..count as usize {
            let (attribute, place) = (*attributes.add(index), *data.add(index));
            match &known {
                Some(known) => match answer(&tables, place, attribute, pointer, known) {
                    // What does not hold for this address is answered with zeros.
                    Err(code::NOT_SUPPORTED) => zero(place, attribute)?,
                    other => other?,
                },
                None => zero(place, attribute)?,
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_int, pointer: u64) {
        let tables = process()?.ready()?;
        // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS (cuda.h) is the only one that can be set. Copies wait
        // for their memory here in any case.
        if value.is_null() || attribute != 6 || known(&tables, pointer).is_none() {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }
}

unsafe fn zero(place: *mut c_void, attribute: c_int) -> Result<(), Code> {
    match (size_of_attribute(attribute)?, attribute) {
        // CU_DEVICE_INVALID is -2 (cuda.h).
        (_, 9) => put(place.cast::<c_int>(), -2),
        (8, _) => put(place.cast::<u64>(), 0),
        _ => put(place.cast::<c_int>(), 0),
    }
}

unsafe fn answer(
    tables: &Tables,
    place: *mut c_void,
    attribute: c_int,
    pointer: u64,
    known: &Known,
) -> Result<(), Code> {
    let host = known.origin.is_none();
    let managed = known.origin == Some(Origin::Managed);
    let value: u64 = match attribute {
        1 => {
            let found = tables
                .contexts
                .find(|context| context.slot == known.context);
            found.map_or(0, |handle: Handle| handle as u64)
        }
        // CU_MEMORYTYPE_HOST and _DEVICE (cuda.h).
        2 => {
            if host {
                1
            } else {
                2
            }
        }
        3 => pointer,
        4 if host || managed => pointer,
        6 | 9 => 0,
        7 => known.version,
        8 => managed.into(),
        10 => (known.origin == Some(Origin::Plain)).into(),
        11 | 19 => known.start,
        12 | 18 => known.bytes,
        13 => 1,
        14 | 15 | 21 => 0,
        16 => {
            if known.writable {
                3
            } else {
                1
            }
        }
        17 => match known.origin {
            // What is kept for graphs is no pool to programs.
            Some(Origin::Pool(pool)) if tables.graph_pool != Some(pool) => pool as u64,
            _ => 0,
        },
        20 => known.start,
        // No host address; no tokens for peers.
        4 | 5 => return Err(code::NOT_SUPPORTED),
        _ => return Err(code::INVALID_VALUE),
    };
    match size_of_attribute(attribute)? {
        8 => put(place.cast::<u64>(), value),
        _ => put(place.cast::<c_int>(), value as c_int),
    }
}
