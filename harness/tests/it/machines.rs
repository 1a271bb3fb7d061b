//! Random machines: the retention, the service jitter and the proportion of contained faults that
//! a machine file plants lie in the printed intervals, and levels are those of the planted values.
//!
//! `bash ci/long.sh machines` measures 40. A machine depends on its seed alone, so one that fails
//! can be measured again: `GPUBENCH_MACHINES=7-7`.

mod faults;
mod jitter;
mod planted;
mod rows;
mod tally;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gpubench_record::{Calibration, CellResult, Condition, MatrixRow, Role, RunRecord};
use planted::{Alone, Params, Planted};
use rows::{Kind, Row, rows};
use tally::Tally;

use crate::support::{Error, Lab, TestResult, finish, gpubench, quick_hopper, record, run_matrix};

/// About 80 s of device time, most of it the pauses between single requests. Two more blocks than
/// six groups of them need make up for requests that last long beside the aggressor.
fn profile(planted: &Planted) -> String {
    let (axis, quota_pct, mechanisms) = (planted.axis, planted.quota_pct, planted.mechanisms);
    format!(
        r#"
version = 1
soak = {{ limit = "0s", keep_warm = "0s", check = "0s" }}
summary = "a random machine"
decides = false
mechanisms = ["exclusive"{mechanisms}]
axes = ["{axis}", "jitter", "fault/sm"]
open_loops = "jitter"
jitter_pairs = ["{axis}"]
device_time = "120s"
mps-quota = {{ pct = {quota_pct} }}
blocks = {{ min = 8, max = 10, top_up = false }}
cell = {{ warmup = "10ms", closed = "60ms", gap = "10ms", open = "20ms" }}
cell_min = {{ warmup = "5ms", closed = "40ms", gap = "10ms", open = "20ms" }}
"#
    )
}

/// The native cells of one axis, with single requests in their open loops.
fn native_profile(planted: &Planted) -> String {
    let axis = planted.axis;
    format!(
        r#"
version = 1
soak = {{ limit = "0s", keep_warm = "0s", check = "0s" }}
summary = "a random machine alone"
decides = false
mechanisms = ["exclusive"]
axes = ["{axis}"]
open_loops = "all"
device_time = "10s"
blocks = {{ min = 6, max = 6, top_up = false }}
cell = {{ warmup = "10ms", closed = "60ms", gap = "10ms", open = "20ms" }}
cell_min = {{ warmup = "5ms", closed = "40ms", gap = "10ms", open = "20ms" }}
"#
    )
}

fn run(
    dir: &Path,
    name: &str,
    planted: &Planted,
    profile: &str,
    more: &[&str],
) -> Result<RunRecord, Error> {
    let machine = toml::to_string(&planted.machine)?;
    let seed = planted.seed.to_string();
    let arguments = [&["--allow-reconfigure", "--seed", &seed][..], more].concat();
    run_matrix(dir, name, &machine, profile, &arguments)?.ended_with(0)?;
    record(&dir.join(name))
}

/// The figures of the victim alone on the whole device, from its first native cell.
fn alone(quiet: &RunRecord, calibration: &Calibration) -> Result<Alone, Error> {
    let native = |cell: &&CellResult| cell.cell.condition == Condition::N;
    let cell = quiet.cells.iter().find(native).ok_or("no native cell")?;
    let figures = &cell.figures;
    // Without noise all are equal.
    let lone_ns: Vec<u64> = quiet.cells.iter().flat_map(|cell| cell.lone_ns.clone()).collect();
    let params = |role: Role| {
        let mut entries = calibration.entries.values();
        let entry =
            entries.find(|entry| (entry.spec.name == cell.cell.victim) == (role == Role::Victim));
        let spec = &entry.ok_or("a workload is not calibrated")?.spec;
        let param = |name: &str| spec.params.get(name).map_or(0.0, |param| *param as f64);
        Ok::<_, Error>(Params {
            blocks: param("blocks"),
            threads: param("threads"),
            iterations: param("iterations"),
            bytes: param("bytes"),
        })
    };
    Ok(Alone {
        gpu_us: figures.gpu_p50_ns.ok_or("no GPU time")? / 1e3,
        period_us: 1e6 / figures.closed_rate_per_s.ok_or("no rate")?,
        lone_us: *lone_ns.first().ok_or("no single request")? as f64 / 1e3,
        victim: params(Role::Victim)?,
        aggressor: params(Role::Aggressor)?,
    })
}

/// Measures one machine as it is, then the same requests quiet and alone, for the planted values.
/// Noise can move the calibration: another victim would have another retention.
fn measure(planted: &Planted) -> Result<Vec<Row>, Error> {
    let dir = tempfile::tempdir()?;
    let faults =
        [format!("--faults={}", faults::FAULT), format!("--fault-trials={}", faults::TRIALS)];
    let faults = faults.each_ref().map(String::as_str);
    let record = run(dir.path(), "out", planted, &profile(planted), &faults)?;
    let out = dir.path().join("out");
    let same = ["--calibration", out.to_str().ok_or("a path")?];
    let quiet = run(dir.path(), "quiet", &planted.quiet(), &native_profile(planted), &same)?;
    let report = ["report", same[1], "--full", "--format", "md"];
    let report = finish(gpubench(report))?.ended_with(0)?.stdout;
    // Without the escapes of Markdown.
    let report = report.replace('\\', "").replace("&lt;", "<");
    rows(planted, &alone(&quiet, &record.calibration)?, &record, &report)
}

