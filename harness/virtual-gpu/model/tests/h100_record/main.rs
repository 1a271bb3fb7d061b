//! The laws of contention against a record of an H100: every row of concurrent tenants, and fits to
//! some rows that predict the others.
//!
//! `cargo nextest run -p gpubench-virtual-gpu-model --no-capture h100_record` prints the tables.
#![expect(clippy::print_stdout, reason = "the tables are quoted in reports/examples")]

mod device;
mod fits;
mod record;

type Error = Box<dyn std::error::Error>;

fn print_row(name: &str, real: f64, model: f64) {
    let error = 100.0 * (model / real - 1.0);
    println!("{name:<24} {real:.3} {model:.3} {error:+.1} %");
}

#[test]
fn every_row_of_concurrent_tenants_is_within_ten_percent() -> Result<(), Error> {
    let record = record::Record::read()?;
    let machine = device::machine()?;
    for axis in device::Axis::ALL {
        for mechanism in device::Mechanism::ALL {
            let real = record.retention(mechanism.name(), axis.name())?;
            let model = device::retention(&machine, &record.pair(axis)?, mechanism);
            print_row(&format!("{} {}", mechanism.name(), axis.name()), real, model);
            assert!((model / real - 1.0).abs() < 0.1, "{mechanism:?} {axis:?}");
        }
    }
    Ok(())
}
