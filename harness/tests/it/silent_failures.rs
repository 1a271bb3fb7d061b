//! Planted failures that a real host does not report: the tenants run on, the proofs fail, and the
//! mechanism is not scored.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::mechanism::{outcome, row};
use crate::support::{Error, Lab, TestResult, finish};
use gpubench::device::VirtualGpu;
use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::session::TimeMode;

/// Checks that a mechanism was not in force, by this check and evidence, and has no score.
fn is_detected(record: &RunRecord, name: &str, check: &str, evidence: &str) -> TestResult {
    let (kind, reason, _) = outcome(record, name)?;
    assert_eq!(kind, OutcomeKind::Failed, "{name}: {reason}");
    assert!(reason.contains("not in force"), "{name}: {reason}");
    is_not_scored(record, name, check, evidence)
}

/// Checks that a mechanism has no score, and that this check and evidence are against it.
fn is_not_scored(record: &RunRecord, name: &str, check: &str, evidence: &str) -> TestResult {
    assert!(!outcome(record, name)?.2, "{name} is scored");
    let proofs = &row(record, name)?.proof;
    let mut broken = proofs.iter().filter(|proof| !proof.holds);
    let found = broken.any(|p| p.check.contains(check) && p.evidence.contains(evidence));
    assert!(found, "{name}: no {check:?} with {evidence:?} in {proofs:?}");
    Ok(())
}

/// Runs mechanisms of which one is not in force: the error names it and the exit status is 4.
fn fails(command: Command) -> TestResult {
    let stderr = finish(command)?.ended_with(4)?.stderr;
    assert!(stderr.contains("failed: not in force: "), "{stderr}");
    Ok(())
}

#[test]
fn an_unreachable_daemon_a_limiter_without_its_process_and_shared_sms_are_detected() -> TestResult {
    let planted = "\n[defects]\nmps_unreachable = true\nhami_pid_hidden = true\n\
                   green_contexts_whole = true\none_stream_priority = true\n";
    let with_hami = [("version = 1", "version = 1\nhami = true")];
    let lab = Lab::changed("turing", &with_hami, planted)?;
    fails(lab.reconfigure("mps,hami,green-context,stream-priority", "out"))?;
    let record = lab.record("out")?;
    let client = "client of our MPS daemon";
    is_detected(&record, "mps", client, "the daemon lists []")?;
    let limiter = "the SM limiter finds its process";
    is_detected(&record, "hami", limiter, "SET_TASK_PID FAILED")?;
    let sms = "SMs of its own";
    is_detected(&record, "green-context", sms, "40 in common")?;
    let highest = "the victim's stream has the highest priority";
    is_not_scored(&record, "stream-priority", highest, "victim 0 in -5 to 0")
}

#[test]
fn a_wrong_instance_an_ignored_percentage_and_a_dropped_preload_are_detected() -> TestResult {
    let planted = "\n[defects]\nmig_instances_swapped = true\nmps_percentage_ignored = true\n";
    let lab = Lab::changed("hopper", &[], planted)?;
    let library = unloadable(&lab.path("libvgpu.so"))?;
    let mut matrix = lab.reconfigure("mig,mps-quota,hami", "out");
    matrix.arg("--hami-lib").arg(library);
    fails(matrix)?;
    let record = lab.record("out")?;
    let handed = "the instance that it was handed";
    is_detected(&record, "mig", handed, "victim was handed MIG-")?;
    // Each tenant has an instance of its own and of the right size; only the name is wrong.
    let others = row(&record, "mig")?.proof.iter();
    let others: Vec<_> = others.filter(|p| !p.check.contains(handed)).collect();
    assert!(!others.is_empty() && others.iter().all(|p| p.holds), "{others:?}");
    is_detected(&record, "mps-quota", "its percentage", "reported: victim 132")?;
    is_detected(&record, "hami", "mapped into every tenant", "not into the victim")
}

/// A copy of HAMi's stand-in with every symbol, marked for another operating system. The loader
/// skips it and reports that only on standard error.
fn unloadable(to: &Path) -> Result<PathBuf, Error> {
    /// `EI_OSABI`, and `ELFOSABI_FREEBSD` (elf.h).
    const OS_ABI: usize = 7;
    const FREEBSD: u8 = 9;
    let gpu = VirtualGpu::start("hopper", TimeMode::Wall, 1)?;
    let library = gpu.hami_library().ok_or("hopper has no stand-in")?;
    let mut bytes = std::fs::read(library)?;
    bytes[OS_ABI] = FREEBSD;
    std::fs::write(to, bytes)?;
    Ok(to.to_path_buf())
}
