//! Mechanisms on the virtual GPU: each is set up, proved and undone, also when the run is killed or
//! its daemon dies.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use gpubench_host::device::VirtualGpu;
use gpubench_record::{OutcomeKind, RunRecord};
use gpubench_virtual_gpu::session::TimeMode;

use super::support::fault::{daemons, done, kill, mechanism_row, outcome, signal};
use crate::support::guarded::kill_both;
use crate::support::{Error, Lab, SHORT, TestResult, finish, text, wait_during, wait_for};

/// By its own report the victim is the same in every condition, and its context spins.
fn victims_are_the_same(record: &RunRecord) -> TestResult {
    for cell in record.cells.iter().filter(|cell| cell.outcome.is_measured()) {
        let victim = cell.tenant_results[0].identity.as_ref().ok_or("no report")?;
        let entry = &record.calibration.entries[&cell.cell.victim];
        assert_eq!(victim.workload, entry.spec, "{}", cell.cell.id);
        assert_eq!(victim.context_flags, Some(1), "{}", cell.cell.id);
    }
    Ok(())
}

#[test]
fn each_mechanism_is_proved_and_undone() -> TestResult {
    let lab = Lab::on("hopper")?;
    let all = gpubench_catalogue::mechanism::names();
    // All mechanisms take more time than the profile has.
    let profile = SHORT.replace("device_time = \"20s\"", "device_time = \"10min\"");
    lab.write("short.toml", &profile)?;
    let output = lab.reconfigure(&all.join(","), "out").output()?;
    done(&output)?;
    let record = lab.record("out")?;
    for name in all {
        let row = mechanism_row(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        assert!(!row.proof.is_empty(), "{name} is not proved");
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
    }
    let evidence = |name: &str| {
        let row = record.mechanisms.iter().find(|row| row.name == name);
        let proofs = row.map(|row| row.proof.as_slice()).unwrap_or_default();
        let hardware = proofs.iter().any(|proof| proof.hardware);
        (hardware, proofs.iter().any(|proof| proof.limiter))
    };
    assert_eq!(evidence("mig"), (true, false));
    for name in ["mps-quota", "mps-static", "mps-memory", "hami", "green-context"] {
        assert_eq!(evidence(name), (false, true), "{name}");
    }
    for name in ["exclusive", "exclusive-process", "time-slicing", "mps", "mig-mps"] {
        assert_eq!(evidence(name), (false, false), "{name}");
    }
    assert_eq!(evidence("stream-priority"), (false, false));
    // The library has no version, so the proof names its hash.
    let gpu = VirtualGpu::start("hopper", TimeMode::Wall, 1)?;
    let library = std::fs::read(gpu.hami_library().ok_or("hopper has no stand-in")?)?;
    let hash = format!("(BLAKE3 {})", blake3::hash(&library).to_hex());
    let mut proofs = mechanism_row(&record, "hami")?.proof.iter();
    assert!(proofs.any(|proof| proof.evidence.contains(&hash)), "{hash}");
    let mut rows = record.matrix.iter();
    let single = rows.find(|row| row.mechanism == "exclusive-process");
    let single = single.ok_or("exclusive-process has no row")?;
    assert_eq!(single.outcome.outcome, OutcomeKind::Waived);
    let reason = single.outcome.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("refused (46"), "{reason}");
    assert!(single.level.is_none() && single.retention.is_none(), "{single:?}");
    let efficiency = single.efficiency.as_ref().ok_or("no efficiency")?;
    assert!((efficiency.value - 1.0).abs() < 0.02, "{efficiency:?}");
    let cells = || record.cells.iter().filter(|c| c.cell.mechanism == "exclusive-process");
    assert!(cells().all(|cell| cell.tenant_results.len() == 1 && cell.outcome.is_measured()));
    victims_are_the_same(&record)?;
    assert_eq!(lab.journal(), "");
    Ok(())
}

