//! Mechanisms from outside, on the virtual GPU: each is set up, proved and undone again, also when
//! the run is killed or its daemon dies.

use std::time::{Duration, Instant};

use crate::support::mechanism::{daemons, done, kill, outcome, row, wait_for_proof};
use crate::support::{LIVENESS, Lab, TestResult, text};
use gpubench::device::VirtualGpu;
use gpubench_record::OutcomeKind;
use gpubench_virtual_gpu::session::TimeMode;

#[test]
fn each_is_proved_and_leaves_nothing() -> TestResult {
    let place = Lab::on("hopper")?;
    let all = gpubench::catalogue::names();
    // As much time as all of them together take.
    let short = std::fs::read_to_string(place.path("short.toml"))?;
    let longer = short.replace("device_time = \"20s\"", "device_time = \"10min\"");
    std::fs::write(place.path("short.toml"), longer)?;
    let output = place.reconfigure(&all.join(","), "out").output()?;
    done(&output)?;
    let record = place.record("out")?;
    for name in all {
        let row = row(&record, name)?;
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
    for name in [
        "mps-quota",
        "mps-static",
        "mps-memory",
        "hami",
        "green-context",
    ] {
        assert_eq!(evidence(name), (false, true), "{name}");
    }
    for name in [
        "exclusive",
        "exclusive-process",
        "time-slicing",
        "mps",
        "mig-mps",
    ] {
        assert_eq!(evidence(name), (false, false), "{name}");
    }
    assert_eq!(evidence("stream-priority"), (false, false));
    // The library carries no version: which one it was is told by its hash.
    let gpu = VirtualGpu::start("hopper", TimeMode::Wall, 1)?;
    let library = std::fs::read(gpu.hami_library().ok_or("hopper has no stand-in")?)?;
    let hash = format!("(BLAKE3 {})", blake3::hash(&library).to_hex());
    let mut proofs = row(&record, "hami")?.proof.iter();
    assert!(proofs.any(|proof| proof.evidence.contains(&hash)), "{hash}");
    let mut alone = record.matrix.iter();
    let alone = alone.find(|row| row.mechanism == "exclusive-process");
    let alone = alone.ok_or("exclusive-process has no row")?;
    assert_eq!(alone.outcome.outcome, OutcomeKind::Waived);
    let reason = alone.outcome.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("refused (46"), "{reason}");
    assert!(
        alone.level.is_none() && alone.retention.is_none(),
        "{alone:?}"
    );
    let efficiency = alone.efficiency.as_ref().ok_or("no efficiency")?;
    assert!((efficiency.value - 1.0).abs() < 0.02, "{efficiency:?}");
    let cells = || {
        record
            .cells
            .iter()
            .filter(|c| c.cell.mechanism == "exclusive-process")
    };
    assert!(cells().all(|cell| cell.tenant_results.len() == 1 && cell.outcome.is_measured()));
    assert_eq!(place.journal(), "");
    Ok(())
}

