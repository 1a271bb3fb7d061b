//! The machine `h100-80` answers faults as an H100 did: its fault table against the two records of
//! fault trials, then the same trials on the virtual GPU against them.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::{FaultResult, Harm, Outcome, ProbeFound, RunRecord};
use gpubench_store::Record;
use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::machine::faults::{FaultRow, Named, Other, Reply, Under};
use serde_json::Value;

use crate::support::fault::{HOPPER, TIME_SLICING, TURING, matrix, planted, report, tally, trials};
use crate::support::{Error, TestResult, finish, gpubench, machine_text, record, run_matrix};

const RECORDS: [(Under, &str); 2] = [
    (Under::TimeSlicing, "h100_580.159.04_faults-time-slicing"),
    (Under::Mps, "h100_580.159.04_faults-mps"),
];

/// As in the records: one victim beside the injector, requests of 1 ms, one trial of each fault.
const PROFILE: &str =
    concat!("tenants = 2\n", include_str!("data/short.toml"), "[faults]\ntrials = 1\n");

/// Faults whose answer in the records took the time of driver calls, which no table holds.
const CALLS: [&str; 4] = ["empty-launch", "bad-launch", "double-free", "oom"];

fn example(name: &str) -> Result<RunRecord, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    Ok(Record::open(&root.join(name))?.run().clone())
}

/// The last process of a trial is the injector, the only victim the first.
fn victim(trial: &FaultResult) -> Result<(Harm, Option<i32>), Error> {
    let victim = trial.victims.first().ok_or("a victim")?;
    Ok((victim.harm, victim.code))
}

fn log(trial: &FaultResult) -> Vec<u32> {
    let lines = trial.observed.xid_lines.iter().flatten();
    lines.map(|line| line.number).collect()
}

/// What the injector got, in the words of a table.
fn own(trial: &FaultResult) -> Reply {
    let injector = &trial.observed.injector;
    match (injector.code, injector.ended.as_deref()) {
        (Some(code), _) => Reply::Code(code),
        (None, Some(ended)) if ended.contains("did not answer") => Reply::Other(Other::Silent),
        (None, Some(_)) => Reply::Other(Other::Ended),
        (None, None) => Reply::Other(Other::Well),
    }
}

fn peer(trial: &FaultResult) -> Result<Reply, Error> {
    Ok(match victim(trial)? {
        (_, Some(code)) => Reply::Code(code),
        (Harm::Dead, None) => Reply::Other(Other::Ended),
        (_, None) => Reply::Other(Other::Well),
    })
}

/// Whether the Xids of a trial name a server of the mechanism.
fn names_server(trial: &FaultResult) -> bool {
    let lines = trial.observed.xid_lines.iter().flatten();
    lines.into_iter().any(|line| {
        let ours = line.ours.iter().flatten();
        ours.into_iter().any(|name| name == "service")
    })
}

/// Whether a time lies between the 5 % and the 95 % point of a row.
fn is_usual(row: &FaultRow, ns: u64) -> bool {
    let ms = ns as f64 / 1e6;
    row.noticed_ms.is_some_and(|[low, _, high]| (low..=high).contains(&ms))
}

/// What differs between a trial of a record and the row of the table.
fn differences(trial: &FaultResult, row: &FaultRow) -> Result<Vec<String>, Error> {
    let observed = &trial.observed;
    let logged = [&row.log_before[..], &row.xids].concat();
    let named = if names_server(trial) { Named::Server } else { Named::Culprit };
    let refused = observed.new_client.and_then(|client| client.refused_with);
    let fault = &*trial.planned.fault;
    let is_late = !CALLS.contains(&fault);
    let noticed = trial.detected_after_ns.filter(|_| is_late);
    let checks = [
        ("own", own(trial) == row.own),
        ("peer", peer(trial)? == row.peer),
        ("xids", observed.xids.as_deref() == Some(&row.xids[..])),
        ("log", log(trial) == logged),
        ("names", named == row.names),
        ("new client", refused.is_some() == row.refuses_new_clients),
        ("noticed", noticed.is_none_or(|ns| is_usual(row, ns))),
    ];
    let wrong = checks.iter().filter(|(_, right)| !right);
    Ok(wrong.map(|(what, _)| format!("{fault}: {what}")).collect())
}

#[test]
fn the_table_of_h100_80_is_what_the_records_say() -> TestResult {
    let machine = Machine::load("h100-80")?;
    let of = machine.faults.measured.as_ref().ok_or("measured rows")?;
    let names = RECORDS.map(|(_, name)| name.to_owned());
    assert_eq!(of.records, names);
    let mut rows = 0;
    for (under, name) in RECORDS {
        let record = example(name)?;
        assert_eq!(of.device, record.device.name);
        assert_eq!(record.device.driver, of.driver);
        assert!(record.provenance.started_at.starts_with(&of.date));
        for trial in &record.fault_trials {
            let row = machine.fault_row(&trial.planned.fault, under);
            let row = row.filter(|row| row.evidence.is_none());
            let row = row.ok_or_else(|| format!("{}: no row", trial.planned.id))?;
            assert_eq!(differences(trial, row)?, Vec::<String>::new());
            rows += 1;
        }
    }
    assert_eq!(rows, 45, "rows of both records");
    Ok(())
}

