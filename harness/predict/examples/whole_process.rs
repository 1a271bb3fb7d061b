//! The reference model as a process, for the run times of `ci/check_speed.py`.
//!
//!     cargo run --release -p gpubench-predict --example whole_process -- 11905
//!
//! prints the output of `ci/oracle_numpy.py table --format json --duration-s 11905`, equal to the
//! last bit. With a second argument it sweeps loads on this number of threads.

use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::Scenario;
use gpubench_predict::simulate::summary::predict;
use gpubench_predict::simulate::sweep::{SweepPlan, sweep};
use gpubench_show::json as json_text;
use serde_json::{Value, json};
use std::num::NonZeroUsize;

#[expect(clippy::print_stdout, reason = "printing is what an example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let duration_s =
        arguments.next().ok_or("the argument is missing: a duration in seconds")?.parse()?;
    let threads: Option<NonZeroUsize> = arguments.next().map(|text| text.parse()).transpose()?;
    let scenario = Scenario { rng: RngKind::Numpy, duration_s, ..Scenario::default() };
    scenario.check()?;
    print!(
        "{}",
        match threads {
            None => json_text(&table(&scenario))?,
            Some(threads) => swept(&scenario, threads)?,
        }
    );
    Ok(())
}

fn table(scenario: &Scenario) -> Value {
    let found = predict(scenario);
    let rows = found.modes.iter().map(|row| {
        json!({
            "mode": row.mode, "served": row.served, "served_percent": row.served_percent,
            "p50_ms": row.p50_ms, "p99_ms": row.p99_ms,
        })
    });
    json!({ "offered": found.offered, "modes": rows.collect::<Vec<_>>() })
}

fn swept(scenario: &Scenario, threads: NonZeroUsize) -> Result<String, Box<dyn std::error::Error>> {
    let plan = SweepPlan {
        loads: (1..=24).map(|step| f64::from(step) * 0.04).collect(),
        replications: 2,
        coverage: 0.95,
    };
    Ok(json_text(&sweep(scenario, &plan, threads)?)?)
}
