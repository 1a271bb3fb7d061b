//! The five axes: each alone, all by default on the virtual GPU, and what was not asked for.

use gpubench_record::{OutcomeKind, RunRecord};

use crate::support::probe::{HOPPER, matrix};
use crate::support::{Error, Lab, SHORT, TestResult, finish, with_changes};

/// Runs the shortest profile with these axes.
fn on(axes: &str, arguments: &[&str]) -> Result<RunRecord, Error> {
    let dir = tempfile::tempdir()?;
    let changes = format!("axes = [{axes}]");
    matrix(dir.path(), "out", HOPPER, &changes, arguments, &[0])
}

/// The axes of the rows, each with its sub-axes, and the levels of `mps-quota`.
fn axes_of(record: &RunRecord) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for row in record.matrix.iter().filter(|row| row.mechanism != "exclusive") {
        let sub_axis = row.sub_axis.iter().map(|sub| format!("/{sub}"));
        let name = row.axis.clone() + &sub_axis.collect::<String>();
        if !axes.contains(&name) {
            axes.push(name);
        }
    }
    axes
}

#[test]
fn each_axis_and_sub_axis_is_measured_alone() -> TestResult {
    let quota = ["--mechanism", "mps-quota"];
    for (axes, expected) in [
        (
            "\"memory\"",
            &["memory/capacity", "memory/cap", "memory/residue", "memory/visibility"][..],
        ),
        ("\"memory/residue\"", &["memory/residue"]),
        ("\"jitter\"", &["jitter"]),
        ("\"fault/mmu\"", &["fault/mmu"]),
        ("\"power\", \"compute/sm\"", &["compute/sm", "power/power"]),
    ] {
        let record = on(axes, &quota)?;
        assert_eq!(axes_of(&record), expected, "{axes}");
        let overall = record.overall.first().ok_or("no overall level")?;
        let named: Vec<&str> = overall.axes.iter().map(String::as_str).collect();
        let first = expected[0].split('/').next().ok_or("no axis")?;
        // The shortest profile has too few requests for a p99.
        let with_level = if first == "jitter" { vec![] } else { vec![first] };
        assert_eq!(named, with_level, "{axes}: {overall:?}");
        let proof = &record.mechanisms.iter().find(|row| row.name == "mps-quota");
        assert!(proof.is_some_and(|row| !row.proof.is_empty()), "{axes}: no proof");
        assert!(record.cells.iter().all(|cell| cell.outcome.is_measured()), "{axes}");
    }
    Ok(())
}

#[test]
fn all_five_axes_are_the_default_of_a_virtual_gpu() -> TestResult {
    let dir = tempfile::tempdir()?;
    let named = ["--mechanism", "time-slicing,mps-quota,mig"];
    let record = matrix(dir.path(), "out", HOPPER, "axes = \"all\"", &named, &[0])?;
    let rows = axes_of(&record);
    for axis in ["memory/cap", "compute/sm", "bandwidth/l2", "fault/sm", "jitter"] {
        assert!(rows.iter().any(|row| row == axis), "{axis}: {rows:?}");
    }
    assert!(record.plan.fault_trials.iter().all(|trial| trial.trial == 1));
    let mig = record.mechanisms.iter().find(|row| row.name == "mig");
    let outcome = mig.map(|row| row.outcome.outcome);
    assert_eq!(outcome, Some(OutcomeKind::Measured), "the MIG mode was not changed");
    // One trial refutes containment, and shows none.
    let faults = || record.matrix.iter().filter(|row| row.axis == "fault");
    let decided = faults().filter(|row| row.outcome.is_measured());
    let levels: Vec<Option<&str>> = decided.map(|row| row.level.as_deref()).collect();
    assert!(!levels.is_empty() && levels.len() < faults().count());
    assert!(levels.iter().all(|level| *level <= Some("L1")), "{levels:?}");
    let took_ns: u64 = record.probes.iter().filter_map(|probe| probe.took_ns).sum();
    assert!(took_ns > 0 && took_ns < 3 * 15_000_000_000, "{took_ns}");
    Ok(())
}

