//! Cross-check against overfitting: a limit fitted to two rows predicts the others.

use gpubench_virtual_gpu_model::machine::Machine;

use super::device::{self, Axis, Mechanism};
use super::record::Record;
use super::{Error, print_row};

/// Sets the fitted limit.
type Set = fn(&mut Machine, u32);

/// The candidate with the least sum of squared relative errors over these rows.
fn fit(
    record: &Record,
    axis: Axis,
    rows: &[Mechanism],
    candidates: impl Iterator<Item = u32>,
    set: Set,
) -> Result<Machine, Error> {
    let pair = record.pair(axis)?;
    let mut best: Option<(f64, Machine)> = None;
    for candidate in candidates {
        let mut machine = device::machine()?;
        set(&mut machine, candidate);
        let mut sum = 0.0;
        for &row in rows {
            let real = record.retention(row.name(), axis.name())?;
            sum += (device::retention(&machine, &pair, row) / real).ln().powi(2);
        }
        if best.as_ref().is_none_or(|(least, _)| sum < *least) {
            best = Some((sum, machine));
        }
    }
    Ok(best.ok_or("no candidate")?.1)
}

/// Fits to two rows; the others must be predicted within 15 %.
fn check(
    axis: Axis,
    to: [Mechanism; 2],
    candidates: impl Iterator<Item = u32>,
    set: Set,
) -> Result<Machine, Error> {
    let record = Record::read()?;
    let machine = fit(&record, axis, &to, candidates, set)?;
    let pair = record.pair(axis)?;
    for row in Mechanism::ALL {
        let real = record.retention(row.name(), axis.name())?;
        let model = device::retention(&machine, &pair, row);
        let kind = if to.contains(&row) { "fitted" } else { "predicted" };
        print_row(&format!("{kind} {} {}", row.name(), axis.name()), real, model);
        assert!((model / real - 1.0).abs() < 0.15, "{row:?} {axis:?}");
    }
    Ok(machine)
}

#[test]
fn dram_fitted_to_two_rows_predicts_the_other_two() -> Result<(), Error> {
    let to = [Mechanism::Mps, Mechanism::StreamPriority];
    let machine = check(Axis::Dram, to, 20..200, |machine, kib| {
        machine.memory.sm_dram_in_flight_kib = kib;
    })?;
    println!("{} KiB", machine.memory.sm_dram_in_flight_kib);
    Ok(())
}

#[test]
fn l2_fitted_to_two_rows_predicts_the_other_two() -> Result<(), Error> {
    let to = [Mechanism::Mps, Mechanism::MpsQuota];
    let candidates = (40..400).map(|step| step * 50);
    let machine = check(Axis::L2, to, candidates, |machine, kib| {
        machine.memory.l2_in_flight_kib = kib;
    })?;
    println!("{} KiB", machine.memory.l2_in_flight_kib);
    Ok(())
}
