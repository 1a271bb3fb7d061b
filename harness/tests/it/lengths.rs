//! Every victim with requests of a tenth of a millisecond and of ten: within the tolerance, or
//! refused with the nearest and the smallest that its steps come to. One millisecond is the length
//! of all other tests.
//!
//! What a kernel moves through memory in ten milliseconds takes minutes to execute on the host.
//! Victims that launch large ones are given that length on a machine that crawls, and those whose
//! iterations repeat themselves, which are counted, on the largest as well. `inference`, whose
//! launches all differ, is asked for the short one alone and not of the largest machine. The work
//! is done by this program run again on each machine, as in `loads.rs`.

use std::io::Write;
use std::process::Stdio;

use crate::support::device::{Device, SHARE, crawling_machine, machines, run_again};
use crate::support::{TestResult, binary};
use gpubench_record::{MatrixRow, OutcomeKind, RefusalKind, Role, RunRecord};
use gpubench_virtual_gpu::machine::Machine;
use gpubench_workloads::clock::Participation;
use gpubench_workloads::load::{self, LENGTHS_NS, LoadError, Workload};
use serde_json::{Value, json};

/// Set for the program that is run again, to the name of its machine.
const AGAIN: &str = "GPUBENCH_TEST_LENGTHS";
const TEST: &str = "lengths::every_victim_has_every_length_that_its_steps_come_to";
const TOLERANCE: f64 = 0.1;

