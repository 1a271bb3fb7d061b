//! Observations around cells: Xids that are read late, drift of the service time, clocks of other
//! time namespaces, and NVML errors, each through a whole run or its events.

use std::process::Command;

use gpubench_record::{
    CellResult, Condition, DeviceSpeed, Gate, GateState, Json, OutcomeKind, RunRecord, TimePart,
};
use gpubench_virtual_gpu::session::NVML_FAILS;
use serde_json::{Value, json};

use super::support::guarded::Resident;
use crate::support::{Error, Lab, TestResult, finish, machine_text, wait_during};

const PROFILE: &str =
    concat!("mechanisms = [\"exclusive\", \"time-slicing\"]\n", include_str!("data/short.toml"));

/// A finished run with its events.
fn finished() -> Result<(Lab, Vec<Value>), Error> {
    let lab = Lab::on("turing")?.profile(PROFILE)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let text = std::fs::read_to_string(lab.path("out/events.jsonl"))?;
    let events = text.lines().map(serde_json::from_str);
    Ok((lab, events.collect::<Result<_, _>>()?))
}

/// The record that these events give: it is scored from them, as after a crash.
fn rescored(lab: &Lab, events: &[Value]) -> Result<RunRecord, Error> {
    let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
    std::fs::write(lab.path("out/events.jsonl"), lines.concat())?;
    std::fs::remove_file(lab.path("out/record.json"))?;
    let report = lab.gpubench(["report", "out", "--repair", "--format", "json"]);
    let report = finish(report)?.ended_with(0)?;
    Ok(RunRecord::from_json(report.stdout.as_bytes())?)
}

fn failed<'a>(record: &'a RunRecord, gate: &Gate) -> Vec<(&'a str, &'a str)> {
    let detail = |cell: &'a CellResult| {
        let found = cell.gate(gate).filter(|one| one.state == GateState::Failed)?;
        Some((cell.cell.id.as_str(), found.detail.as_str()))
    };
    record.cells.iter().filter_map(detail).collect()
}

#[test]
fn changed_events_of_a_run_change_its_findings() -> TestResult {
    let (lab, events) = finished()?;
    another_service_time_than_the_calibrated_one_is_a_finding_of_the_rows(&lab, events.clone())?;
    a_late_xid_belongs_to_the_cell_of_its_stamp(&lab, &events)
}

fn a_late_xid_belongs_to_the_cell_of_its_stamp(lab: &Lab, events: &[Value]) -> TestResult {
    let ends: Vec<usize> =
        (0..events.len()).filter(|&at| events[at]["event"] == "cell-ended").collect();
    let (first, second) = (ends[3], ends[4]);
    let instant = |at: usize, which: &str| events[at]["surroundings"]["span"][which].as_u64();
    let (start, end) = (instant(first, "start_ns"), instant(first, "end_ns"));
    let (start, end) = (start.ok_or("no start")?, end.ok_or("no end")?);
    let id = |at: usize| events[at]["id"].as_str().unwrap_or_default();
    let late = format!("13 (read late, at the end of {})", id(second));
    let between = "its stamp lies between them";
    let unstamped = "it has no stamp";
    for (t_ns, notes) in [
        (json!(start + 1), vec![(first, late)]),
        (
            json!(end + 1),
            vec![
                (first, format!("13 (of this cell or of {}: {between})", id(second))),
                (second, format!("13 (of this cell or of {}: {between})", id(first))),
            ],
        ),
        (
            Value::Null,
            vec![
                (first, format!("13 (of this cell or of {}: {unstamped})", id(second))),
                (second, format!("13 (of this cell or of {}: {unstamped})", id(first))),
            ],
        ),
    ] {
        let mut changed = events.to_vec();
        changed[second]["xids"] = json!([13]);
        changed[second]["xid_lines"] = json!([{"number": 13, "t_ns": t_ns, "text": ""}]);
        let record = rescored(lab, &changed)?;
        let expected: Vec<(&str, String)> = notes
            .into_iter()
            .map(|(at, note)| (id(at), format!("the device reported Xid: {note}")))
            .collect();
        let mut found = failed(&record, &Gate::Xid);
        found.sort_unstable_by_key(|(cell, _)| expected.iter().position(|one| one.0 == *cell));
        let expected: Vec<_> = expected.iter().map(|(id, text)| (*id, text.as_str())).collect();
        assert_eq!(found, expected, "{t_ns}");
    }
    Ok(())
}

fn another_service_time_than_the_calibrated_one_is_a_finding_of_the_rows(
    lab: &Lab,
    mut events: Vec<Value>,
) -> TestResult {
    assert_eq!(failed(&lab.record("out")?, &Gate::ServiceDrift), []);
    let calibrated = events.iter_mut().find(|event| event["event"] == "calibrated");
    let entries = &mut calibrated.ok_or("no calibration")?["calibration"]["entries"];
    let service = &mut entries["compute"]["service_ns"];
    *service = json!(service.as_u64().ok_or("no service time")? * 6 / 5);
    let record = rescored(lab, &events)?;
    let native: Vec<_> =
        record.cells.iter().filter(|cell| cell.cell.condition == Condition::N).collect();
    assert_eq!(failed(&record, &Gate::ServiceDrift).len(), native.len());
    assert!(native.iter().all(|cell| cell.outcome.outcome == OutcomeKind::Measured));
    let mut rows = record.matrix.iter();
    let row = rows.find(|row| row.mechanism == "time-slicing").ok_or("no row")?;
    assert!(row.guarantee.is_some(), "{row:?}");
    let named = |text: &String| text.starts_with("service-drift in 6 cells, first ");
    assert!(row.warnings.iter().any(named), "{:?}", row.warnings);
    Ok(())
}