#[test]
fn what_was_not_asked_for_is_said_with_its_flag() -> TestResult {
    let lab = Lab::on("hopper")?;
    lab.write("short.toml", &SHORT.replace("[\"compute/sm\"]", "[\"memory/cap\", \"fault\"]"))?;
    let named = ["--mechanism", "exclusive-process,mps"];
    let off = ["--no-faults", "--no-reconfigure"];
    // A named mechanism is waived: status 3.
    let run = finish(lab.matrix("out", &[&named[..], &off].concat()))?.ended_with(3)?;
    for text in [
        "NOT ASKED FOR: the fault axis; --faults injects faults",
        "NOT ASKED FOR: exclusive-process; --allow-reconfigure lets the run change device",
    ] {
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
    let run = finish(lab.matrix("all", &named))?.ended_with(0)?;
    assert!(!run.stdout.contains("NOT ASKED FOR"), "{}", run.stdout);
    assert!(run.stdout.contains(" held, 1 trial each"), "{}", run.stdout);
    let only = ["--axis", "fault", "--no-faults"];
    let run = finish(lab.matrix("none", &only))?.ended_with(2)?;
    assert!(run.stderr.contains("no axis but fault"), "{}", run.stderr);
    Ok(())
}

/// A device on which memory is slow to allocate.
#[test]
fn memory_probes_end_in_time_and_count_their_trials() -> TestResult {
    let dir = tempfile::tempdir()?;
    let slow = with_changes(HOPPER, &[("alloc_ns = 60000", "alloc_ns = 6000000")])?;
    let named = ["--mechanism", "time-slicing,mps-quota"];
    let changes = "axes = [\"memory\"]\n[mps-quota]\nmemory_pct = 50\n";
    let record = matrix(dir.path(), "out", &slow, changes, &named, &[0])?;
    for variant in ["time-slicing", "mps-quota"] {
        let own = record.probes.iter();
        let own = own.filter(|probe| probe.variant.starts_with(variant));
        let took_ns: u64 = own.filter_map(|probe| probe.took_ns).sum();
        assert!(took_ns > 5_000_000_000, "{variant}: {took_ns} ns, not slow");
        assert!(took_ns <= 15_000_000_000, "{variant}: {took_ns} ns");
    }
    let mut rows = record.matrix.iter();
    let row = rows
        .find(|row| row.mechanism == "mps-quota" && row.sub_axis.as_deref() == Some("capacity"));
    let n = row.and_then(|row| Some(row.survival.as_ref()?.n));
    assert!(n.is_some_and(|n| (10..59).contains(&n)), "{row:?}");
    Ok(())
}

/// A limiter that acts is scored by how well; one that does not act is not in force.
#[test]
fn a_small_overshoot_of_a_limit_is_scored() -> TestResult {
    let dir = tempfile::tempdir()?;
    let changes = "axes = [\"memory/cap\"]\n[mps-quota]\nmemory_pct = 50\n";
    let named = ["--mechanism", "mps-quota,hami"];
    // The stand-in's patch of one call holds to the limit, so at 15 % HAMi has L1.
    for (name, overshoot, levels, code) in [
        ("a", "0.0", [Some("L3"), Some("L3")], 0),
        ("b", "0.05", [Some("L2"), Some("L2")], 0),
        ("c", "0.08", [Some("L2"), Some("L2")], 0),
        ("d", "0.15", [Some("L0"), Some("L1")], 0),
        ("e", "0.6", [None, None], 4),
    ] {
        let machine = format!(
            "{HOPPER}\n[defects]\nmps_memory_overshoot = {overshoot}\n\
             hami_memory_overshoot = {overshoot}\n\
             hami_closed = [\"arrays\", \"pools\", \"per-thread\", \"globals\", \"graph-memory\"]\n"
        );
        let record = matrix(dir.path(), name, &machine, changes, &named, &[code])?;
        for (mechanism, level) in ["mps-quota", "hami"].into_iter().zip(levels) {
            let rows = &mut record.matrix.iter().filter(|row| row.mechanism == mechanism);
            let row = rows.next().ok_or("no row")?;
            assert_eq!(row.level.as_deref(), level, "{mechanism} {overshoot}: {row:?}");
        }
    }
    Ok(())
}
