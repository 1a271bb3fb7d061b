//! Doses and numbers of tenants that the record does not have: the model beside its closed form,
//! and monotone as physics says. No hardware has confirmed these figures.

use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::Op;

use super::device::{self, Axis, Mechanism, Pair};
use super::record::Record;
use super::{Error, print_row};

/// Duty cycle of an aggressor.
const PERIOD_NS: u64 = 10_000_000;
const PERIODS: u64 = 10;

/// The closed form of the victim's speed beside so many neighbours on all SMs, by hand: its part of
/// what is in flight, or of the issue slots of its SMs.
fn by_hand(machine: &Machine, pair: &Pair, neighbours: f64) -> f64 {
    let sms = f64::from(machine.gpu.sm_count);
    let blocks = pair.victim_blocks as f64;
    let kib = 1024.0;
    let part = |own: f64, hog: f64| own / (own + neighbours * hog) / pair.victim_share;
    match pair.axis {
        Axis::Sm => 1.0 / (pair.victim_share * sms / blocks + neighbours),
        // A copy of 256 threads moves 32 KiB between two waits, and 8 blocks want 256 KiB.
        Axis::Dram => {
            let hog = sms * 256.0_f64.min(machine.memory.sm_dram_in_flight_kib.into()) * kib;
            part(blocks * 32.0 * kib, hog)
        }
        // A read moves 16 KiB.
        Axis::L2 => {
            let hog = (sms * 128.0).min(machine.memory.l2_in_flight_kib.into()) * kib;
            part(blocks * 16.0 * kib, hog)
        }
    }
}

#[test]
fn more_tenants_leave_less_as_the_closed_form_says() -> Result<(), Error> {
    let (record, machine) = (Record::read()?, device::machine()?);
    for axis in Axis::ALL {
        let pair = record.pair(axis)?;
        let mut before = 1.0;
        for tenants in [2, 4, 8] {
            let neighbours = tenants - 1;
            let want = by_hand(&machine, &pair, neighbours as f64);
            let model = device::retention(&machine, &pair, Mechanism::Mps, neighbours);
            print_row(&format!("{tenants} tenants {}", axis.name()), want, model);
            assert!((model / want - 1.0).abs() < 0.005, "{tenants} {axis:?}");
            assert!(model < before, "{tenants} {axis:?}");
            before = model;
        }
    }
    Ok(())
}

/// A neighbour that works during this part of every period, beside the victim.
fn duty_cycle(hog: Op, hog_speed: f64, dose: f64) -> Vec<Op> {
    let mut one = hog;
    one.alone_ns = (PERIOD_NS as f64 * dose * hog_speed) as u64;
    let mut queue = vec![one; PERIODS as usize];
    for (at_ns, op) in (0..).step_by(PERIOD_NS as usize).zip(&mut queue) {
        op.stamp_ns = at_ns;
    }
    queue
}

#[test]
fn a_higher_dose_leaves_less_as_the_closed_form_says() -> Result<(), Error> {
    let (record, machine) = (Record::read()?, device::machine()?);
    for axis in Axis::ALL {
        let pair = record.pair(axis)?;
        let [victim, hog] = device::kernels(&machine, &pair, Mechanism::Mps);
        let beside = by_hand(&machine, &pair, 1.0);
        let hog_speed = match axis {
            Axis::Sm => beside,
            Axis::Dram | Axis::L2 => 1.0 - beside * pair.victim_share,
        };
        let mut before = 1.0;
        for dose in [0.25, 0.5, 0.75, 1.0] {
            // The victim runs at full speed for the rest of the time.
            let want = (1.0 - dose) + dose * beside;
            let span_ns = (PERIODS * PERIOD_NS) as f64;
            let victim = Op { alone_ns: (span_ns * want) as u64, ..victim };
            let load = [duty_cycle(hog, hog_speed, dose)];
            let end_ns = device::end_ns(&machine, Mechanism::Mps, victim, &load);
            let model = victim.alone_ns as f64 / end_ns as f64;
            print_row(&format!("dose {dose} {}", axis.name()), want, model);
            assert!((model / want - 1.0).abs() < 0.005, "{dose} {axis:?}");
            assert!(model < before, "{dose} {axis:?}");
            before = model;
        }
    }
    Ok(())
}