#[test]
fn fault_trials_on_h100_80_end_as_in_the_records() -> TestResult {
    let machine = Machine::load("h100-80")?;
    let dir = tempfile::tempdir()?;
    let more = ["--mechanism=exclusive,time-slicing,mps", "--faults"];
    let text = machine_text("h100-80")?;
    let done = run_matrix(dir.path(), "virtual", text, PROFILE, &more)?.ended_with(0)?;
    let here = record(&dir.path().join("virtual"))?;
    let (mut rows, mut answers, mut late, mut usual) = (0, Vec::new(), 0, 0);
    for (under, name) in RECORDS {
        let real = example(name)?;
        let mut modelled: BTreeMap<&str, &FaultResult> = BTreeMap::new();
        for trial in &here.fault_trials {
            if trial.planned.mechanism == under.as_str() {
                modelled.insert(&trial.planned.fault, trial);
            }
        }
        assert_eq!(modelled.len(), real.fault_trials.len(), "{}", done.stderr);
        for real in &real.fault_trials {
            let fault = &*real.planned.fault;
            let modelled = modelled[fault];
            let what = format!("{fault} under {}", under.as_str());
            assert_eq!(end(modelled)?, end(real)?, "{what}");
            rows += 1;
            if code_and_xids(modelled)? != code_and_xids(real)? {
                answers.push(what);
            }
            let row = machine.fault_row(fault, under).ok_or("a row")?;
            if let Some(ns) = modelled.detected_after_ns
                && row.noticed_ms.is_some()
            {
                late += 1;
                usual += u32::from(is_usual(row, ns));
            }
        }
    }
    // The model has no call that waits forever for a killed server.
    let silent = ["mps-server-kill under mps", "mps-daemon-kill under mps"];
    assert_eq!(answers, silent);
    assert!(answers.len() * 10 <= rows, "{answers:?} of {rows}");
    // One in ten times lies outside the points; with 15 times, that fewer than nine lie within has
    // a probability of 0.03 %.
    assert!(late >= 14 && usual * 10 >= late * 6, "{usual} of {late}");
    Ok(())
}

/// The outcome of a trial and of its victim, and how a new client was received.
fn end(trial: &FaultResult) -> Result<(Outcome, Harm, Option<i32>, u32), Error> {
    let client = trial.observed.new_client.ok_or("a new client")?;
    let refused = client.refused_with;
    Ok((trial.outcome.clone(), victim(trial)?.0, refused, client.tries))
}

type Answered = (Reply, Reply, Vec<u32>, Vec<u32>, bool);

/// The codes of injector and victim, the Xids of NVML and of the log, and whom they name.
fn code_and_xids(trial: &FaultResult) -> Result<Answered, Error> {
    let xids = trial.observed.xids.clone().unwrap_or_default();
    Ok((own(trial), peer(trial)?, xids, log(trial), names_server(trial)))
}

#[test]
fn h100_80_clears_memory_as_the_probes_found_it() -> TestResult {
    let record = example("h100_580.159.04_probes")?;
    let found = record.probes.iter().filter_map(|probe| match &probe.found {
        ProbeFound::Residue { marked, stale, .. } => Some((*marked, *stale)),
        _ => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), [(17_476, 0); 2]);
    let machine = Machine::load("h100-80")?;
    assert!(machine.memory.scrub);
    Ok(())
}

// The catalogue of faults against the facts sheet. Every injector that the sheet calls safe on a
// shared machine has a fault, and every unsafe one is left out. Faults are listed from benign to
// severe.

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
    let json: Value = serde_json::from_str(&output.stdout)?;
    Ok(json["rows"].as_array().cloned().unwrap_or_default())
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

// The process and MIG instance of each Xid, from the kernel log. NVML events do not contain them.

#[test]
fn the_kernel_log_names_the_process_and_instance_of_an_xid() -> TestResult {
    let dir = tempfile::tempdir()?;
    let more = [
        "--mechanism=exclusive,time-slicing,mps,mig",
        "--faults=canary,trap,illegal-address,sigkill",
        "--allow-reconfigure",
    ];
    let record = matrix(dir.path(), "owned", HOPPER, &more)?;
    let kernel_log = record.provenance.host.get("kernel_log").map(String::as_str);
    assert_eq!(kernel_log, Some("read; it names the process of each Xid"));
    let mut count = 0;
    for mechanism in ["time-slicing", "mps", "mig"] {
        for (fault, trial) in trials(&record, mechanism)? {
            let what = format!("{fault} under {mechanism}");
            let lines = trial.observed.xid_lines.as_ref();
            let lines = lines.ok_or("the log was not read")?;
            let numbers = lines.iter().map(|line| line.number).collect();
            assert_eq!(Some(numbers), trial.observed.xids, "{what}: as in NVML events");
            let owner = match (fault, mechanism) {
                ("canary", _) => "victim",
                // The memory of a dead client is the server's to remove.
                ("sigkill", "mps") => "service",
                _ => "neighbour-2",
            };
            for line in lines {
                assert_eq!(line.ours, Some(vec![owner.to_owned()]), "{what}");
                let has_instance = line.gpu_instance.is_some() && line.compute_instance.is_some();
                assert_eq!(has_instance, mechanism == "mig", "{what}");
                assert!(line.process.is_some() && !line.text.is_empty(), "{what}");
                assert_eq!(line.pid, None, "{what}: equal runs have equal records");
                count += 1;
            }
        }
    }
    assert!(count >= 9, "{count} lines");
    for (mechanism, fault, owner) in [
        ("time-slicing", "trap", "13 of the faulting process"),
        ("mps", "illegal-address", "31 of the faulting process"),
        ("mig", "sigkill", "45 of the faulting process"),
    ] {
        let owners = &tally(&record, mechanism, fault)?.xid_owners;
        assert_eq!(*owners, [(owner.to_owned(), 1)].into(), "{fault} under {mechanism}");
    }
    let text = report(dir.path(), &["owned"], "md")?;
    assert!(text.contains("31 of the faulting process"), "{text}");
    Ok(())
}
