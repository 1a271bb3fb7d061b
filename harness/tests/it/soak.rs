//! A device whose speed changes: heating removes the change, and the check kernel shows it where
//! the device was not heated.

use crate::support::{Error, Lab, TestResult, finish, machine_text};
use gpubench_record::{DeviceSpeed, Gate, GateState, RunRecord};

/// Five cells in a block, 12 s together. A window of the heating is 4 s, its limit 100 s.
const PROFILE: &str = r#"
version = 1
decides = false
mechanisms = MECHANISMS
axes = ["compute/sm"]
device_time = "200s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "200ms", gap = "5ms", open = "200ms" }
cell_min = { warmup = "10ms", closed = "200ms", gap = "5ms", open = "200ms" }
[soak]
"#;

/// A device that is a fifth slower when it starts and reaches its speed within 30 s.
fn machine() -> Result<String, Error> {
    let mut machine: toml::Table = machine_text("turing")?.parse()?;
    let noise = machine.get_mut("noise").and_then(toml::Value::as_table_mut);
    let noise = noise.ok_or("no noise")?;
    for (_, value) in noise.iter_mut().filter(|(_, value)| value.is_float()) {
        *value = 0.0.into();
    }
    noise.insert("warm_up".to_owned(), 0.2.into());
    noise.insert("warm_up_s".to_owned(), 30.into());
    Ok(machine.to_string())
}

fn run(machine: &str, mechanisms: &str, soak: &str) -> Result<RunRecord, Error> {
    let profile = PROFILE.replace("MECHANISMS", mechanisms) + soak;
    let lab = Lab::of_machine(machine)?.profile(&profile)?;
    finish(lab.matrix("out", &["--no-faults"]))?.ended_with(0)?;
    lab.record("out")
}

fn speed(record: &RunRecord) -> Result<&DeviceSpeed, Error> {
    Ok(record.device_speed.as_ref().ok_or("no speed")?)
}

/// How many cells have this state of the gate.
fn cells_with(record: &RunRecord, state: GateState) -> usize {
    let cells = record.cells.iter();
    let has_state = |gate: Option<GateState>| gate == Some(state);
    cells.filter(|cell| has_state(cell.gate_state(&Gate::DeviceDrift))).count()
}

/// How many cells lie between check kernels of different rates, and how many rows say so.
fn drifted(record: &RunRecord) -> (usize, usize) {
    let cells = cells_with(record, GateState::Failed);
    let named = |text: &String| text.contains("device-drift");
    let rows = record.matrix.iter();
    let rows = rows.filter(|row| row.warnings.iter().any(named));
    (cells, rows.count())
}

#[test]
fn heating_removes_a_warm_up_that_the_check_kernel_shows_without_it() -> TestResult {
    let machine = machine()?;
    let mechanisms = r#"["time-slicing"]"#;
    let heated = run(&machine, mechanisms, "")?;
    let heating = speed(&heated)?.heating.as_ref().ok_or("no heating")?;
    let gain = heating.last.rate_per_s / heating.first.rate_per_s;
    assert!(heating.steady && (1.1..1.2).contains(&gain), "{heating:?}");
    assert!(heating.elapsed_ns > 20_000_000_000, "five windows and more");
    assert_eq!(drifted(&heated), (0, 0));
    assert_eq!(cells_with(&heated, GateState::Passed), heated.cells.len());

    let cold = run(&machine, mechanisms, "limit = \"0s\"\n")?;
    assert_eq!(speed(&cold)?.heating, None);
    let (cells, rows) = drifted(&cold);
    assert!(cells > 10 && rows > 0, "{cells} cells, {rows} rows");
    let rates: Vec<f64> = speed(&cold)?.checks.iter().map(|one| one.rate_per_s).collect();
    assert!(rates.windows(2).any(|pair| pair[1] > 1.05 * pair[0]), "{rates:?}");
    Ok(())
}

#[test]
fn each_switch_of_the_host_has_its_check_kernels() -> TestResult {
    let machine = machine_text("hopper")?;
    let mechanisms = r#"["time-slicing", "mig"]"#;
    let record = run(machine, mechanisms, "limit = \"0s\"\n")?;
    // Three pairs of blocks with groups in turn: every cell, also under MIG, where no native tenant
    // can run, lies between two check kernels.
    assert_eq!(cells_with(&record, GateState::Passed), record.cells.len());
    let checks = &speed(&record)?.checks;
    assert!(checks.len() >= 6, "{checks:?}");
    let nothing = "limit = \"0s\"\nkeep_warm = \"0s\"\ncheck = \"0s\"\n";
    let nothing = run(machine, mechanisms, nothing)?;
    assert_eq!(nothing.device_speed, None);
    assert_eq!(cells_with(&nothing, GateState::NotEvaluated), nothing.cells.len());
    Ok(())
}
