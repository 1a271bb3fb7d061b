//! The process and MIG instance of each Xid, from the kernel log. NVML events do not contain them.

use crate::support::TestResult;
use crate::support::fault::{HOPPER, matrix, report, tally, trials};

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
