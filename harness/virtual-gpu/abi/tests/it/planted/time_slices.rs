//! Planted time slices, durations of calls, reach of faults and recovery times.

use gpubench_virtual_gpu_model::machine::Machine;

use super::case::{Case, Measurement, check};
use super::table::Figure;
use crate::mps_support::mechanisms::Mechanism;
use crate::mps_support::sharing::{HALVES, Sharing, TIME_SLICED};
use crate::mps_support::{Error, quiet};

/// Every way to share a device through a server.
const SERVED: [Sharing; 5] = [
    Sharing::Mps,
    Sharing::Quota(["50"; 2]),
    Sharing::Static([8, 8]),
    Sharing::Memory([16_384; 2]),
    Sharing::MigMps(["50"; 2]),
];

/// Time slices on the whole device, and in a shared instance.
pub fn time_slices() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let case = |sharing, slice_us: u64, gap_us: u64, noise| {
        let mut machine = plain.clone();
        machine.scheduler.slice_us = slice_us;
        machine.scheduler.switch_gap_us = gap_us;
        let ns = |us: u64| us as f64 * 1e3;
        Case {
            machine,
            sharing,
            measurement: Measurement::TimeSlices,
            want: vec![(Figure::Quantum, ns(slice_us)), (Figure::Gap, ns(gap_us))],
            noise,
        }
    };
    // A kernel that watches the clock is executed step by step, so short slices cost less.
    let each = [TIME_SLICED, Sharing::MigTimeSliced("3g.40gb")].map(|sharing| {
        [
            case(sharing, 2_500, 200, false),
            case(sharing, 800, 300, false),
            case(sharing, 150, 60, true),
        ]
    });
    Ok(each.concat())
}

#[test]
fn slices_and_gaps_have_the_planted_length() -> Result<(), Error> {
    check(test_name!(), &time_slices()?)
}

pub fn launches() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let mut slow = plain.clone();
    slow.host.launch_ns *= 3;
    let case = |machine: &Machine, sharing, first, priority| {
        let measurement = Measurement::Launch { first, priority };
        let want = machine.host.launch_ns as f64;
        Case::noisy(machine, sharing, measurement, Figure::Launch, want)
    };
    let exclusive = Sharing::NoSetup(Mechanism::Exclusive);
    let processes = [exclusive, Sharing::ExclusiveProcess, TIME_SLICED, HALVES];
    let (green, ordered) = (Mechanism::GreenContext, Mechanism::StreamPriority);
    let each = processes.into_iter().chain(SERVED);
    let each = each.map(|sharing| case(&slow, sharing, "open", 0)).chain([
        case(&slow, Sharing::NoSetup(green), "green 64", 0),
        case(&slow, Sharing::NoSetup(ordered), "open", 1),
    ]);
    let each = each.flat_map(|case| [case.quiet(), case]);
    Ok(each.chain([case(&plain, exclusive, "open", 0).quiet()]).collect())
}

#[test]
fn a_launch_takes_the_planted_time() -> Result<(), Error> {
    check(test_name!(), &launches()?)
}

/// Faults are contained, except with the planted probability.
pub fn faults() -> Result<Vec<Case>, Error> {
    let mut plain = quiet("hopper")?;
    plain.defects.mps_contains_faults = true;
    let case = |sharing, measurement, chance| {
        let mut machine = plain.clone();
        machine.defects.fault_escape = chance;
        Case::noisy(&machine, sharing, measurement, Figure::Containment, chance)
    };
    let each = [TIME_SLICED, HALVES].into_iter().chain(SERVED).flat_map(|sharing| {
        [
            case(sharing, Measurement::Across, 0.0).quiet(),
            case(sharing, Measurement::Across, 1.0).quiet(),
            case(sharing, Measurement::Escapes, 0.0).quiet(),
            case(sharing, Measurement::Escapes, 1.0).quiet(),
            case(sharing, Measurement::Escapes, 0.3),
        ]
    });
    Ok(each.collect())
}

#[test]
fn a_fault_escapes_with_the_planted_probability() -> Result<(), Error> {
    check(test_name!(), &faults()?)
}

pub fn recoveries() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let of = |recovery_ms| -> Result<Machine, Error> {
        let mut machine = plain.clone();
        machine.mps.as_mut().ok_or("no MPS")?.recovery_ms = recovery_ms;
        Ok(machine)
    };
    let (slow, usual) = (of(240)?, of(80)?);
    let case = |machine, sharing, ns| {
        Case::noisy(machine, sharing, Measurement::Recovery, Figure::Recovery, ns)
    };
    let each = SERVED.into_iter().flat_map(|sharing| {
        let loud = case(&usual, sharing, 80e6);
        [case(&slow, sharing, 240e6).quiet(), loud.quiet(), loud]
    });
    Ok(each.collect())
}

#[test]
fn service_recovers_after_the_planted_time() -> Result<(), Error> {
    check(test_name!(), &recoveries()?)
}
