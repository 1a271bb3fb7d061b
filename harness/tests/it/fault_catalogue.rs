//! The catalogue of faults against the facts sheet. Every injector that the sheet calls safe on a
//! shared machine has a fault, and every unsafe one is left out. Faults are listed from benign to
//! severe.

use crate::support::fault::{TIME_SLICING, TURING, matrix, planted};
use crate::support::{Error, TestResult, finish, gpubench};
use gpubench_record::RunRecord;
use serde_json::Value;

/// A safe row of the sheet, its fault, and the expected error codes.
type Safe = (&'static str, &'static str, &'static [u64]);

/// In the order of the list. A row with two variants has a line for each.
const SAFE: &[Safe] = &[
    ("bad launch params: 0 threads", "empty-launch", &[1]),
    ("bad launch params: 2048 threads", "bad-launch", &[1, 701]),
    ("double free", "double-free", &[1]),
    ("printf flood", "printf-flood", &[]),
    ("OOM", "oom", &[2]),
    ("infinite loop", "hang", &[]),
    ("SIGSTOP client mid-run", "sigstop", &[]),
    ("ctx destroy, work pending", "context-destroy", &[]),
    ("exit(0) with pending work", "exit-pending", &[]),
    ("SIGKILL mid-kernel", "sigkill", &[]),
    ("MPS terminate_client", "mps-terminate-client", &[810]),
    ("HAMi lock-holder SIGKILL", "hami-lock-holder-kill", &[]),
    ("device assert", "assert", &[710]),
    ("trap;", "trap", &[719, 715]),
    ("misaligned access", "misaligned", &[716]),
    ("OOB shared memory", "shared-oob", &[719, 700]),
    ("stack overflow", "stack-overflow", &[714, 700, 719]),
    ("wrong address space", "wrong-address-space", &[717]),
    ("bad PC", "bad-pc", &[718]),
    ("illegal instruction", "illegal-instruction", &[715]),
    ("illegal address", "illegal-address", &[700]),
    ("CUDA IPC peer exit", "ipc-exporter-exit", &[700, 1]),
    ("MPS server kill", "mps-server-kill", &[806, 805]),
    ("MPS daemon kill", "mps-daemon-kill", &[806, 805]),
];

/// Rows without a fault: unsafe ones, and one for another compute capability.
const LEFT_OUT: &[(&str, &str)] = &[
    ("tensor-memory leak (cc 10)", "tensor-memory-leak"),
    ("ECC", "ecc-error"),
    ("NVLink, PCIe", "link-error"),
    ("reset", "gpu-reset"),
    ("managed oversubscription", "managed-oversubscription"),
];

const FROM_BENIGN_TO_SEVERE: [&str; 6] =
    ["control", "benign", "greedy", "abrupt", "fatal", "systemic"];

fn listed() -> Result<Vec<Value>, Error> {
    let output = finish(gpubench(["list", "faults", "--format", "json"]))?.ended_with(0)?;
    Ok(serde_json::from_str(&output.stdout)?)
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

#[test]
fn every_safe_injector_is_listed_from_benign_to_severe() -> TestResult {
    let listed = listed()?;
    let is_out = |entry: &&Value| entry.get("left_out").is_some();
    let included: Vec<&Value> = listed.iter().filter(|entry| !is_out(entry)).collect();
    let severities: Vec<&str> = included.iter().map(|entry| text(entry, "severity")).collect();
    let rank = |severity: &&str| FROM_BENIGN_TO_SEVERE.iter().position(|one| one == severity);
    assert!(severities.iter().all(|one| rank(one).is_some()));
    assert!(severities.is_sorted_by_key(rank), "{severities:?}");
    // Controls come first and are not faults.
    let faults = &included[severities.iter().filter(|one| **one == "control").count()..];
    for (entry, (row, name, codes)) in faults.iter().zip(SAFE) {
        assert_eq!(text(entry, "name"), *name, "at {row}");
        let listed = entry["codes"].as_array().into_iter().flatten();
        let listed: Vec<u64> = listed.filter_map(Value::as_u64).collect();
        assert_eq!(listed, *codes, "{row}");
        let measured = entry["measured"].as_array().map_or(0, Vec::len);
        assert!(measured > 0, "no measurement: {row}");
    }
    assert_eq!(faults.len(), SAFE.len(), "one fault for each row");
    let out: Vec<&str> = listed.iter().filter(is_out).map(|one| text(one, "name")).collect();
    let expected: Vec<&str> = LEFT_OUT.iter().map(|(_, name)| *name).collect();
    assert_eq!(out, expected);
    Ok(())
}

#[test]
fn planted_illegal_instructions_are_measured_and_never_read() -> TestResult {
    let dir = tempfile::tempdir()?;
    let run = |name: &str, defects: &[(&str, toml::Value)], faults: &str| {
        let machine = planted(TURING, defects)?;
        matrix(dir.path(), name, &machine, &[TIME_SLICING, faults])
    };
    let threads = ("illegal_instruction_threads", 100_000_000.into());
    let (planted, clean) = (&[threads][..], &[][..]);
    let all = run("all", planted, "--faults")?;
    let mut trials = all.fault_trials.iter();
    assert!(trials.all(|trial| trial.planned.fault != "illegal-instruction"));
    let axis = Some("fault/illegal-instruction".to_owned());
    assert!(all.plan.skips.iter().any(|skip| skip.axis == axis));
    // By name it is injected on both, and its answer distinguishes them.
    let named = "--faults=illegal-instruction";
    let trial = |record: &RunRecord| {
        let mut trials = record.fault_trials.iter();
        let found = trials.find(|trial| trial.planned.fault == "illegal-instruction");
        found.map(|trial| (trial.observed.injector.code, trial.outcome.is_measured()))
    };
    assert_eq!(trial(&run("planted", planted, named)?), Some((Some(715), true)));
    assert_eq!(trial(&run("clean", clean, named)?), Some((None, false)));
    Ok(())
}
