//! Every workload of the catalogue on the virtual GPU: its results are correct, it reaches the peak
//! of its resource in the machine file, it keeps to its share or its dose, and its sizes follow the
//! device.
//!
//! The library of the virtual device is found through the environment, so this program runs once
//! more for each machine. That process prints one line of JSON for each workload.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use gpubench_catalogue::workload::LENGTHS_NS;
use gpubench_record::{LoadSpec, MatrixRow, OutcomeKind, RefusalKind, Role, SampleStatus, SubAxis};
use gpubench_virtual_gpu::machine::Machine;
use gpubench_workloads::clock::{Clock, Participation, Time};
use gpubench_workloads::device::{EventPool, Requests};
use gpubench_workloads::generator::{CellRun, Reap, run_cell};
use gpubench_workloads::load;
use gpubench_workloads::load::{Calibrated, Gpu, Load, LoadError};
use gpubench_workloads::log::{LogWriter, read_log};
use serde_json::{Value, json};

use crate::support::device::{Device, SHARE, crawling_machine, machines, run_again};
use crate::support::{Error, Lab, SHORT, TestResult, finish};

/// Set in the process of one machine.
const WORKER: &str = "GPUBENCH_TEST_LOADS";

const TEST: &str = "loads::every_workload_does_its_job_on_every_machine";
const SERVICE_NS: u64 = 1_000_000;
/// For `inference`: the virtual GPU executes all of its instructions, which takes longer.
const SERVICE_IN_FULL_NS: u64 = 50_000;
const DOSE: f64 = 0.5;
const PERIOD_NS: u64 = 10_000_000;

