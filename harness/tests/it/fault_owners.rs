//! Whose an Xid was and in which instance, by the kernel's log: NVML's events do not say.

use crate::support::TestResult;
use crate::support::fault::{HOPPER, matrix, report, tally, trials};

#[test]
fn the_kernel_s_log_says_whose_an_xid_was_and_where() -> TestResult {
    let dir = tempfile::tempdir()?;
    let more = [
        "--mechanism=exclusive,time-slicing,mps,mig",
        "--faults=canary,trap,illegal-address,sigkill",
        "--allow-reconfigure",
    ];
    let record = matrix(dir.path(), "owned", HOPPER, &more)?;
    let read = record.provenance.host.get("kernel_log").map(String::as_str);
    assert_eq!(read, Some("read; it names the process of each Xid"));
    let mut seen = 0;
    for mechanism in ["time-slicing", "mps", "mig"] {
        for (fault, trial) in trials(&record, mechanism)? {
            let what = format!("{fault} under {mechanism}");
            let lines = trial.observed.xid_lines.as_ref();
            let lines = lines.ok_or("nobody read the log")?;
            let numbers = lines.iter().map(|line| line.number).collect();
            assert_eq!(Some(numbers), trial.observed.xids, "{what}: as NVML has it");
            let whose = match fault {
                "canary" => "victim",
                _ => "neighbour-2",
            };
            for line in lines {
                assert_eq!(line.ours, Some(vec![whose.to_owned()]), "{what}");
                let places = (line.gpu_instance, line.compute_instance);
                let is_divided = mechanism == "mig";
                assert_eq!(
                    places.0.is_some() && places.1.is_some(),
                    is_divided,
                    "{what}"
                );
                assert!(line.process.is_some() && !line.text.is_empty(), "{what}");
                assert_eq!(line.pid, None, "{what}: equal runs have equal records");
                seen += 1;
            }
        }
    }
    assert!(seen >= 9, "{seen} lines");
    for (mechanism, fault, owner) in [
        ("time-slicing", "trap", "13 of the faulting process"),
        ("mps", "illegal-address", "31 of the faulting process"),
        ("mig", "sigkill", "45 of the faulting process"),
    ] {
        let owners = &tally(&record, mechanism, fault)?.xid_owners;
        assert_eq!(
            *owners,
            [(owner.to_owned(), 1)].into(),
            "{fault} under {mechanism}"
        );
    }
    let told = report(dir.path(), &["owned"], "md")?;
    assert!(told.contains("31 of the faulting process"), "{told}");
    Ok(())
}
