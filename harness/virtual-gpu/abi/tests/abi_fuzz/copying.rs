//! Random copies and fills.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use gpubench_virtual_gpu_abi::cuda::calls::*;

use super::{Fuzz, call};

pub fn copying(fuzz: &mut Fuzz) {
    let (to, from, bytes) = (fuzz.pointer(), fuzz.pointer(), fuzz.small());
    let (host, stream, large) = (fuzz.host(), fuzz.stream(), fuzz.size());
    match fuzz.dice.below(8) {
        0 => drop(call!(fuzz, cuMemcpyHtoD_v2(to, host, bytes))),
        1 => drop(call!(fuzz, cuMemcpyDtoH_v2(host, from, bytes))),
        2 => drop(call!(fuzz, cuMemcpyHtoDAsync_v2(to, host, bytes, stream))),
        3 => drop(call!(fuzz, cuMemcpyDtoHAsync_v2(host, from, bytes, stream))),
        4 => drop(call!(fuzz, cuMemcpyDtoDAsync_v2(to, from, large, stream))),
        5 => drop(call!(fuzz, cuMemsetD8_v2(to, 1, large))),
        6 => drop(call!(fuzz, cuMemsetD32Async(to, 1, large, stream))),
        _ => drop(call!(fuzz, cuMemsetD16Async(to, 1, bytes, stream))),
    }
}
