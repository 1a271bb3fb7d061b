//! Rates of closed loops against what is planted: the periods of a limiter, and an SM clock that
//! the neighbour's power lowers.

use crate::support::{Error, Lab, TestResult, finish};
use gpubench::plan::phase_ns;
use gpubench_record::{Condition, MatrixRow};
use serde_json::Value;

/// Six blocks of one resource. The closed loop is no multiple of the limiter's 120 ms.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "closed loops of 200 ms"
decides = false
mechanisms = ["exclusive", "MECHANISM"]
axes = ["compute/sm"]
device_time = "60s"
[blocks]
min = 6
max = 6
[cell]
warmup = "30ms"
closed = "200ms"
gap = "5ms"
open = "20ms"
[cell_min]
warmup = "30ms"
closed = "120ms"
gap = "5ms"
open = "20ms"
"#;

/// A `hopper` without noise, with these changes, and a profile of this mechanism.
fn lab(changes: &[(&str, &str)], end: &str, mechanism: &str) -> Result<Lab, Error> {
    let quiet = [
        ("request = 0.004", "request = 0.0"),
        ("epoch = 0.003", "epoch = 0.0"),
        ("session = 0.002", "session = 0.0"),
    ];
    let changes = [&quiet, changes].concat();
    let profile = PROFILE.replace("MECHANISM", mechanism);
    Lab::changed("hopper", &changes, end)?.profile(&profile)
}

#[test]
fn every_window_sees_the_same_rate_of_a_limiter() -> TestResult {
    // Launches pass in the first half of each 120 ms.
    let lab = lab(&[], "\n[defects]\nhami_limiter_paced = true\n", "hami")?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    assert_eq!(record.plan.durations.closed_ns, 120_000_000);
    let of = |conditions: &[Condition]| {
        let cells = record.cells.iter();
        let cells = cells.filter(|cell| conditions.contains(&cell.cell.condition));
        let rates: Vec<f64> = cells.filter_map(|cell| cell.figures.closed_rate_per_s).collect();
        rates
    };
    let native = of(&[Condition::N]);
    let native = native.iter().sum::<f64>() / native.len() as f64;
    let solo = of(&[Condition::S, Condition::SAgain]);
    assert_eq!(solo.len(), 12);
    // A request that starts at the end of an open half lasts beyond it.
    for rate in solo {
        let share = rate / native;
        assert!((0.495..=0.515).contains(&share), "{share}");
    }
    // Cells of the limiter wait for a random instant of its period.
    let events = std::fs::read_to_string(lab.path("out/events.jsonl"))?;
    let (mut quarters, mut ended_ns) = (Vec::new(), 0);
    for line in events.lines() {
        let event: Value = serde_json::from_str(line)?;
        let span = &event["surroundings"]["span"];
        let ends = [&span["start_ns"], &span["end_ns"]].map(Value::as_u64);
        let [Some(start_ns), Some(end_ns)] = ends else {
            continue;
        };
        let mut cells = record.plan.cells.iter();
        let cell = cells.find(|cell| event["id"] == cell.id);
        let cell = cell.ok_or("an event of no cell")?;
        let phase_ns = phase_ns(&record.plan, cell);
        let waited_ns = start_ns - ended_ns;
        assert!(waited_ns >= phase_ns, "{}: {waited_ns} of {phase_ns} ns", cell.id);
        if cell.mechanism == "hami" {
            quarters.push(phase_ns / 30_000_000);
        }
        ended_ns = end_ns;
    }
    assert_eq!(quarters.len(), 18);
    for quarter in 0..4 {
        assert!(quarters.contains(&quarter), "{quarters:?}");
    }
    Ok(())
}

/// The row of MPS under this power cap.
fn beside_a_hog(cap_w: &str) -> Result<MatrixRow, Error> {
    let lab = lab(&[("cap_w = 700.0", &format!("cap_w = {cap_w}"))], "", "mps")?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let rows = lab.record("out")?.matrix;
    let row = rows.into_iter().find(|row| row.mechanism == "mps");
    Ok(row.ok_or("no row")?)
}

#[test]
fn the_part_that_the_clock_took_is_named_in_the_row() -> TestResult {
    let (free, capped) = (beside_a_hog("700.0")?, beside_a_hog("250.0")?);
    let ratio =
        |row: &MatrixRow| Some((row.retention.as_ref()?.value, row.clock_part.as_ref()?.value));
    let (uncapped, none) = ratio(&free).ok_or("figures without a cap")?;
    let (time, clock) = ratio(&capped).ok_or("figures under a cap")?;
    assert_eq!(none, 1.0);
    assert!(time < 0.95 * uncapped && clock < 0.95, "{time} {clock}");
    // In cycles the neighbour takes as much as without the cap.
    assert!((time / clock / uncapped - 1.0).abs() < 0.01, "{time} {clock} {uncapped}");
    let named = |row: &MatrixRow| row.warnings.iter().any(|text| text.starts_with("clock: "));
    assert!(named(&capped) && !named(&free), "{:?}", capped.warnings);
    Ok(())
}
