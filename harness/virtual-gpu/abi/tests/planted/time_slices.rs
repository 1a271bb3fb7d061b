//! What a machine plants in the turns, in its calls, in the reach of its faults and in the time
//! after them.

use gpubench_virtual_gpu_model::machine::Machine;

use super::case::{Case, Look, prove};
use super::mps_support::mechanisms::Mechanism;
use super::mps_support::ways::{HALVES, TURNS, Under};
use super::mps_support::{Error, quiet};
use super::table::Figure;

/// Every way in which clients have a server.
const SERVED: [Under; 5] = [
    Under::Mps,
    Under::Quota(["50"; 2]),
    Under::Static([8, 8]),
    Under::Memory([16_384; 2]),
    Under::MigMps(["50"; 2]),
];

/// Processes take turns on a whole device, and in an instance that they share.
pub fn time_slices() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let case = |under, slice_us: u64, gap_us: u64, noise| {
        let mut machine = plain.clone();
        machine.scheduler.slice_us = slice_us;
        machine.scheduler.switch_gap_us = gap_us;
        let ns = |us: u64| us as f64 * 1e3;
        Case {
            machine,
            under,
            look: Look::TimeSlices,
            want: vec![(Figure::Quantum, ns(slice_us)), (Figure::Gap, ns(gap_us))],
            noise,
        }
    };
    // What watches the clock is executed step by step: short turns are cheaper.
    let each = [TURNS, Under::MigTurns("3g.40gb")].map(|under| {
        [
            case(under, 2_500, 200, false),
            case(under, 800, 300, false),
            case(under, 150, 60, true),
        ]
    });
    Ok(each.concat())
}

#[test]
fn turns_and_the_pauses_between_them_are_as_long_as_planted() -> Result<(), Error> {
    let test = "time_slices::turns_and_the_pauses_between_them_are_as_long_as_planted";
    prove(test, &time_slices()?)
}

pub fn launches() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let mut slow = plain.clone();
    slow.host.launch_ns *= 3;
    let case = |machine: &Machine, under, first, priority| {
        let look = Look::Launch { first, priority };
        let want = machine.host.launch_ns as f64;
        Case::noisy(machine, under, look, Figure::Launch, want)
    };
    let alone = Under::Nothing(Mechanism::Exclusive);
    let processes = [alone, Under::ExclusiveProcess, TURNS, HALVES];
    let (green, ordered) = (Mechanism::GreenContext, Mechanism::StreamPriority);
    let each = processes.into_iter().chain(SERVED);
    let each = each.map(|under| case(&slow, under, "open", 0)).chain([
        case(&slow, Under::Nothing(green), "green 64", 0),
        case(&slow, Under::Nothing(ordered), "open", 1),
    ]);
    let each = each.flat_map(|case| [case.quiet(), case]);
    Ok(each
        .chain([case(&plain, alone, "open", 0).quiet()])
        .collect())
}

#[test]
fn a_launch_costs_what_the_machine_says() -> Result<(), Error> {
    prove(
        "time_slices::a_launch_costs_what_the_machine_says",
        &launches()?,
    )
}

/// Where faults stay with their contexts, unless they get out by a planted chance.
pub fn faults() -> Result<Vec<Case>, Error> {
    let mut plain = quiet("hopper")?;
    plain.defects.mps_contains_faults = true;
    let case = |under, look, chance| {
        let mut machine = plain.clone();
        machine.defects.fault_escape = chance;
        Case::noisy(&machine, under, look, Figure::Containment, chance)
    };
    let each = [TURNS, HALVES].into_iter().chain(SERVED).flat_map(|under| {
        [
            case(under, Look::Across, 0.0).quiet(),
            case(under, Look::Across, 1.0).quiet(),
            case(under, Look::Escapes, 0.0).quiet(),
            case(under, Look::Escapes, 1.0).quiet(),
            case(under, Look::Escapes, 0.3),
        ]
    });
    Ok(each.collect())
}

#[test]
fn a_fault_gets_out_as_often_as_planted() -> Result<(), Error> {
    prove(
        "time_slices::a_fault_gets_out_as_often_as_planted",
        &faults()?,
    )
}

pub fn recoveries() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let of = |recovery_ms| -> Result<Machine, Error> {
        let mut machine = plain.clone();
        machine.mps.as_mut().ok_or("no MPS")?.recovery_ms = recovery_ms;
        Ok(machine)
    };
    let (slow, usual) = (of(240)?, of(80)?);
    let case =
        |machine, under, ns| Case::noisy(machine, under, Look::Recovery, Figure::Recovery, ns);
    let each = SERVED.into_iter().flat_map(|under| {
        let loud = case(&usual, under, 80e6);
        [case(&slow, under, 240e6).quiet(), loud.quiet(), loud]
    });
    Ok(each.collect())
}

#[test]
fn service_comes_back_when_the_machine_says() -> Result<(), Error> {
    let test = "time_slices::service_comes_back_when_the_machine_says";
    prove(test, &recoveries()?)
}
