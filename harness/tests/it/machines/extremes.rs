//! The two ends of the scale on all five axes: a machine without isolation has L0 everywhere, and
//! an ideal one L3 where partitions show.
//!
//! Three things are in no machine file. An address space cannot be opened to a neighbour, so
//! `memory/visibility` is clean on both. A MIG instance keeps its own SMs and memory; only its
//! bandwidth and its fault containment can leak. All instances share the host link, so
//! `bandwidth/pcie` has no partition, and is left out.

use gpubench_record::{MatrixRow, RunRecord};

use crate::support::{Error, Lab, TestResult, finish, quick_hopper};

/// Requests of 0.2 ms, so that 0.4 s of the open loop hold the requests of a p99.
fn profile(mechanisms: &str) -> String {
    format!(
        r#"
version = 1
soak = {{ limit = "0s", keep_warm = "0s", check = "0s" }}
summary = "all five axes, as short as a p99 allows"
decides = false
mechanisms = ["exclusive"{mechanisms}]
axes = ["memory", "compute/sm", "bandwidth/dram", "bandwidth/l2", "fault/sm", "jitter"]
open_loops = "jitter"
service = "200us"
device_time = "60s"
blocks = {{ min = 6, max = 6, top_up = false }}
cell = {{ warmup = "5ms", closed = "30ms", gap = "5ms", open = "400ms" }}
cell_min = {{ warmup = "5ms", closed = "30ms", gap = "5ms", open = "400ms" }}
"#
    )
}

fn measured(machine: &str, mechanisms: &str, trials: u32) -> Result<RunRecord, Error> {
    let lab = Lab::of_machine(machine)?.profile(&profile(mechanisms))?;
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
        "jitter",
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
    let record = measured(&machine, r#", "time-slicing", "mps", "mig""#, 1)?;
    for mechanism in ["time-slicing", "mps"] {
        check(&record, mechanism, "L0", &[("memory/visibility", "L3")])?;
    }
    let leaks = ["bandwidth/dram", "bandwidth/l2", "fault/sm"].map(|axis| (axis, "L0"));
    check(&record, "mig", "L3", &leaks)
}

/// No instance leaks on a machine without planted defects. 59 trials without harm are the fewest
/// whose one-sided bound is 95 %.
#[test]
fn the_partitions_of_an_ideal_machine_have_l3_on_every_axis() -> TestResult {
    let record = measured(&quick_hopper()?, r#", "mig""#, 59)?;
    check(&record, "mig", "L3", &[])
}