#[test]
fn memory_limits_and_an_exclusive_process_server_are_proved_and_undone() -> TestResult {
    let lab = Lab::on("hopper")?;
    let profile = format!("{SHORT}[mps]\nexclusive_process = true\n");
    lab.write("short.toml", &profile)?;
    done(&lab.reconfigure("mps,mps-memory", "out").output()?)?;
    let record = lab.record("out")?;
    let evidence = |name: &str, check: &str| -> Result<String, String> {
        let row = mechanism_row(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        assert!(row.variant.ends_with("exclusive-process]"), "{}", row.variant);
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
        let mut proofs = row.proof.iter();
        let found = proofs.find(|proof| proof.check.contains(check));
        found
            .map(|proof| proof.evidence.clone())
            .ok_or_else(|| format!("{name}: no {check}: {row:?}"))
    };
    for name in ["mps", "mps-memory"] {
        let refused = evidence(name, "refused with 46")?;
        assert!(refused.contains("outsider was refused with 46"), "{refused}");
        assert_eq!(evidence(name, "the compute mode")?, "NVML reports EXCLUSIVE_PROCESS");
        let clients = evidence(name, "client of our MPS daemon")?;
        assert!(clients.contains("the daemon lists all"), "{clients}");
    }
    let refused = evidence("mps-memory", "beyond the limit")?;
    for tenant in ["victim", "neighbour-1"] {
        let refusal = format!("{tenant}: 51200 MiB refused with 2");
        assert!(refused.contains(&refusal), "{refused}");
    }
    let shown = evidence("mps-memory", "sees is its limit")?;
    assert!(shown.contains("[Some(40960), Some(40960)]"), "{shown}");
    assert_eq!(lab.journal(), "");
    Ok(())
}

#[test]
fn cleanup_undoes_a_run_that_died_with_its_guard_process() -> TestResult {
    let lab = Lab::on("hopper")?;
    let mut run = lab.reconfigure("mig-mps", "killed").spawn()?;
    // The unprotected run comes first and has a daemon for the whole device.
    lab.wait_for_journal(&mut run, "\"device\":\"MIG-")?;
    let journal = lab.journal();
    wait_for("a daemon", || !daemons(&journal).is_empty())?;
    kill_both(&mut run)?;
    assert!(journal.contains("mig-instance"), "{journal}");
    let cleaned = lab.gpubench(["cleanup"]).output()?;
    done(&cleaned)?;
    let printed = text(&cleaned.stdout);
    for change in ["MIG mode off to on", "MIG instance 7g.80gb", "MPS daemon in"] {
        assert!(printed.contains(change), "{printed}");
    }
    assert_eq!(daemons(&journal), Vec::<u32>::new(), "a daemon still runs");
    assert_eq!(lab.journal(), "");
    done(&lab.reconfigure("mps", "after").output()?)?;
    Ok(())
}

/// Kills the daemons of a run while this variant is set up. The run is stopped meanwhile, so that
/// it cannot set up another one, whose daemon has its own journal entry.
fn kill_daemons_of(run: &mut Child, lab: &Lab, variant: &str) -> TestResult {
    let (events, pid) = (lab.path("out/events.jsonl"), run.id());
    wait_during(run, variant, || {
        signal(pid, "STOP").is_ok() && {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            let last = text.lines().rfind(|line| line.contains("\"event\":\"proved\""));
            let is_set_up = last.is_some_and(|line| line.contains(variant));
            let found = daemons(&lab.journal());
            let killed = is_set_up && !found.is_empty();
            if killed {
                found.iter().for_each(|pid| _ = kill(*pid));
            }
            signal(pid, "CONT").is_ok() && killed
        }
    })
}

/// Kills the daemon of a mechanism after its proofs, until one dies that a cell still needs.
fn a_dead_daemon_fails(name: &str) -> TestResult {
    for _ in 0..10 {
        if a_killed_daemon_was_needed(name)? {
            return Ok(());
        }
    }
    Err(format!("{name}: every daemon died behind the last cell of its group").into())
}

/// Kills a daemon. One that dies behind the last cell of its group changes nothing.
fn a_killed_daemon_was_needed(name: &str) -> Result<bool, Error> {
    let lab = Lab::on("hopper")?;
    let mut run = lab.reconfigure(name, "out").spawn()?;
    lab.wait_for_journal(&mut run, "mps-daemon")?;
    kill_daemons_of(&mut run, &lab, &format!("\"variant\":\"{name}"))?;
    let output = run.wait_with_output()?;
    let record = lab.record("out")?;
    let stderr = text(&output.stderr);
    let (kind, reason, scored) = outcome(&record, name)?;
    assert_eq!(lab.journal(), "", "{name}");
    if kind == OutcomeKind::Measured {
        if output.status.success() {
            return Ok(false);
        }
        // It died in the last cell of a group, behind the last proof: the cell fails, and the next
        // group has a daemon of its own.
        assert!(stderr.contains("CUDA_ERROR_MPS"), "{name}: {stderr}");
    } else {
        assert_eq!(kind, OutcomeKind::Failed, "{name}: {reason}: {stderr}");
        assert!(reason.contains("not in force") || reason.contains("set up"), "{name}: {reason}");
        assert!(!scored, "{name} is scored");
    }
    assert_eq!(output.status.code(), Some(4), "{name}: {stderr}");
    Ok(true)
}

#[test]
fn a_dead_daemon_fails_mps_and_quotas() -> TestResult {
    ["mps", "mps-quota"].into_iter().try_for_each(a_dead_daemon_fails)
}

#[test]
fn a_dead_daemon_fails_partitions_and_memory_limits() -> TestResult {
    ["mps-static", "mps-memory"].into_iter().try_for_each(a_dead_daemon_fails)
}

#[test]
fn a_dead_daemon_fails_mps_in_an_instance() -> TestResult {
    a_dead_daemon_fails("mig-mps")
}

/// With a limit or partition of memory the victim gets its reservations; otherwise it gets the
/// memory that the hog leaves between two allocations. Every format prints the number of
/// reservations.
#[test]
fn reservations_are_honoured_if_memory_is_limited() -> TestResult {
    let lab = Lab::on("hopper")?;
    let profile = SHORT
        .replace("compute/sm", "memory/capacity")
        .replace("device_time = \"20s\"", "device_time = \"10min\"");
    lab.write("short.toml", &(profile + "[mps-quota]\nmemory_pct = 50\n"))?;
    let limited = ["mps-quota", "mps-memory", "mig", "hami"];
    let all = [&["time-slicing", "mps"], &limited[..]].concat();
    let printed = lab.reconfigure(&all.join(","), "out").output()?;
    done(&printed)?;
    let record = lab.record("out")?;
    for name in all {
        let mut rows = record.matrix.iter();
        let row = rows.find(|row| row.mechanism == name && row.axis == "memory");
        let row = row.ok_or(name)?;
        let share = row.survival.as_ref().ok_or("no figure")?;
        assert_eq!(u64::from(share.n), row.requests, "{row:?}");
        let kept = (share.value * f64::from(share.n)).round();
        let warning = format!("beside the hog {kept} of {} requests honoured", share.n);
        assert!(row.warnings.contains(&warning), "{warning}: {row:?}");
        if limited.contains(&name) {
            // There are some hundreds, so the lower bound is L3 too.
            assert_eq!((share.value, row.level.as_deref()), (1.0, Some("L3")));
            assert!(share.lo > 0.95 && share.lo < 1.0, "{share:?}");
        } else {
            assert!(share.value < 0.9, "{share:?}");
            assert!(row.level.as_deref().is_some_and(|it| it.starts_with("L0")), "{row:?}");
        }
        // A refused allocation does not fail the cell.
        let mut cells = record.cells.iter().filter(|cell| cell.cell.mechanism == name);
        assert!(cells.all(|cell| cell.outcome.is_measured()), "{name}");
    }
    for format in ["text", "html", "md", "json", "csv", "junit"] {
        let folder = lab.path("out");
        let mut report = lab.gpubench(["report", "--format", format]);
        if matches!(format, "text" | "md") {
            report.arg("--full");
        }
        let output = report.arg(folder).output()?;
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{format}: {}", text(&output.stderr));
        for wanted in ["reserve", "memory-hog", "requests honoured"] {
            assert!(printed.contains(wanted), "{format} lacks {wanted:?}");
        }
    }
    Ok(())
}

// Planted failures that a real host does not report: the tenants run on, the proofs fail, and the
// mechanism is not scored.

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
    let proofs = &mechanism_row(record, name)?.proof;
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
    let others = mechanism_row(&record, "mig")?.proof.iter();
    let others: Vec<_> = others.filter(|p| !p.check.contains(handed)).collect();
    assert!(!others.is_empty() && others.iter().all(|p| p.holds), "{others:?}");
    is_detected(&record, "mps-quota", "its percentage", "of 132 SMs: victim 132")?;
    is_detected(&record, "hami", "mapped into every tenant", "not into the victim")
}

