//! Every victim with requests of 0.1 ms and of 10 ms: calibrated within the tolerance, or refused
//! with the nearest and the smallest possible length. All other tests use 1 ms.
//!
//! The memory accesses of a 10 ms kernel take minutes to emulate on the host. Memory-bound victims
//! therefore have that length only on a very slow machine, and victims with extrapolated loops also
//! on the fastest one. `inference`, whose launches all differ, has only the short length and does
//! not run on the fastest machine. A child process does the work on each machine, as in `loads.rs`.

use std::io::Write;

use crate::support::device::{Device, SHARE, crawling_machine, machines, run_again};
use crate::support::{Lab, SHORT, TestResult, finish};
use gpubench_record::{MatrixRow, OutcomeKind, RefusalKind, Role};
use gpubench_virtual_gpu::machine::Machine;
use gpubench_workloads::clock::Participation;
use gpubench_workloads::load::{self, LENGTHS_NS, LoadError, Workload};
use serde_json::{Value, json};

/// The name of the machine, set for the child process.
const CHILD: &str = "GPUBENCH_TEST_LENGTHS";
const TEST: &str = "lengths::every_victim_has_every_possible_length";
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
        let run = move || run_again(&machine, TEST, &[(CHILD, &machine)]);
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
            let error = check(&machine, victim, length_ns, line);
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
fn cases(machine: &str) -> Vec<(&'static Workload, u64)> {
    const HOST_BOUND: [&str; 5] = ["pcie", "pcie-download", "launch", "launch-sync", "alloc"];
    let is_slow = machine.ends_with("crawling.toml");
    let [min_ns, max_ns] = LENGTHS_NS;
    let victims = load::CATALOGUE.iter().filter(|w| w.role == Role::Victim);
    let with_knob = victims.copied().filter(|victim| victim.knob.is_some());
    let pairs = with_knob.flat_map(|victim| [(victim, min_ns), (victim, max_ns)]);
    let is_tested = |&(victim, length_ns): &(&Workload, u64)| {
        let is_long = length_ns == max_ns;
        match victim.name {
            "inference" => !is_long && !is_slow && machine != "hopper",
            name if is_long && EXTRAPOLATED.contains(&name) => is_slow || machine == "hopper",
            name => (is_long && !HOST_BOUND.contains(&name)) == is_slow,
        }
    };
    pairs.filter(is_tested).collect()
}

fn case_name(victim: &Workload, length_ns: u64) -> String {
    format!("{} {length_ns}", victim.name)
}

/// The error of a case, if it has one.
fn check(machine: &Machine, victim: &Workload, length_ns: u64, line: &Value) -> Option<String> {
    // A round is one allocation and its release, whose times are in the machine file.
    let round_ns = (machine.host.alloc_ns + machine.host.free_ns) as f64;
    let wanted_ns = length_ns as f64;
    let near = |ns: f64| (ns / wanted_ns - 1.0).abs() <= TOLERANCE;
    let rounds = (wanted_ns / round_ns).round().max(1.0);
    if victim.name == "alloc" && !near(rounds * round_ns) {
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
