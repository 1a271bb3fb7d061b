//! The device and its attributes.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_char, c_int};

use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::process::{Process, process};
use crate::abi::{put, put_text};
use crate::machine::Machine;

/// The only device, as a `CUdevice`.
const DEVICE: c_int = 0;

/// Answers only for the device there is.
fn known(device: c_int) -> Result<&'static Process, Code> {
    let process = process()?;
    drop(process.ready()?);
    if device == DEVICE {
        Ok(process)
    } else {
        Err(code::INVALID_DEVICE)
    }
}

entries! {
    fn cuDeviceGetCount(count: *mut c_int) {
        drop(process()?.ready()?);
        // SAFETY: the caller's place, checked for null.
        unsafe { put(count, 1) }
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        known(ordinal)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(device, DEVICE) }
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        let product = &known(device)?.device.machine().gpu.product;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: the caller's buffer of that length.
        unsafe { put_text(name, length, product) }
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        let bytes = uuid_bytes(known(device)?.device.machine());
        // SAFETY: the caller's place, checked for null.
        unsafe { put(uuid, bytes) }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let bytes = uuid_bytes(known(device)?.device.machine());
        // SAFETY: the caller's place, checked for null.
        unsafe { put(uuid, bytes) }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let memory = &known(device)?.device.machine().memory;
        let usable = (memory.total_mib - memory.reserved_mib) << 20;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(bytes, usable as usize) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let machine = known(device)?.device.machine();
        let found = attribute_of(machine, attribute).ok_or(code::INVALID_VALUE)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(value, found) }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) {
        let (x, y) = known(device)?.device.machine().compute_capability();
        // SAFETY: the caller's places, checked for null.
        unsafe {
            put(major, x as c_int)?;
            put(minor, y as c_int)
        }
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        known(device)?;
        let length = usize::try_from(length).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: the caller's buffer of that length.
        unsafe { put_text(id, length, "0000:01:00.0") }
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        known(device)?;
        known(peer)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(can, 0) }
    }
}

fn uuid_bytes(machine: &Machine) -> [u8; 16] {
    let mut out = [0; 16];
    let digits: Vec<u8> = machine
        .uuid()
        .bytes()
        .skip(4)
        .filter(|b| *b != b'-')
        .collect();
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
        *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
    }
    out
}

/// `CUdevice_attribute` by number, as cuda.h numbers them. Those that describe what this device
/// does not have are 0; numbers that cuda.h does not know are refused.
fn attribute_of(machine: &Machine, attribute: c_int) -> Option<c_int> {
    let gpu = &machine.gpu;
    let (major, minor) = machine.compute_capability();
    let value: u64 = match attribute {
        1 => gpu.max_threads_per_block.into(),
        2 | 3 => 1024,
        4 => 64,
        5 => 2_147_483_647,
        6 | 7 => 65_535,
        8 => u64::from(gpu.shared_per_block_kib) << 10,
        9 => 65_536,
        10 => 32,
        11 => 2_147_483_647,
        12 | 82 => gpu.registers_per_sm.into(),
        13 => u64::from(gpu.sm_clock_mhz) * 1000,
        14 => 512,
        // GPU_OVERLAP, CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING,
        // STREAM_PRIORITIES, GLOBAL and LOCAL L1, COMPUTE_PREEMPTION, COOPERATIVE_LAUNCH.
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 90 | 95 => 1,
        16 => gpu.sm_count.into(),
        33 => 1,
        36 => u64::from(gpu.memory_clock_mhz) * 1000,
        37 => gpu.memory_bus_bits.into(),
        38 => machine.memory.l2_kib << 10,
        39 => gpu.max_threads_per_sm.into(),
        40 => 2,
        75 => major.into(),
        76 => minor.into(),
        81 => u64::from(gpu.shared_per_sm_kib) << 10,
        87 => u64::from(gpu.fp32_lanes_per_clock / gpu.fp64_lanes_per_clock.max(1)),
        97 => u64::from(gpu.shared_per_sm_kib) << 10,
        106 => gpu.max_blocks_per_sm.into(),
        17..=149 => 0,
        _ => return None,
    };
    c_int::try_from(value).ok()
}