/// Measures machines on two threads.
fn measure_all(first: u64, last: u64) -> Result<Vec<Row>, Error> {
    let next = AtomicU64::new(first);
    let work = || -> Result<Vec<Row>, Error> {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > last {
                return Ok(found);
            }
            let planted = Planted::random(seed)?;
            let measured = measure(&planted);
            found.extend(measured.map_err(|error| format!("seed {seed}: {error}"))?);
        }
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into())));
        joined.collect::<Result<Vec<_>, Error>>()
    })?;
    Ok(all.into_iter().flatten().collect())
}

/// The seeds in `GPUBENCH_MACHINES`, such as `1-40`; without it the first 3.
fn seeds() -> Result<(u64, u64), Error> {
    let Ok(text) = std::env::var("GPUBENCH_MACHINES") else { return Ok((1, 3)) };
    let ends = text.split_once('-');
    let (first, last) = ends.ok_or(format!("GPUBENCH_MACHINES is {text}, not FIRST-LAST"))?;
    Ok((first.parse()?, last.parse()?))
}

#[test]
#[expect(clippy::print_stdout, reason = "the rows are the result of the long run")]
fn random_machines_have_their_planted_values_and_levels() -> TestResult {
    let (first, last) = seeds()?;
    let rows = measure_all(first, last)?;
    for row in &rows {
        println!("{row}");
    }
    let tallies = Kind::ALL.map(|kind| Tally::of(kind, &rows));
    for tally in &tallies {
        println!("seeds {first} to {last}: {tally}");
    }
    tallies.iter().try_for_each(Tally::check)
}

// The two ends of the scale on all five axes: a machine without isolation has L0 everywhere, and
// an ideal one L3 where partitions show.
//
// Three things are in no machine file. An address space cannot be opened to a neighbour, so
// `memory/visibility` is clean on both. A MIG instance keeps its own SMs and memory; only its
// bandwidth and its fault containment can leak. All instances share the host link, so
// `bandwidth/pcie` has no partition, and is left out.

/// Requests of 0.2 ms, so that 0.4 s of the open loop hold the requests of a p99.
fn extreme_profile(mechanisms: &str) -> String {
    format!(
        r#"
version = 1
soak = {{ limit = "0s", keep_warm = "0s", check = "0s" }}
summary = "all five axes, as short as a p99 allows"
decides = false
mechanisms = ["exclusive"{mechanisms}]
axes = ["memory", "compute/sm", "bandwidth/dram", "bandwidth/l2", "fault/sm", "jitter"]
open_loops = "jitter"
jitter_pairs = ["compute/sm"]
service = "200us"
device_time = "60s"
blocks = {{ min = 6, max = 6, top_up = false }}
cell = {{ warmup = "5ms", closed = "30ms", gap = "5ms", open = "400ms" }}
cell_min = {{ warmup = "5ms", closed = "30ms", gap = "5ms", open = "400ms" }}
"#
    )
}

fn measured(machine: &str, mechanisms: &str, trials: u32) -> Result<RunRecord, Error> {
    let lab = Lab::of_machine(machine)?.profile(&extreme_profile(mechanisms))?;
    let trials = format!("--fault-trials={trials}");
    let arguments = ["--allow-reconfigure", "--faults=trap", &trials];
    finish(lab.matrix("out", &arguments))?.ended_with(0)?;
    lab.record("out")
}

/// `AXIS/SUB-AXIS` of a row.
fn name(row: &MatrixRow) -> String {
    match &row.sub_axis {
        Some(sub_axis) => format!("{}/{sub_axis}", row.axis),
        None => row.axis.clone(),
    }
}

/// Compares the levels of all rows of a mechanism. `other` lists those with another level.
fn check(record: &RunRecord, mechanism: &str, level: &str, other: &[(&str, &str)]) -> TestResult {
    const ROWS: [&str; 9] = [
        "compute/sm",
        "bandwidth/dram",
        "bandwidth/l2",
        "memory/capacity",
        "memory/cap",
        "memory/residue",
        "memory/visibility",
        "jitter/sm",
        "fault/sm",
    ];
    let rows = record.matrix.iter();
    let rows: Vec<&MatrixRow> = rows.filter(|row| row.mechanism == mechanism).collect();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    assert_eq!(names, ROWS, "{mechanism}");
    for row in rows {
        let axis = name(row);
        let found = other.iter().find(|(name, _)| *name == axis);
        let wanted = found.map_or(level, |(_, level)| level);
        assert_eq!(row.level.as_deref(), Some(wanted), "{axis}: {row:?}");
    }
    Ok(())
}

#[test]
fn a_machine_without_isolation_has_l0_on_every_axis() -> TestResult {
    let machine = quick_hopper()?
        + "[defects]\nmig_dram_leak = 0.99\nmig_l2_leak = 0.99\nfault_crosses_contexts = true\n";
    let record = measured(&machine, r#", "time-slicing", "mps", "mig""#, 17)?;
    check(&record, "time-slicing", "L0", &[("memory/visibility", "L3")])?;
    // MPS slows all requests alike.
    check(&record, "mps", "L0", &[("memory/visibility", "L3"), ("jitter/sm", "L3")])?;
    let leaks = ["bandwidth/dram", "bandwidth/l2", "fault/sm"].map(|axis| (axis, "L0"));
    check(&record, "mig", "L3", &leaks)
}

/// No instance leaks on a machine without planted defects. 72 trials without harm are the fewest
/// whose interval starts at 95 %.
#[test]
fn the_partitions_of_an_ideal_machine_have_l3_on_every_axis() -> TestResult {
    let record = measured(&quick_hopper()?, r#", "mig""#, 72)?;
    check(&record, "mig", "L3", &[])
}