#[test]
fn a_victim_in_another_time_namespace_is_not_compared() -> TestResult {
    let unshare = ["unshare", "--user", "--map-root-user", "--time", "--fork"];
    let allowed = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
    if !allowed.is_ok_and(|status| status.success()) {
        // Hosts can forbid namespaces to users; then no user's victim is in another one.
        return Ok(());
    }
    let profile = include_str!("data/user_victim_proofs.toml");
    let lab = Lab::on("hopper")?.profile(profile)?;
    lab.write("victim.c", include_str!("data/victim.c"))?;
    let (source, built) = (lab.arg("victim.c"), lab.arg("victim"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o", &built, &source, "-ldl"]);
    finish(compiler)?.ended_with(0)?;
    let victim = format!("exec {} {built}", unshare.join(" "));
    finish(lab.matrix("out", &["--mechanism", "exclusive", "--victim-cmd", &victim]))?;
    let record = lab.record("out")?;
    assert!(!record.cells.is_empty());
    // A plan without jitter needs no timer floor, and the run does not wait for one.
    assert!(record.provenance.timer_floor_ns.is_empty());
    let why = &record.provenance.host["timer_self_test"];
    assert_eq!(why, "not measured: no jitter is planned");
    for cell in &record.cells {
        let state = cell.gate_state(&Gate::TimeNamespace);
        assert_eq!(state, Some(GateState::Failed), "{cell:?}");
    }
    let recorded = record.provenance.victim_environment.as_deref();
    assert!(recorded.is_some_and(|text| text.starts_with("the user's")), "{recorded:?}");
    Ok(())
}

#[test]
fn without_a_list_of_processes_no_compute_mode_is_changed() -> TestResult {
    let host = Resident::start(Lab::on("hopper")?.profile(PROFILE)?)?;
    std::fs::write(host.folder()?.join(NVML_FAILS), "")?;
    let mut run = host.gpubench(&["matrix", "--profile", "short.toml", "--out", "out"]);
    run.args(["--mechanism", "exclusive-process", "--allow-reconfigure", "--full"]);
    let run = finish(run)?.ended_with(3)?;
    let refused = "NVML does not list the processes on the device (";
    assert!(run.text().contains(refused), "{}", run.text());
    // Nothing was changed on the host, so there is nothing to undo.
    assert_eq!(host.left_in("state/gpubench"), Vec::<std::path::PathBuf>::new());
    Ok(())
}

#[test]
fn a_failed_list_of_processes_is_named_by_its_gate() -> TestResult {
    let host = Resident::start(Lab::on("hopper")?.profile(PROFILE)?)?;
    let matrix = ["matrix", "--profile", "short.toml", "--out", "out", "--mechanism", "exclusive"];
    let mut run = host.gpubench(&matrix).spawn()?;
    let events = host.lab.path("out/events.jsonl");
    wait_during(&mut run, "a proof", || {
        let text = std::fs::read_to_string(&events);
        text.is_ok_and(|text| text.contains("\"event\":\"proved\""))
    })?;
    std::fs::write(host.folder()?.join(NVML_FAILS), "")?;
    run.wait_with_output()?;
    let record = host.lab.record("out")?;
    let last = record.cells.last().and_then(|cell| cell.gate(&Gate::ForeignProcess));
    let last = last.ok_or("no gate")?;
    assert_eq!(last.state, GateState::NotEvaluated);
    assert!(last.detail.starts_with("not observed: NVML: "), "{}", last.detail);
    Ok(())
}

// A device whose speed changes: heating removes the change, and the check kernel shows it where
// the device was not heated.

/// Five cells in a block, 12 s together. A window of the heating is 4 s, its limit 100 s.
const SOAK: &str = r#"
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
    let profile = SOAK.replace("MECHANISMS", mechanisms) + soak;
    let lab = Lab::of_machine(machine)?.profile(&profile)?;
    finish(lab.matrix("out", &["--no-faults"]))?.ended_with(0)?;
    lab.record("out")
}

fn speed(record: &RunRecord) -> Result<&DeviceSpeed, Error> {
    Ok(record.device_speed.as_ref().ok_or("no speed")?)
}

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
    let spent = |part| heated.time.iter().find(|one| one.part == part).map_or(0, |one| one.ns);
    assert!(spent(TimePart::SpeedChecks) > heating.elapsed_ns, "{:?}", heated.time);
    // A cell ends with its last request, up to one request before the end of its window.
    let in_cells = (spent(TimePart::Windows) + spent(TimePart::WarmUp)) as f64;
    let of_planned = in_cells / heated.plan.device_time_ns() as f64;
    assert!((0.995..=1.0).contains(&of_planned), "{:?}", heated.time);
    assert!(spent(TimePart::Contexts) > 0 && spent(TimePart::Calibration) > 0);
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