#[test]
fn memory_limits_and_a_guarded_server_are_proved_and_leave_nothing() -> TestResult {
    let place = Lab::on("hopper")?;
    let mut profile = std::fs::OpenOptions::new()
        .append(true)
        .open(place.path("short.toml"))?;
    std::io::Write::write_all(&mut profile, b"[mps]\nexclusive_process = true\n")?;
    done(&place.reconfigure("mps,mps-memory", "out").output()?)?;
    let record = place.record("out")?;
    let of = |name: &str, check: &str| -> Result<String, String> {
        let row = row(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        assert!(
            row.variant.ends_with("exclusive-process]"),
            "{}",
            row.variant
        );
        assert!(row.proof.iter().all(|proof| proof.holds), "{row:?}");
        let mut proofs = row.proof.iter();
        let found = proofs.find(|proof| proof.check.contains(check));
        found
            .map(|proof| proof.evidence.clone())
            .ok_or_else(|| format!("{name}: no {check}: {row:?}"))
    };
    for name in ["mps", "mps-memory"] {
        let refused = of(name, "refused with 46")?;
        assert!(
            refused.contains("outsider was refused with 46"),
            "{refused}"
        );
        assert_eq!(
            of(name, "the compute mode")?,
            "NVML reports EXCLUSIVE_PROCESS"
        );
        let clients = of(name, "client of our MPS daemon")?;
        assert!(clients.contains("the daemon lists all"), "{clients}");
    }
    let refused = of("mps-memory", "beyond the limit")?;
    for tenant in ["victim", "neighbour-1"] {
        let told = format!("{tenant}: 41024 MiB refused with 2");
        assert!(refused.contains(&told), "{refused}");
    }
    let shown = of("mps-memory", "sees is its limit")?;
    assert!(shown.contains("[Some(40960), Some(40960)]"), "{shown}");
    assert_eq!(place.journal(), "");
    Ok(())
}

#[test]
fn a_killed_run_is_cleaned_up_after() -> TestResult {
    let place = Lab::on("hopper")?;
    let mut run = place.reconfigure("mig-mps", "killed").spawn()?;
    // The unprotected form has a daemon too, for the whole device, and comes first.
    place.wait_for_journal(&mut run, "\"device\":\"MIG-")?;
    let left = place.journal();
    let begin = Instant::now();
    while daemons(&left).is_empty() && begin.elapsed() < LIVENESS {
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill()?;
    run.wait()?;
    assert!(left.contains("mig-instance"), "{left}");
    let refused = place.reconfigure("mps", "refused").output()?;
    assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("gpubench cleanup"));
    let cleaned = place.gpubench(&["cleanup"]).output()?;
    done(&cleaned)?;
    let said = text(&cleaned.stdout);
    for change in [
        "MIG mode off to on",
        "MIG instance 7g.80gb",
        "MPS daemon in",
    ] {
        assert!(said.contains(change), "{said}");
    }
    assert_eq!(daemons(&left), Vec::<u32>::new(), "a daemon lives on");
    assert_eq!(place.journal(), "");
    let again = place.gpubench(&["cleanup"]).output()?;
    assert_eq!(text(&again.stdout), "nothing to clean up\n");
    done(&place.reconfigure("mps", "after").output()?)?;
    Ok(())
}

/// Kills the daemon of a mechanism once it was proved.
fn outlived_by_its_tenants(name: &str) -> TestResult {
    let place = Lab::on("hopper")?;
    let mut run = place.reconfigure(name, "out").spawn()?;
    place.wait_for_journal(&mut run, "mps-daemon")?;
    wait_for_proof(&place.path("out"), &format!("\"variant\":\"{name}"))?;
    // The daemon of the unprotected form has its own place in the journal, and is gone by now.
    for pid in daemons(&place.journal()) {
        kill(pid)?;
    }
    let output = run.wait_with_output()?;
    let record = place.record("out")?;
    let said = text(&output.stderr);
    let (kind, reason, scored) = outcome(&record, name)?;
    assert_eq!(kind, OutcomeKind::Failed, "{name}: {reason}: {said}");
    assert!(
        reason.contains("not in force") || reason.contains("set up"),
        "{name}: {reason}"
    );
    assert!(!scored, "{name} is scored");
    assert_eq!(output.status.code(), Some(4), "{name}: {said}");
    assert_eq!(place.journal(), "", "{name}");
    Ok(())
}

#[test]
fn a_daemon_that_dies_is_told_and_nothing_is_scored() -> TestResult {
    ["mps", "mps-quota"]
        .into_iter()
        .try_for_each(outlived_by_its_tenants)
}

#[test]
fn nor_is_anything_scored_where_it_served_partitions_or_limits() -> TestResult {
    ["mps-static", "mps-memory"]
        .into_iter()
        .try_for_each(outlived_by_its_tenants)
}

#[test]
fn nor_where_it_served_an_instance() -> TestResult {
    outlived_by_its_tenants("mig-mps")
}

/// Limits and partitions of memory keep what their victim was promised; without them it gets what
/// the hog leaves between two grabs. Every format tells how many reservations that was.
#[test]
fn a_reservation_is_honoured_wherever_memory_is_limited() -> TestResult {
    let place = Lab::on("hopper")?;
    let short = std::fs::read_to_string(place.path("short.toml"))?;
    let mut short = short.replace("compute/sm", "memory/capacity");
    short.push_str("[mps-quota]\nmemory_pct = 50\n");
    let short = short.replace("device_time = \"20s\"", "device_time = \"10min\"");
    std::fs::write(place.path("short.toml"), short)?;
    let limited = ["mps-quota", "mps-memory", "mig", "hami"];
    let all = [&["time-slicing", "mps"], &limited[..]].concat();
    let printed = place.reconfigure(&all.join(","), "out").output()?;
    done(&printed)?;
    let record = place.record("out")?;
    for name in all {
        let mut rows = record.matrix.iter();
        let row = rows.find(|row| row.mechanism == name && row.axis == "memory");
        let row = row.ok_or(name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        let share = row.survival.as_ref().ok_or("no figure")?;
        assert_eq!(u64::from(share.n), row.requests, "{row:?}");
        let kept = (share.value * f64::from(share.n)).round();
        let told = format!("beside the hog {kept} of {} requests honoured", share.n);
        assert!(row.warnings.contains(&told), "{told}: {row:?}");
        if limited.contains(&name) {
            // All of some hundreds, so that even the lower bound is L3.
            assert_eq!((share.value, row.level.as_deref()), (1.0, Some("L3")));
            assert!(share.lo > 0.95 && share.lo < 1.0, "{share:?}");
        } else {
            assert!(share.value < 0.9, "{share:?}");
            assert_eq!(row.level.as_deref(), Some("L0"), "{row:?}");
        }
        // Refusals are the answer to what was asked, and no failure of the cell.
        let mut cells = record
            .cells
            .iter()
            .filter(|cell| cell.cell.mechanism == name);
        assert!(cells.all(|cell| cell.outcome.is_measured()), "{name}");
    }
    for format in ["terminal", "html", "md", "json", "csv", "junit"] {
        let folder = place.path("out");
        let mut report = place.gpubench(&["report", "--format", format]);
        let output = report.arg(folder).output()?;
        let said = text(&output.stdout);
        assert!(
            output.status.success(),
            "{format}: {}",
            text(&output.stderr)
        );
        for what in ["reserve", "memory-hog", "requests honoured"] {
            assert!(said.contains(what), "{format} says nothing of {what}");
        }
    }
    Ok(())
}
