//! What fails without a word on a real host is planted here: tenants run on as if nothing were
//! amiss, and the proofs must notice. Nothing of such a mechanism is scored.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::mechanism::{outcome, row};
use crate::support::{Error, Lab, TestResult, text};
use gpubench::device::VirtualGpu;
use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::session::TimeMode;

/// A mechanism was seen not to be in force, by this check and with this evidence, and has no score.
fn is_noticed(record: &RunRecord, name: &str, check: &str, evidence: &str) -> TestResult {
    let (kind, reason, scored) = outcome(record, name)?;
    assert_eq!(kind, OutcomeKind::Failed, "{name}: {reason}");
    assert!(reason.contains("not in force"), "{name}: {reason}");
    assert!(!scored, "{name} is scored");
    let mut broken = row(record, name)?.proof.iter().filter(|p| !p.holds);
    let found = broken.any(|p| p.check.contains(check) && p.evidence.contains(evidence));
    let proofs = &row(record, name)?.proof;
    assert!(
        found,
        "{name}: no {check:?} with {evidence:?} in {proofs:?}"
    );
    Ok(())
}

/// A mechanism that was not in force ends the run with 4, and the first is named.
fn ended_as_failed(output: &Output) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("failed: not in force: "), "{said}");
}

#[test]
fn a_daemon_out_of_reach_a_blind_limiter_and_shared_sms_are_noticed() -> TestResult {
    let planted = "\n[defects]\nmps_unreachable = true\nhami_pid_hidden = true\n\
                   green_contexts_whole = true\n";
    let with_hami = [("version = 1", "version = 1\nhami = true")];
    let place = Lab::changed("turing", &with_hami, planted)?;
    ended_as_failed(
        &place
            .reconfigure("mps,hami,green-context", "out")
            .output()?,
    );
    let record = place.record("out")?;
    let client = "client of our MPS daemon";
    is_noticed(&record, "mps", client, "the daemon lists []")?;
    let limiter = "the SM limiter finds its process";
    is_noticed(&record, "hami", limiter, "SET_TASK_PID FAILED")?;
    let sms = "SMs of its own";
    is_noticed(&record, "green-context", sms, "40 in common")
}

#[test]
fn a_wrong_instance_an_idle_percentage_and_a_dropped_preload_are_noticed() -> TestResult {
    let planted = "\n[defects]\nmig_instances_swapped = true\nmps_percentage_ignored = true\n";
    let place = Lab::changed("hopper", &[], planted)?;
    let library = unloadable(&place.path("libvgpu.so"))?;
    let mut matrix = place.reconfigure("mig,mps-quota,hami", "out");
    ended_as_failed(&matrix.arg("--hami-lib").arg(library).output()?);
    let record = place.record("out")?;
    let handed = "the instance that it was handed";
    is_noticed(&record, "mig", handed, "victim was handed MIG-")?;
    // Each is in an instance of its own and of the right size: only the name tells.
    let others = row(&record, "mig")?.proof.iter();
    assert!(
        others
            .filter(|p| !p.check.contains(handed))
            .all(|p| p.holds)
    );
    is_noticed(
        &record,
        "mps-quota",
        "its percentage",
        "reported: victim 132",
    )?;
    is_noticed(&record, "hami", "in every tenant", "victim: not mapped")
}

/// A copy of HAMi's stand-in that has every symbol and says that it is made for another system: the
/// loader leaves it out and says so on standard error alone.
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
