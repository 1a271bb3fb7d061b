//! The host link: generation, width, and what goes over it.
#![expect(unsafe_code, reason = "the caller's places are raw pointers")]

use std::ffi::c_uint;

use super::library::{catch_up, device};
use super::pace::Pace;
use super::returns::{self, Return};
use super::{DeviceHandle, check_place, entries, figures, put};
use crate::device::Device;

/// Window over which throughput is measured, during which the call blocks (nvml.h).
const WINDOW_NS: u64 = 20_000_000;
/// Transfer rate of one lane by generation, in millions a second (PCI Express base specification).
const LANE_MBPS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

figures! {
    fn nvmlDeviceGetMaxPcieLinkGeneration(device) -> u32 {
        Ok(device.machine().pcie.generation)
    }

    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device) -> u32 {
        Ok(device.machine().pcie.generation)
    }

    fn nvmlDeviceGetCurrPcieLinkGeneration(device) -> u32 {
        Ok(device.machine().pcie.generation)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth(device) -> u32 {
        Ok(device.machine().pcie.width)
    }

    fn nvmlDeviceGetCurrPcieLinkWidth(device) -> u32 {
        Ok(device.machine().pcie.width)
    }

    fn nvmlDeviceGetPcieSpeed(device) -> u32 {
        let index = device.machine().pcie.generation.wrapping_sub(1) as usize;
        LANE_MBPS.get(index).copied().ok_or(returns::NOT_SUPPORTED)
    }
}

entries! {
    fn nvmlDeviceGetPcieThroughput(
        handle: DeviceHandle,
        counter: c_uint,
        kib_per_s: *mut c_uint,
    ) {
        let device = device(handle)?;
        check_place(kib_per_s)?;
        // NVML_PCIE_UTIL_TX_BYTES is what the device sends, so what the host receives.
        let engine = match counter {
            0 => 1,
            1 => 0,
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        let found = throughput(&device, engine)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(kib_per_s, found) }
    }
}

/// Time of the model's clock and time that an engine had spent copying by then.
fn look(device: &Device, engine: usize) -> Result<(u64, u64), Return> {
    catch_up(device)?;
    Ok(device
        .shared()
        .read(|state| (state.now_ns, state.copies[engine].busy_ns))?)
}

/// Throughput of one direction over the window: the engine's busy time at the link's rate, which
/// is what pinned memory moves. Copies of pageable memory move less.
fn throughput(device: &Device, engine: usize) -> Result<u32, Return> {
    let pace = Pace::of(device)?;
    let (from_ns, busy_from_ns) = look(device, engine)?;
    pace.sleep_until(device, pace.now_ns(device) + WINDOW_NS)?;
    let (to_ns, busy_to_ns) = look(device, engine)?;
    if to_ns == from_ns {
        // Beside a clock that stands, nothing can be measured.
        return Err(returns::NO_DATA);
    }
    let pcie = &device.machine().pcie;
    let rate = [pcie.to_device_gb_per_s, pcie.to_host_gb_per_s][engine];
    // 10^9 bytes a second are bytes a nanosecond.
    let bytes = (busy_to_ns - busy_from_ns) as f64 * rate;
    let seconds = (to_ns - from_ns) as f64 / 1e9;
    Ok((bytes / seconds / 1024.0)
        .round()
        .clamp(0.0, f64::from(u32::MAX)) as u32)
}
