//! Buffered samples: count, interval and start.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::Sample;

use super::read::all;
use super::{MS, WHILE_NS, in_virtual_time, load, machine};
use crate::nvml_support::mig::set_mode;
use crate::nvml_support::{Error, context, nvml_device};

const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
/// Samples kept of each kind.
const KEPT: usize = 128;

/// Intervals between samples, in microseconds.
fn apart(samples: &[Sample]) -> Vec<u64> {
    let pairs = samples.windows(2);
    pairs
        .map(|p| p[1].time_stamp_us - p[0].time_stamp_us)
        .collect()
}

/// The code of one call with these pointers, each of which can be null.
fn code(device: DeviceHandle, kind: u32, pointers: [bool; 2], room: u32, array: bool) -> i32 {
    let (mut value_type, mut count) = (0, room);
    let mut samples = [Sample::default(); KEPT];
    let place = |wanted: bool, to: *mut u32| if wanted { to } else { null_mut() };
    let to = if array {
        samples.as_mut_ptr()
    } else {
        null_mut()
    };
    let (first, second) = (
        place(pointers[0], &raw mut value_type),
        place(pointers[1], &raw mut count),
    );
    // SAFETY: null or valid pointers, and an array of at least `room` entries.
    unsafe { nvmlDeviceGetSamples(device, kind, 0, first, second, to) }
}

#[test]
fn samples_are_ordered_periodic_and_returned_once() -> Result<(), Error> {
    let test = test_name!("samples_are_ordered_periodic_and_returned_once");
    in_virtual_time(test, &machine("hopper")?, |clock| {
        let device = nvml_device()?;
        assert_eq!(all(device, 0, 0), Err(NOT_FOUND), "nothing has passed");
        clock.sleep_until(WHILE_NS)?;
        context()?;
        load()?;
        clock.sleep_until(3 * WHILE_NS)?;
        let power = all(device, 0, 0).map_err(|code| format!("code {code}"))?;
        assert_eq!(power.len(), KEPT, "the oldest are dropped");
        assert!(apart(&power).iter().all(|us| *us == 20_000), "{power:?}");
        let last = power[KEPT - 1];
        assert!(
            (3 * WHILE_NS / 1000).abs_diff(last.time_stamp_us) < 20_000,
            "{last:?}"
        );
        // Idle, then at the cap, which the average over a second does not exceed.
        let cap_mw = (clock.machine().power.cap_w * 1000.0) as u64;
        let levels = [power[0].value, last.value];
        assert!(
            levels[0] == 70_000 && (cap_mw - 100..=cap_mw).contains(&levels[1]),
            "{levels:?}"
        );
        let busy = all(device, 1, 0).map_err(|code| format!("code {code}"))?;
        let window_us = 1_000_000 / 6;
        assert!(
            apart(&busy).iter().all(|us| us.abs_diff(window_us) <= 1),
            "{busy:?}"
        );
        assert_eq!((busy[0].value, busy[busy.len() - 1].value), (0, 100));
        // Starts after the last timestamp.
        assert_eq!(all(device, 0, last.time_stamp_us), Err(NOT_FOUND));
        clock.sleep_until(clock.now_ns() + 60 * MS)?;
        let next = all(device, 0, last.time_stamp_us).map_err(|code| format!("code {code}"))?;
        assert!((2..=4).contains(&next.len()), "{next:?}");
        assert_eq!(next[0].time_stamp_us, last.time_stamp_us + 20_000);
        a_short_buffer_gets_the_oldest(device, &all(device, 0, 0).map_err(|c| format!("{c}"))?);
        null_pointers_are_refused(device);
        Ok(())
    })
}

fn a_short_buffer_gets_the_oldest(device: DeviceHandle, kept: &[Sample]) {
    let mut found = [Sample::default(); 5];
    let (mut value_type, mut count) = (0, 3);
    let array = found.as_mut_ptr();
    // SAFETY: valid pointers, and an array with more entries.
    let code =
        unsafe { nvmlDeviceGetSamples(device, 0, 0, &raw mut value_type, &raw mut count, array) };
    assert_eq!((code, count), (0, 3));
    assert_eq!(found[..3], kept[..3]);
    assert_eq!(found[3], Sample::default(), "nothing after the buffer");
}

fn null_pointers_are_refused(device: DeviceHandle) {
    for (pointers, room, array) in [
        ([false, true], 4, true),
        ([true, false], 4, true),
        ([true, true], 0, true),
    ] {
        let found = code(device, 0, pointers, room, array);
        assert_eq!(found, INVALID_ARGUMENT, "{pointers:?} {room}");
    }
    assert_eq!(code(device, 10, [true, true], 4, true), INVALID_ARGUMENT);
    assert_eq!(code(null_mut(), 0, [true, true], 4, true), INVALID_ARGUMENT);
    for kind in [3, 4, 7, 8, 9] {
        assert_eq!(code(device, kind, [true, true], 4, true), NOT_SUPPORTED);
    }
}

#[test]
fn under_mig_there_is_no_utilisation() -> Result<(), Error> {
    let test = test_name!("under_mig_there_is_no_utilisation");
    in_virtual_time(test, &machine("hopper")?, |clock| {
        let device = nvml_device()?;
        clock.sleep_until(WHILE_NS)?;
        assert!(all(device, 1, 0).is_ok());
        assert_eq!(set_mode(device, 1), Ok(0));
        let codes = [0, 1, 2, 5, 6].map(|kind| all(device, kind, 0).err());
        let none = Some(NOT_SUPPORTED);
        assert_eq!(codes, [None, none, none, None, None]);
        Ok(())
    })
}