#[test]
fn every_workload_does_its_job_on_every_machine() -> TestResult {
    if std::env::var_os(WORKER).is_some() {
        return print_measurements();
    }
    let folder = tempfile::tempdir()?;
    let start = |name: String| {
        let run = move || run_again(&name, TEST, &[(WORKER, "1")]);
        std::thread::spawn(run)
    };
    let runs: Vec<_> =
        machines(folder.path())?.into_iter().map(|name| (name.clone(), start(name))).collect();
    let (mut measured, mut problems) = (Vec::new(), Vec::new());
    for (name, run) in runs {
        let machine = Machine::load(&name)?;
        let lines = run.join().map_err(|_| "a run panicked")??;
        let names: Vec<&str> = lines.keys().map(String::as_str).collect();
        assert_eq!(names.len(), load::LOADS.len(), "{names:?}");
        for (workload, line) in &lines {
            let found = check(&machine, load::find(workload)?, line);
            let found = found.into_iter();
            problems.extend(found.map(|problem| format!("{name}: {workload} {problem}")));
        }
        measured.push(lines);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for workload in load::LOADS.iter() {
        let params = |lines: &BTreeMap<String, Value>| lines[workload.facts.name]["params"].clone();
        let is_fixed = workload.facts.name == "context-storm";
        let same = params(&measured[0]) == params(&measured[1]);
        // Machines with hosts of nearly one speed have the same bursts of launches.
        let of_host = workload.facts.sub_axis == SubAxis::Launch;
        assert!(
            same == is_fixed || of_host,
            "{}: sizes must follow the device",
            workload.facts.name
        );
    }
    Ok(())
}

/// Compares one line with the machine file; returns the differences.
fn check(machine: &Machine, workload: &Load, line: &Value) -> Vec<String> {
    let (name, role) = (workload.facts.name, workload.facts.role);
    let figure = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    if let Some(reason) = line["waived"].as_str() {
        return vec![format!("is waived: {reason}")];
    }
    let work_per_s = figure("rate_per_s") * figure("work_per_request");
    let (min, max) = match role {
        Role::Aggressor => (0.8, 1.01),
        _ => (0.3 * SHARE, SHARE * 1.001),
    };
    let length = figure("service_ns") / service_ns(name) as f64;
    let tolerance = if role == Role::Victim { 0.1 } else { 0.25 };
    let has_length = workload.facts.knob.is_some();
    let fraction = peak_per_s(machine, name).map(|peak| work_per_s / peak);
    let doses = [("work", figure("achieved_dose")), ("windows", figure("busy_dose"))];
    let mut problems = Vec::new();
    let mut expect = |good: bool, problem: String| problems.extend((!good).then_some(problem));
    expect(work_per_s > 0.0, "counts no work".to_owned());
    let good = !has_length || (length - 1.0).abs() <= tolerance;
    expect(good, format!("has {length:.2} of its service time"));
    let good = fraction.is_none_or(|fraction| (min..=max).contains(&fraction));
    expect(good, format!("has {fraction:.3?} of its peak, not {min:.3} to {max:.3}"));
    for (kind, found) in doses.into_iter().filter(|_| role == Role::Aggressor) {
        let good = (found / DOSE - 1.0).abs() <= 0.1;
        expect(good, format!("has dose {found:.3} in {kind}, not {DOSE}"));
    }
    problems
}

fn service_ns(name: &str) -> u64 {
    if name == "inference" { SERVICE_IN_FULL_NS } else { SERVICE_NS }
}

/// The highest rate of a workload on this machine, in its unit per second; `None` if the machine
/// file has no such figure.
fn peak_per_s(machine: &Machine, name: &str) -> Option<f64> {
    let (gpu, memory, pcie) = (&machine.gpu, &machine.memory, &machine.pcie);
    let clocks_per_s = f64::from(gpu.sm_clock_mhz) * 1e6 * f64::from(gpu.sm_count);
    let lanes = |per_clock: u32| f64::from(per_clock) * clocks_per_s;
    let gb = |gb_per_s: f64| gb_per_s * 1e9;
    let slots = gpu.max_blocks_per_sm.min(gpu.max_threads_per_sm / 32);
    Some(match name {
        "compute" | "fma-hog" => 2.0 * lanes(gpu.fp32_lanes_per_clock),
        "fp64" | "fp64-hog" => 2.0 * lanes(gpu.fp64_lanes_per_clock),
        "int" | "int-hog" => 2.0 * lanes(gpu.int_lanes_per_clock),
        "tensor" | "tensor-hog" => 2.0 * lanes(gpu.tensor_ops_per_clock),
        "stream" | "dram-copy" | "dram-read" | "dram-write" => gb(memory.dram_gb_per_s),
        "l2" | "l2-stream" | "l2-thrash" => gb(memory.l2_gb_per_s),
        "shared" | "shared-hog" | "l1" | "l1-hog" => lanes(gpu.shared_bytes_per_clock),
        "tlb" | "tlb-stride" => memory.translations_per_us * 1e6,
        "atomic" | "atomics" => lanes(gpu.atomics_per_clock),
        "pcie" | "pcie-h2d" => gb(pcie.to_device_gb_per_s),
        "pcie-download" | "pcie-d2h" => gb(pcie.to_host_gb_per_s),
        "block-slots" => 1e9 * f64::from(gpu.sm_count * slots),
        "launch-flood" => 1e9 / machine.host.launch_ns as f64,
        "alloc-storm" => 1e9 / (machine.host.alloc_ns + machine.host.free_ns) as f64,
        "module-storm" => 1e9 / machine.host.module_ns as f64,
        "context-storm" => 1e9 / machine.host.context_ns as f64,
        _ => return None,
    })
}

/// The process of one machine: runs all workloads, one after another, on the device of the
/// environment.
fn print_measurements() -> TestResult {
    let device = Device::of_environment()?;
    let (gpu, clock) = (&device.gpu, &device.clock);
    for workload in load::LOADS.iter() {
        device.expect(0)?;
        let participation = Participation::join(clock, 0)?;
        let found = calibrate(workload, gpu, clock)?;
        participation.leave()?;
        let line = match found {
            Err(waived) => json!({ "name": workload.facts.name, "waived": waived }),
            Ok(found) => {
                let mut line = json!({
                    "name": workload.facts.name,
                    "params": found.spec.params,
                    "service_ns": found.service_ns,
                    "rate_per_s": found.rate_per_s,
                    "work_per_request": found.work_per_request,
                });
                if workload.facts.role == Role::Aggressor {
                    let (achieved, busy) = at_dose(workload, &found, &device)?;
                    line["achieved_dose"] = json!(achieved);
                    line["busy_dose"] = json!(busy);
                }
                line
            }
        };
        // The test harness may have begun a line; the reader expects JSON at the start of one.
        writeln!(std::io::stdout(), "\n{line}")?;
    }
    Ok(())
}

/// Verifies and calibrates; the inner error is the reason of a waiver.
fn calibrate(
    workload: &Load,
    gpu: &Gpu,
    clock: &Clock,
) -> Result<Result<Calibrated, String>, Error> {
    if let Some(reason) = workload.lacks(gpu)? {
        return Ok(Err(reason));
    }
    let name = workload.facts.name;
    workload.verify(gpu).map_err(|error| format!("verifying {name}: {error}"))?;
    let share = if workload.facts.role == Role::Victim { SHARE } else { 1.0 };
    let found = load::calibrate(workload, gpu, clock, share, service_ns(name));
    Ok(Ok(found.map_err(|error| format!("calibrating {name}: {error}"))?))
}

/// Runs an aggressor at a dose. Returns its work as a fraction of its work without pauses, and the
/// fraction of the time during which it had work outstanding.
fn at_dose(workload: &Load, found: &Calibrated, device: &Device) -> Result<(f64, f64), Error> {
    const DEPTH: u32 = 2;
    let (gpu, clock) = (&device.gpu, &device.clock);
    let end_ns = (30 * found.service_ns).max(10 * PERIOD_NS).next_multiple_of(PERIOD_NS);
    device.expect(0)?;
    let participation = Participation::join(clock, 0)?;
    let mut prepared = workload.setup(gpu, &found.spec)?;
    let pool = Arc::new(EventPool::new(&gpu.context, gpu.spin, DEPTH as usize)?);
    participation.leave()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("samples");
    let log = LogWriter::create(&path, 100_000)?;
    device.expect(0)?;
    device.expect(1)?;
    let cell = CellRun {
        t0_ns: clock.now_ns() + 1_000_000,
        load: LoadSpec::Aggressor {
            start_ns: 0,
            end_ns,
            dose: DOSE,
            period_ns: PERIOD_NS,
            depth: DEPTH,
        },
        arrivals_ns: Vec::new(),
        pauses_ns: Vec::new(),
        issuer: 0,
        reaper: 1,
        reaper_cores: None,
        answers: workload.facts.answers,
    };
    let time: Arc<dyn Time> = Arc::new(clock.clone());
    let reap: Arc<dyn Reap> = Arc::clone(&pool) as Arc<dyn Reap>;
    let mut requests = Requests::new(gpu, pool, &mut *prepared);
    let outcome = run_cell(&time, &cell, &mut requests, &reap, log)?;
    assert_eq!(outcome.failure, None, "{}", workload.facts.name);
    device.expect(0)?;
    let participation = Participation::join(clock, 0)?;
    drop(prepared);
    participation.leave()?;
    let rows = read_log(&path)?.rows;
    assert!(rows.iter().all(|row| row.status == SampleStatus::Ok), "{}", workload.facts.name);
    let mut spans: Vec<(u64, u64)> =
        rows.iter().map(|row| (row.t_issue_ns, row.t_done_ns)).collect();
    spans.sort_unstable();
    let (mut busy_ns, mut until_ns) = (0, 0);
    for (from, to) in spans {
        busy_ns += to.saturating_sub(from.max(until_ns));
        until_ns = until_ns.max(to);
    }
    // The last window counts, although its work may end after `end_ns`.
    let span_ns = end_ns.max(until_ns) as f64;
    let full = found.rate_per_s * span_ns / 1e9;
    Ok((rows.len() as f64 / full, busy_ns as f64 / span_ns))
}

// Every victim with requests of 0.1 ms and of 10 ms: calibrated within the tolerance, or refused
// with the nearest and the smallest possible length. All other tests use 1 ms.
//
// The memory accesses of a 10 ms kernel take minutes to emulate on the host. Memory-bound victims
// therefore have that length only on a very slow machine, and victims with extrapolated loops also
// on the fastest one. `inference`, whose launches all differ, has only the short length and does
// not run on the fastest machine. A child process does the work on each machine, as in `loads.rs`.

/// The name of the machine, set for the child process.
const CHILD: &str = "GPUBENCH_TEST_LENGTHS";
const LENGTHS_TEST: &str = "loads::every_victim_has_every_possible_length";
const TOLERANCE: f64 = 0.1;

#[test]
fn every_victim_has_every_possible_length() -> TestResult {
    if let Ok(machine) = std::env::var(CHILD) {
        return in_child(&machine);
    }
    let folder = tempfile::tempdir()?;
    let mut names = machines(folder.path())?.to_vec();
    names.push(crawling_machine(folder.path())?);
    let start = |name: String| {
        let machine = name.clone();
        let run = move || run_again(&machine, LENGTHS_TEST, &[(CHILD, &machine)]);
        (name, std::thread::spawn(run))
    };
    let runs: Vec<_> = names.into_iter().map(start).collect();
    let mut wrong = Vec::new();
    for (name, run) in runs {
        let machine = Machine::load(&name)?;
        let lines = run.join().map_err(|_| "a run panicked")??;
        let cases = cases(&name);
        assert!(!cases.is_empty(), "{name}");
        for (victim, length_ns) in cases {
            let line = lines.get(&case_name(victim, length_ns)).ok_or("no line")?;
            let error = check_lengths(&machine, victim, length_ns, line);
            wrong.extend(error.map(|error| format!("{name}: {error}: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Victims whose loops are extrapolated, so that long requests cost the host little.
const EXTRAPOLATED: [&str; 8] = ["compute", "l2", "fp64", "int", "tensor", "shared", "l1", "issue"];

/// The victims and lengths to test on a machine. The slow machine has those that take too long on
/// the others.
fn cases(machine: &str) -> Vec<(&'static Load, u64)> {
    const HOST_BOUND: [&str; 5] = ["pcie", "pcie-download", "launch", "launch-sync", "alloc"];
    let is_slow = machine.ends_with("crawling.toml");
    let [min_ns, max_ns] = LENGTHS_NS;
    let victims = load::LOADS.iter().filter(|w| w.facts.role == Role::Victim);
    let with_knob = victims.copied().filter(|victim| victim.facts.knob.is_some());
    let pairs = with_knob.flat_map(|victim| [(victim, min_ns), (victim, max_ns)]);
    let is_tested = |&(victim, length_ns): &(&Load, u64)| {
        let is_long = length_ns == max_ns;
        match victim.facts.name {
            "inference" => !is_long && !is_slow && machine != "hopper",
            name if is_long && EXTRAPOLATED.contains(&name) => is_slow || machine == "hopper",
            name => (is_long && !HOST_BOUND.contains(&name)) == is_slow,
        }
    };
    pairs.filter(is_tested).collect()
}

fn case_name(victim: &Load, length_ns: u64) -> String {
    format!("{} {length_ns}", victim.facts.name)
}

/// The error of a case, if it has one.
fn check_lengths(machine: &Machine, victim: &Load, length_ns: u64, line: &Value) -> Option<String> {
    // A round is one allocation and its release, whose times are in the machine file.
    let round_ns = (machine.host.alloc_ns + machine.host.free_ns) as f64;
    let wanted_ns = length_ns as f64;
    let near = |ns: f64| (ns / wanted_ns - 1.0).abs() <= TOLERANCE;
    let rounds = (wanted_ns / round_ns).round().max(1.0);
    if victim.facts.name == "alloc" && !near(rounds * round_ns) {
        let figure = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        let good = line["is_waiver"] == true
            && (figure("least_ns") / round_ns - 1.0).abs() < 0.1
            && (figure("nearest_ns") / (rounds * round_ns) - 1.0).abs() < 0.1;
        return (!good).then(|| format!("a round takes {round_ns} ns"));
    }
    let good = line["service_ns"].as_f64().is_some_and(near);
    (!good).then(|| format!("not {length_ns} ns"))
}

/// The child process: calibrates each victim for each length.
fn in_child(machine: &str) -> TestResult {
    let device = Device::of_environment()?;
    let gpu = &device.gpu;
    for (victim, length_ns) in cases(machine) {
        device.expect(0)?;
        let participation = Participation::join(&device.clock, 0)?;
        let found = load::calibrate(victim, gpu, &device.clock, SHARE, length_ns);
        participation.leave()?;
        let mut line = json!({ "name": case_name(victim, length_ns) });
        match found {
            Ok(found) => line["service_ns"] = json!(found.service_ns),
            Err(error) => {
                line["is_waiver"] = json!(error.kind() == RefusalKind::Waived);
                line["error"] = json!(error.to_string());
                if let LoadError::NoSuchLength { nearest_ns, smallest_ns, .. } = error {
                    line["nearest_ns"] = json!(nearest_ns);
                    line["least_ns"] = json!(smallest_ns);
                }
            }
        }
        writeln!(std::io::stdout(), "\n{line}")?;
    }
    Ok(())
}

/// Changes to the shortest profile.
const SHORT_REQUESTS: &str = r#"
victims = ["compute", "alloc"]
aggressors = ["fma-hog", "alloc-storm"]
axes = ["compute/sm", "compute/driver"]
service = "100us"
mechanisms = ["exclusive", "time-slicing"]
"#;

/// On `turing` one allocation with its release is shorter than 0.1 ms, and two are longer.
#[test]
fn an_impossible_length_waives_only_the_rows_of_its_victim() -> TestResult {
    let mut profile: toml::Table = SHORT.parse()?;
    profile.extend(SHORT_REQUESTS.parse::<toml::Table>()?);
    let lab = Lab::on("turing")?.profile(&profile.to_string())?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    let rows_of = |victim: &str| -> Vec<&MatrixRow> {
        let rows = record.matrix.iter();
        rows.filter(|row| row.victim.as_deref() == Some(victim)).collect()
    };
    let (waived, measured) = (rows_of("alloc"), rows_of("compute"));
    let both = waived.len() > 1 && measured.len() > 1;
    assert!(both, "{:?}", record.matrix);
    for row in waived {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        let is_complete = reason
            .starts_with("alloc: no request of 100000 ns within 10 %: the nearest")
            && reason.contains("the smallest (rounds = 1)");
        let outcome = row.outcome.outcome;
        assert!(outcome == OutcomeKind::Waived && is_complete, "{row:?}");
    }
    for row in measured {
        let was_run = row.outcome.outcome != OutcomeKind::Waived && row.requests > 0;
        assert!(was_run, "{row:?}");
    }
    let compute = &record.calibration.entries["compute"];
    let near = (90_000..=110_000).contains(&compute.service_ns);
    assert!(near, "{compute:?}");
    Ok(())
}