#[test]
fn every_victim_has_every_length_that_its_steps_come_to() -> TestResult {
    if let Ok(machine) = std::env::var(AGAIN) {
        return again(&machine);
    }
    let folder = tempfile::tempdir()?;
    let mut names = machines(folder.path())?.to_vec();
    names.push(crawling_machine(folder.path())?);
    let start = |name: String| {
        let machine = name.clone();
        let run = move || run_again(&machine, TEST, &[(AGAIN, &machine)]);
        (name, std::thread::spawn(run))
    };
    let runs: Vec<_> = names.into_iter().map(start).collect();
    let mut wrong = Vec::new();
    for (name, run) in runs {
        let machine = Machine::load(&name)?;
        let lines = run.join().map_err(|_| "a run panicked")??;
        for (victim, length_ns) in asked(&name) {
            let line = lines.get(&line_of(victim, length_ns)).ok_or("no line")?;
            let found = judge(&machine, victim, length_ns, line);
            wrong.extend(found.map(|what| format!("{name}: {what}: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Victims of which the host executes little, however long their requests are.
const COUNTED: [&str; 8] = [
    "compute", "l2", "fp64", "int", "tensor", "shared", "l1", "issue",
];

/// What is asked of a machine: one that crawls is asked for what takes the others too long.
fn asked(machine: &str) -> Vec<(&'static Workload, u64)> {
    const HOST_BOUND: [&str; 5] = ["pcie", "pcie-download", "launch", "launch-sync", "alloc"];
    let crawls = machine.ends_with("crawling.toml");
    let [least_ns, most_ns] = LENGTHS_NS;
    let victims = load::CATALOGUE.iter().filter(|w| w.role == Role::Victim);
    let with_knob = victims.copied().filter(|victim| victim.knob.is_some());
    let pairs = with_knob.flat_map(|victim| [(victim, least_ns), (victim, most_ns)]);
    let is_asked = |&(victim, length_ns): &(&Workload, u64)| {
        let is_long = length_ns == most_ns;
        match victim.name {
            "inference" => !is_long && !crawls && machine != "hopper",
            name if is_long && COUNTED.contains(&name) => crawls || machine == "hopper",
            name => (is_long && !HOST_BOUND.contains(&name)) == crawls,
        }
    };
    pairs.filter(is_asked).collect()
}

fn line_of(victim: &Workload, length_ns: u64) -> String {
    format!("{} {length_ns}", victim.name)
}

/// What is not as it should be.
fn judge(machine: &Machine, victim: &Workload, length_ns: u64, line: &Value) -> Option<String> {
    // A round is an allocation and its release (profiles/machines), and nothing else takes time.
    let round_ns = (machine.host.alloc_ns + machine.host.free_ns) as f64;
    let wanted_ns = length_ns as f64;
    let near = |ns: f64| (ns / wanted_ns - 1.0).abs() <= TOLERANCE;
    let rounds = (wanted_ns / round_ns).round().max(1.0);
    if victim.name == "alloc" && !near(rounds * round_ns) {
        let told = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        let good = line["is_waiver"] == true
            && (told("least_ns") / round_ns - 1.0).abs() < 0.1
            && (told("nearest_ns") / (rounds * round_ns) - 1.0).abs() < 0.1;
        return (!good).then(|| format!("a round takes {round_ns} ns"));
    }
    let good = line["service_ns"].as_f64().is_some_and(near);
    (!good).then(|| format!("not {length_ns} ns"))
}

/// The program that is run again: the victims with their lengths in turn.
fn again(machine: &str) -> TestResult {
    let device = Device::of_environment()?;
    let gpu = &device.gpu;
    for (victim, length_ns) in asked(machine) {
        device.expect(0)?;
        let participation = Participation::join(&device.clock, 0)?;
        let found = load::calibrate(victim, gpu, &device.clock, SHARE, length_ns);
        participation.leave()?;
        let mut line = json!({ "name": line_of(victim, length_ns) });
        match found {
            Ok(found) => line["service_ns"] = json!(found.service_ns),
            Err(error) => {
                line["is_waiver"] = json!(error.kind() == RefusalKind::Waived);
                line["error"] = json!(error.to_string());
                if let LoadError::NoSuchLength {
                    nearest_ns,
                    smallest_ns,
                    ..
                } = error
                {
                    line["nearest_ns"] = json!(nearest_ns);
                    line["least_ns"] = json!(smallest_ns);
                }
            }
        }
        writeln!(std::io::stdout(), "\n{line}")?;
    }
    Ok(())
}

/// What differs from the shortest of profiles.
const TENTH: &str = r#"
victims = ["compute", "alloc"]
aggressors = ["fma-hog", "alloc-storm"]
axes = ["compute/sm", "compute/driver"]
service = "100us"
mechanisms = ["exclusive", "time-slicing"]
"#;

/// On `turing` one allocation and its release are too short, and two are too long.
#[test]
fn a_length_that_a_victim_cannot_have_waives_its_rows_and_no_others() -> TestResult {
    let dir = tempfile::tempdir()?;
    let mut profile: toml::Table = include_str!("data/short.toml").parse()?;
    profile.extend(TENTH.parse::<toml::Table>()?);
    let path = dir.path().join("short.toml");
    std::fs::write(&path, profile.to_string())?;
    let done = binary()
        .args(["matrix", "--device", "virtual:turing", "--profile"])
        .arg(&path)
        .arg("--out")
        .arg(dir.path().join("out"))
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    let bytes = std::fs::read(dir.path().join("out/record.json"))?;
    let record: RunRecord = serde_json::from_slice(&bytes)?;
    let of = |victim: &str| -> Vec<&MatrixRow> {
        let rows = record.matrix.iter();
        rows.filter(|row| row.victim.as_deref() == Some(victim))
            .collect()
    };
    let (waived, measured) = (of("alloc"), of("compute"));
    let both = waived.len() > 1 && measured.len() > 1;
    assert!(both, "{:?}", record.matrix);
    for row in waived {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        let whole = reason.starts_with("alloc: no request of 100000 ns within 10 %: the nearest")
            && reason.contains("the smallest (rounds = 1)");
        let outcome = row.outcome.outcome;
        assert!(outcome == OutcomeKind::Waived && whole, "{row:?}");
    }
    for row in measured {
        let has_run = row.outcome.outcome != OutcomeKind::Waived && row.requests > 0;
        assert!(has_run, "{row:?}");
    }
    let compute = &record.calibration.entries["compute"];
    let near = (90_000..=110_000).contains(&compute.service_ns);
    assert!(near, "{compute:?}");
    Ok(())
}