#[test]
fn time_slices_with_a_memory_cap_are_in_force_or_the_proof_says_why_not() -> TestResult {
    let leaks = "mps_memory_overshoot = 0.15";
    let unlimited = "mps_memory_overshoot = 1.0";
    let ignored = "mps_namespaces_ignored = true";
    let granted = Some(("beyond the limit is refused", "granted"));
    for (by, defect, detected) in [
        ("cgroup", "", None),
        ("namespace", "", None),
        ("file", "", None),
        ("cgroup", leaks, None),
        ("cgroup", unlimited, granted),
        ("namespace", ignored, granted),
        ("file", ignored, granted),
    ] {
        let lab = Lab::changed("hopper", &[], &format!("\n[defects]\n{defect}\n"))?;
        let options = format!("{SHORT}[time-slicing-capped]\nby = \"{by}\"\n");
        lab.write("short.toml", &options)?;
        let run = lab.reconfigure("time-slicing-capped", "out");
        match detected {
            None => {
                finish(run)?.ended_with(0)?;
                let record = lab.record("out")?;
                let row = mechanism_row(&record, "time-slicing-capped")?;
                assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{by} {defect}: {row:?}");
                let turns = row.proof.iter().find(|proof| proof.check.contains("same time"));
                let turns = turns.map(|proof| proof.evidence.as_str()).unwrap_or_default();
                assert!(turns.starts_with("both ran in "), "{by}: {turns}");
            }
            Some((check, evidence)) => {
                fails(run)?;
                is_detected(&lab.record("out")?, "time-slicing-capped", check, evidence)?;
            }
        }
        assert_eq!(lab.journal(), "");
    }
    Ok(())
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
