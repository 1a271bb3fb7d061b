//! The reference model as a whole process, to be timed against `ci/oracle_numpy.py table`.
//!
//!     cargo run --release -p gpubench-predict --example whole_process -- 11905
//!
//! With a second argument it sweeps loads on so many threads instead, and prints the time per run.

use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::Scenario;
use gpubench_predict::simulate::summary::predict;
use gpubench_predict::simulate::sweep::{SweepPlan, sweep};
use std::num::NonZeroUsize;
use std::time::Instant;

#[expect(clippy::print_stdout, reason = "printing is what an example is for")]
fn main() {
    let duration_s = std::env::args()
        .nth(1)
        .and_then(|given| given.parse().ok())
        .unwrap_or(60.0);
    let scenario = Scenario {
        rng: RngKind::Numpy,
        duration_s,
        ..Scenario::default()
    };
    let threads = std::env::args().nth(2).and_then(|given| given.parse().ok());
    if let Some(threads) = threads {
        return time_sweep(&scenario, threads);
    }
    let found = predict(&scenario);
    for mode in found.modes {
        let (p50_ms, p99_ms) = (
            mode.p50_ms.unwrap_or(f64::NAN),
            mode.p99_ms.unwrap_or(f64::NAN),
        );
        let percent = mode.served_percent.unwrap_or(f64::NAN);
        let (name, offered, served) = (mode.mode.name(), found.offered, mode.served);
        println!("{name:<11} {offered:>8} {served:>8} {percent:>6.1} {p50_ms:>9.2} {p99_ms:>9.2}");
    }
}

#[expect(clippy::print_stdout, reason = "printing is what an example is for")]
fn time_sweep(scenario: &Scenario, threads: NonZeroUsize) {
    let loads = (1..=24).map(|step| f64::from(step) * 0.04).collect();
    let plan = SweepPlan {
        loads,
        replications: 2,
        coverage: 0.95,
    };
    let begun = Instant::now();
    match sweep(scenario, &plan, threads) {
        Ok(found) => println!(
            "{threads} threads: {} loads, {:?}",
            found.points.len(),
            begun.elapsed()
        ),
        Err(error) => println!("{error}"),
    }
}
