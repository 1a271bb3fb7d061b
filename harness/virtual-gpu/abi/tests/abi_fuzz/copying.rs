//! Random copies and fills.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::{Copy2d, Side2d};

use super::{ARRAY, Fuzz, call};

pub fn copying(fuzz: &mut Fuzz) {
    let (to, from, bytes) = (fuzz.pointer(), fuzz.pointer(), fuzz.small());
    let (host, stream, large) = (fuzz.host(), fuzz.stream(), fuzz.size());
    let (array, pitch) = (fuzz.of_kind(ARRAY), fuzz.small());
    match fuzz.dice.below(11) {
        0 => drop(call!(fuzz, cuMemcpyHtoD_v2(to, host, bytes))),
        1 => drop(call!(fuzz, cuMemcpyDtoH_v2(host, from, bytes))),
        2 => drop(call!(fuzz, cuMemcpyHtoDAsync_v2(to, host, bytes, stream))),
        3 => drop(call!(fuzz, cuMemcpyDtoHAsync_v2(host, from, bytes, stream))),
        4 => drop(call!(fuzz, cuMemcpyDtoDAsync_v2(to, from, large, stream))),
        5 => drop(call!(fuzz, cuMemsetD8_v2(to, 1, large))),
        6 => drop(call!(fuzz, cuMemsetD32Async(to, 1, large, stream))),
        7 => drop(call!(fuzz, cuMemsetD2D16_v2(to, pitch, 1, bytes, 3))),
        8 => drop(call!(fuzz, cuMemcpyHtoA_v2(array, pitch, host, bytes))),
        9 => drop(call!(fuzz, cuMemcpyAtoH_v2(host, array, pitch, bytes))),
        _ => {
            let kind = fuzz.dice.of(&[2, 2, 3, 5]);
            let side = |kind, device, array, pitch| Side2d {
                x_bytes: 0,
                y: 0,
                kind,
                host: null_mut(),
                device,
                array,
                pitch,
            };
            let copy = Copy2d {
                from: side(2, from, null_mut(), pitch),
                to: side(kind, to, array, bytes),
                width_bytes: fuzz.small(),
                height: fuzz.size(),
            };
            call!(fuzz, cuMemcpy2DAsync_v2(&raw const copy, stream));
        }
    }
}
