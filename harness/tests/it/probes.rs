//! `matrix --probes` against machine files: it finds the defects that they plant in memory and in
//! time slices, and no others.

use std::path::Path;

use gpubench_record::{Estimate, MatrixRow, ProbeFigure, ProbeFound, RunRecord};

use super::support::{HOPPER, matrix};
use crate::support::{Error, TestResult, finish, gpubench, with_changes};

const TURING: &str = gpubench_profiles::TURING;

fn probe(dir: &Path, name: &str, machine: &str, mechanisms: &str) -> Result<RunRecord, Error> {
    let quota = "[mps-quota]\nmemory_pct = 50\n[mps-memory]\nby = \"namespace\"\n\
                 [time-slicing-capped]\nby = \"namespace\"\n";
    let arguments = ["--probes", "--allow-reconfigure", "--mechanism", mechanisms];
    matrix(dir, name, machine, quota, &arguments, &[0])
}

fn row<'a>(record: &'a RunRecord, mechanism: &str, sub: &str) -> Result<&'a MatrixRow, Error> {
    let found = record.matrix.iter().find(|row| {
        row.mechanism == mechanism
            && row.axis == "memory"
            && row.sub_axis.as_deref() == Some(sub)
            && row.victim.as_deref() == Some("probe")
    });
    found.ok_or_else(|| format!("no row memory/{sub} for {mechanism}: {:?}", record.probes).into())
}

fn survival(row: &MatrixRow) -> Result<&Estimate, Error> {
    let missing = || format!("no proportion: {row:?}").into();
    row.survival.as_ref().ok_or_else(missing)
}

fn figure<'a>(record: &'a RunRecord, name: &str) -> Result<&'a Estimate, Error> {
    of(record, "", name)
}

/// The first figure of a mechanism with this prefix.
fn of<'a>(record: &'a RunRecord, mechanism: &str, name: &str) -> Result<&'a Estimate, Error> {
    let mut figures = record.probe_figures.iter();
    let found =
        figures.find(|one| one.variant.starts_with(mechanism) && one.figure.starts_with(name));
    let missing = || format!("{mechanism}: no {name}: {:?}", record.probe_figures).into();
    found.map(|one| &one.estimate).ok_or_else(missing)
}

#[test]
fn time_slicing_shows_stale_pages_no_reservation_and_the_planted_time_slices() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine = with_changes(
        TURING,
        &[("slice_us = 2000", "slice_us = 1500"), ("switch_gap_us = 50", "switch_gap_us = 200")],
    )?;
    let record = probe(dir.path(), "plain", &machine, "exclusive,time-slicing")?;
    let residue = row(&record, "time-slicing", "residue")?;
    let clean = survival(residue)?;
    assert_eq!((clean.value, clean.n), (0.0, 72), "{residue:?}");
    assert_eq!(residue.level.as_deref(), Some("L0"));
    let capacity = row(&record, "time-slicing", "capacity")?;
    assert_eq!((survival(capacity)?.value, survival(capacity)?.n), (0.0, 72));
    let cap = row(&record, "time-slicing", "cap")?;
    assert_eq!((cap.level.as_deref(), &cap.overshoot), (Some("L0"), &None));
    let visibility = row(&record, "time-slicing", "visibility")?;
    assert_eq!(survival(visibility)?.value, 1.0);
    assert!(visibility.warnings.iter().any(|w| w.contains("cuMemGetInfo")));

    for (name, planted) in [("time slice", 1_500_000.0), ("switch gap", 200_000.0)] {
        let found = figure(&record, name)?;
        assert!((found.value / planted - 1.0).abs() < 0.01, "{name}: {found:?} is not {planted}");
        assert!(found.n >= 12 && found.lo <= found.value && found.value <= found.hi);
    }
    assert_eq!(figure(&record, "overlap")?.value, 0.0);

    // A tenant out of memory gets the refusal, keeps working, and harms no neighbour.
    let refusal = figure(&record, "out of memory: refused with 2, after")?;
    assert!(refusal.value > 0.0 && refusal.n == 6, "{refusal:?}");
    for name in ["the context still", "memory can be", "the neighbour goes on"] {
        let share = figure(&record, &format!("out of memory: {name}"))?;
        assert_eq!((share.value, share.n), (1.0, 6), "{name}: {share:?}");
    }

    // Without a neighbour a tenant has the whole device. Beside one it has its time slices, and its
    // launches wait for those of the neighbour.
    has(&record, "", "SM share over 10 ms, alone", 1.0, 0.01)?;
    has(&record, "", "SM share over 40 ms, beside", 1_500.0 / 3_400.0, 0.02)?;
    // A launch right after the previous one waits for a whole time slice and both switch gaps.
    has(&record, "", "launch to start, added by a neighbour, p90", 1.9e6, 0.01)
}

#[test]
fn a_machine_that_scrubs_has_no_stale_page_and_a_lower_bound() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine = with_changes(TURING, &[("scrub = false", "scrub = true")])?;
    let record = probe(dir.path(), "scrubs", &machine, "exclusive,time-slicing")?;
    let residue = row(&record, "time-slicing", "residue")?;
    let clean = survival(residue)?;
    assert_eq!((clean.value, clean.n), (1.0, 72), "{residue:?}");
    assert!((0.95..0.951).contains(&clean.lo), "72 releases show L3: {clean:?}");
    let both = record.probes.iter().filter(|probe| {
        matches!(
            &probe.found,
            ProbeFound::Residue { stale: 0, marked, found_by_owner, .. } if marked == found_by_owner
        )
    });
    assert_eq!(both.count(), 2, "{:?}", record.probes);
    Ok(())
}

#[test]
fn the_overshoot_of_a_cap_is_found_for_each_call() -> TestResult {
    let dir = tempfile::tempdir()?;
    let mechanisms = "exclusive,hami,mps-quota,mps-memory,time-slicing-capped";
    let plain = probe(dir.path(), "kept", HOPPER, &format!("{mechanisms},mps-static,mig"))?;
    let planted = format!("{HOPPER}\n[defects]\nhami_memory_overshoot = 0.25\n");
    let planted = with_changes(
        &planted,
        &[(
            "hami_memory_overshoot = 0.25",
            "hami_memory_overshoot = 0.25\nmps_memory_overshoot = 0.15\n\
             hami_limiter_start_ms = 600\nhami_limiter_paced = true",
        )],
    )?;
    let broken = probe(dir.path(), "broken", &planted, mechanisms)?;

    // A documented hole of the stand-in: it does not count arrays, so they can use the whole
    // device.
    let hami = row(&plain, "hami", "cap")?;
    assert_eq!(hami.level.as_deref(), Some("L1"), "{hami:?}");
    let over = |row: &MatrixRow| row.overshoot.as_ref().map(|over| over.value);
    assert!(over(hami).is_some_and(|over| over > 0.9), "{hami:?}");
    // Minimum and maximum of three rounds are no interval.
    let figure = serde_json::to_value(&hami.overshoot)?;
    assert!(figure["range"].is_array(), "{figure}");
    assert_eq!((figure["n"].as_u64(), figure.get("lo")), (Some(3), None));
    let by_call = |record: &RunRecord, mechanism: &str, call: &str| -> Option<f64> {
        let found = record.probes.iter().find_map(|probe| match &probe.found {
            ProbeFound::Cap { limit_bytes: Some(limit), in_use_bytes, calls, .. }
                if probe.variant.starts_with(mechanism) =>
            {
                Some((*limit, *in_use_bytes, calls))
            }
            _ => None,
        });
        let (limit, in_use, calls) = found?;
        let max_bytes = calls.iter().find(|one| one.call == call)?.bytes.1;
        Some((max_bytes + in_use) as f64 / limit as f64 - 1.0)
    };
    for (record, mechanism, expected) in [
        (&plain, "hami", 0.0),
        (&broken, "hami", 0.25),
        (&plain, "mps-quota", 0.0),
        (&broken, "mps-quota", 0.15),
        (&plain, "mps-memory", 0.0),
        (&broken, "mps-memory", 0.15),
        (&plain, "time-slicing-capped", 0.0),
        (&broken, "time-slicing-capped", 0.15),
    ] {
        let found = by_call(record, mechanism, "cuMemAlloc").ok_or("no such probe")?;
        assert!((found - expected).abs() < 0.01, "{mechanism}: {found} is not {expected}");
    }
    for mechanism in ["mps-quota", "mps-memory", "time-slicing-capped"] {
        let cap = row(&plain, mechanism, "cap")?;
        assert_eq!(cap.level.as_deref(), Some("L3"), "{cap:?}");
    }
    // Each tenant is limited to half of the memory, so the victim always gets its 3/7.
    let reservation = row(&plain, "mps-quota", "capacity")?;
    assert_eq!((survival(reservation)?.value, survival(reservation)?.n), (1.0, 72));
    assert_eq!(reservation.level.as_deref(), Some("L3"));
    caps_act_when_planted(&plain, &broken)?;
    a_tenant_at_its_cap_keeps_working(&plain)?;
    // The limiters act, so the mechanisms are in force; 15 % is more than L2 allows.
    for mechanism in ["mps-quota", "mps-memory", "time-slicing-capped"] {
        let cap = row(&broken, mechanism, "cap")?;
        assert_eq!(cap.level.as_deref(), Some("L0"), "{cap:?}");
    }
    Ok(())
}

/// A cap of the device acts at once. The default limiter never stays within its share; the planted
/// one acts from 600 ms after the first launch.
fn caps_act_when_planted(plain: &RunRecord, broken: &RunRecord) -> TestResult {
    let acts = |record, mechanism, cap: &str| -> Result<(f64, u32), Error> {
        let name = format!("compute cap of {cap}: acts for good within 3 s");
        let figure = of(record, mechanism, &name)?;
        Ok((figure.value, figure.n))
    };
    let time = |cap: &str| format!("compute cap of {cap}: time to enforce");
    for (record, mechanism, cap, planted_ns) in [
        (plain, "mps-quota", "0.500", 0.0),
        // 64 of 132 SMs: partitions are made of whole chunks of 8.
        (plain, "mps-static", "0.485", 0.0),
        (broken, "mps-quota", "0.500", 0.0),
        (broken, "hami", "0.500", 600e6),
    ] {
        assert_eq!(acts(record, mechanism, cap)?, (1.0, 6), "{mechanism}");
        let found = of(record, mechanism, &time(cap))?;
        let text = format!("{mechanism}: {found:?}");
        assert!(found.lo <= planted_ns && planted_ns <= found.hi, "{text}");
        assert!((found.value - planted_ns).abs() <= 100e6, "{text}");
        assert!(found.hi - found.lo < 250e6, "{text}");
    }
    assert_eq!(acts(plain, "hami", "0.500")?, (0.0, 6));
    assert!(of(plain, "hami", &time("0.500")).is_err());
    Ok(())
}

/// A tenant at its cap gets the refusal, keeps working, and harms no neighbour.
fn a_tenant_at_its_cap_keeps_working(plain: &RunRecord) -> TestResult {
    for mechanism in ["hami", "mps-quota", "mig"] {
        let refusal = of(plain, mechanism, "out of memory: refused with 2, after")?;
        assert!(refusal.value > 0.0 && refusal.n == 6, "{mechanism}: {refusal:?}");
        for name in ["the context still", "memory can be", "the neighbour goes on"] {
            let share = of(plain, mechanism, &format!("out of memory: {name}"))?;
            assert_eq!((share.value, share.n), (1.0, 6), "{mechanism}: {name}");
        }
    }
    Ok(())
}

// `matrix --probes` against machine files: the figures and the CSV have the shares, launch times
// and call times that a machine file plants.

/// `hopper` with slower launches, and an MPS that grants a third more than its percentage.
fn machine() -> Result<String, Error> {
    let slower = [("launch_latency_ns = 1800", "launch_latency_ns = 101800")];
    let text = with_changes(HOPPER, &slower)?;
    Ok(format!("{text}\n[defects]\nmps_percentage_error = 0.34\n"))
}

/// Checks that a planted figure lies in the interval, or within the tolerance.
fn has(record: &RunRecord, variant: &str, name: &str, planted: f64, tolerance: f64) -> TestResult {
    let found = of(record, variant, name)?;
    let inside = found.lo <= planted && planted <= found.hi;
    assert!(
        inside || (found.value / planted - 1.0).abs() < tolerance,
        "{variant}: {name}: {found:?} is not {planted}"
    );
    Ok(())
}

#[test]
fn planted_shares_launches_and_calls_are_found() -> TestResult {
    let dir = tempfile::tempdir()?;
    let windows = "probe_windows = [\"10ms\", \"40ms\", \"10s\"]\n";
    let arguments = ["--probes", "--mechanism", "exclusive,mps-quota"];
    // A tenant has more SMs than its percentage, so the mechanism is not in force (4).
    let record = matrix(dir.path(), "out", &machine()?, windows, &arguments, &[0, 4])?;
    let quota = "mps-quota";
    let has =
        |name: &str, planted: f64, tolerance: f64| has(&record, quota, name, planted, tolerance);

    // Without a neighbour: 50 % and a third more, 88 of 132 SMs. Beside one with as many both are
    // on 44 SMs, which they share evenly, and a kernel is as fast as on its slowest SM.
    has("SMs with the victim's blocks", 88.0, 0.0)?;
    has("SM share over 10 ms, alone", 88.0 / 132.0, 0.01)?;
    has("SM share over 40 ms, alone", 88.0 / 132.0, 0.01)?;
    has("SM share over 10 s, alone", 88.0 / 132.0, 0.01)?;
    has("SM share over 10 ms, beside", 44.0 / 132.0, 0.01)?;
    has("SM share over 10 s, beside", 44.0 / 132.0, 0.01)?;
    let has_figure = |figure: &str| {
        let mut all = record.probe_figures.iter();
        all.any(|one| one.variant.starts_with(quota) && one.figure.contains(figure))
    };
    assert!(has_figure("0.500 is configured"), "{:?}", record.probe_figures);

    // Under MPS no launch waits for a time slice.
    let added = of(&record, quota, "launch to start, added by a neighbour, median")?;
    assert!(added.value.abs() < 1_000.0, "{added:?}");
    // The time of the call and the latency of the device.
    has("launch to start, alone, median", 2_200.0 + 101_800.0, 0.0)?;
    let alone = of(&record, quota, "launch to start, alone, median")?;
    assert!(alone.value > 50_000.0, "{alone:?}");
    has("context creation, alone", 120e6, 0.01)?;
    has("context creation, beside kernels", 120e6, 0.01)?;
    has("module load, alone", 180e3, 0.01)?;
    let beside = of(&record, quota, "module load, beside the same calls")?;
    assert!(beside.value > 1.1 * 180e3, "calls do not wait for the driver's lock: {beside:?}");

    let mut report = gpubench(["report", "--format", "csv"]);
    report.arg(dir.path().join("out"));
    let csv = finish(report)?.ended_with(0)?.stdout;
    let header = csv.lines().next().unwrap_or_default();
    assert!(
        header.contains(",overshoot,overshoot_lo,") && header.contains(",figure,figure_value,")
    );
    let of_probe = |line: &&str| line.contains("mps-quota[pct=50],compute,sm,probe");
    let placement = ",SMs with the victim's blocks,88,88,88,interval,6,SMs";
    let lines: Vec<&str> = csv.lines().filter(of_probe).collect();
    assert!(lines.iter().any(|line| line.ends_with(placement)), "{lines:?}");
    Ok(())
}

// `matrix --escape` against machine files: it finds every open hole of the HAMi stand-in and no
// closed one, and a limit that the device enforces contains every route.

fn escapes(dir: &Path, name: &str, closed: &str, mechanism: &str) -> Result<RunRecord, Error> {
    let machine = format!("{HOPPER}\n[defects]\nhami_closed = [{closed}]\n");
    let mechanisms = format!("exclusive,{mechanism}");
    let arguments = ["--escape", "--mechanism", &mechanisms];
    let quota = "[mps-quota]\nmemory_pct = 50\n";
    matrix(dir, name, &machine, quota, &arguments, &[0])
}

fn routes<'a>(record: &'a RunRecord, verdict: &str) -> Vec<&'a str> {
    let has = |one: &&ProbeFigure| one.verdict.as_deref() == Some(verdict);
    let all = record.probe_figures.iter().filter(has);
    all.map(|one| one.figure.as_str()).collect()
}

/// Every route under a mechanism that limits memory and time by a preloaded library.
const ROUTES: [&str; 25] = [
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemCreate",
    "cuArrayCreate",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocAsync_ptsz",
    "cuModuleLoadDataEx",
    "cuGraphAddMemAllocNode",
    "cuIpcOpenMemHandle",
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuGraphLaunch",
    "cuLaunchCooperativeKernel",
    "long launches",
    "long launches of one block",
    "persistent launches",
    "cuMemAlloc, functions found by dlvsym",
    "cuLaunchKernel, functions found by dlvsym",
    "cuMemAlloc, functions found by path",
    "cuLaunchKernel, functions found by path",
    "cuMemAlloc, environment dropped",
    "cuLaunchKernel, environment dropped",
    "cuMemAlloc, a second process of the tenant",
];

/// The routes that the library limits. Its limiter of launches oscillates around its limit and
/// exceeds it at times, so no launch is among them.
const CONTAINED: [&str; 7] = [
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemCreate",
    "cuMemAlloc, functions found by path",
    "cuMemAlloc, a second process of the tenant",
];

/// Routes that no preloaded library can close: the program drops the library or bypasses its
/// lookup.
const ALWAYS: [&str; 4] = [
    "cuMemAlloc, functions found by dlvsym",
    "cuLaunchKernel, functions found by dlvsym",
    "cuMemAlloc, environment dropped",
    "cuLaunchKernel, environment dropped",
];

#[test]
fn every_documented_hole_is_found_with_its_amount() -> TestResult {
    let dir = tempfile::tempdir()?;
    let record = escapes(dir.path(), "open", "", "hami")?;
    let found = record.probes.iter().find_map(|probe| match &probe.found {
        ProbeFound::Escape { routes, .. } => Some(routes),
        _ => None,
    });
    let tried = found.ok_or("no escape was tried")?.iter();
    let names: Vec<&str> = tried.map(|one| one.route.as_str()).collect();
    assert_eq!(names, ROUTES);
    let escaping = |route: &&str| !CONTAINED.contains(route);
    let escaping: Vec<&str> = ROUTES.into_iter().filter(escaping).collect();
    assert_eq!(routes(&record, "escaped"), escaping, "{:?}", record.probes);
    assert_eq!(routes(&record, "contained"), CONTAINED);
    let screen = crate::support::gpubench(["report"]).arg(dir.path().join("open")).output()?;
    let screen = String::from_utf8_lossy(&screen.stdout).replace('\n', " ");
    assert!(screen.contains(": 18 of 25 ways around its limit worked"), "{screen}");
    let by = |name: &str| {
        let mut all = record.probe_figures.iter();
        all.find(|one| one.figure == name).map(|one| one.estimate.value)
    };
    // Nearly 80 GiB with a limit of 40, and all of the time with a limit of half.
    assert!(by("cuArrayCreate").is_some_and(|over| (0.95..1.0).contains(&over)));
    assert!(by("cuGraphLaunch").is_some_and(|over| (0.97..1.03).contains(&over)));
    Ok(())
}

/// Every documented hole of the stand-in.
const HOLES: [&str; 9] = [
    "arrays",
    "pools",
    "per-thread",
    "globals",
    "ipc",
    "graphs",
    "graph-memory",
    "cooperative",
    "durations",
];

/// Every documented hole but this one.
fn all_but(open: &str) -> String {
    let closed = HOLES.iter().filter(|hole| **hole != open);
    let quoted: Vec<String> = closed.map(|hole| format!("\"{hole}\"")).collect();
    quoted.join(", ")
}

/// One hole of memory and one of compute. `hami.rs` tests that each call belongs to one hole.
#[test]
fn with_one_open_hole_one_route_escapes() -> TestResult {
    let dir = tempfile::tempdir()?;
    for (open, route, [min, max]) in [
        ("pools", "cuMemAllocFromPoolAsync", [0.95, 1.0]),
        ("graphs", "cuGraphLaunch", [0.97, 1.03]),
    ] {
        assert!(HOLES.contains(&open));
        let record = escapes(dir.path(), open, &all_but(open), "hami")?;
        let mut expected: Vec<&str> = ALWAYS.into_iter().chain([route]).collect();
        let mut escaped = routes(&record, "escaped");
        expected.sort_unstable();
        escaped.sort_unstable();
        assert_eq!(escaped, expected, "{:?}", record.probes);
        let mut figures = record.probe_figures.iter();
        let over = figures.find(|one| one.figure == route).map(|one| one.estimate.value);
        let over = over.ok_or("no figure")?;
        assert!((min..max).contains(&over), "{open}: {over}");
    }
    Ok(())
}

#[test]
fn closed_holes_and_a_limit_of_the_device_contain_every_route() -> TestResult {
    let dir = tempfile::tempdir()?;
    let record = escapes(dir.path(), "closed", &all_but(""), "hami")?;
    assert_eq!(routes(&record, "escaped"), ALWAYS, "{:?}", record.probes);

    // Exported memory counts for its owner only, so mapping it exceeds the limit. A program that is
    // not an MPS client has the whole device.
    let record = escapes(dir.path(), "quota", "", "mps-quota")?;
    let bypassed = [
        "cuIpcOpenMemHandle",
        "cuMemAlloc, environment dropped",
        "cuLaunchKernel, environment dropped",
        "cuMemAlloc, pipe folder misspelled",
        "cuLaunchKernel, pipe folder misspelled",
        "cuMemAlloc, a limit of another GPU added",
        "cuMemAlloc, a second process of the tenant",
    ];
    assert_eq!(routes(&record, "escaped"), bypassed, "{:?}", record.probes);
    let cap = record.matrix.iter().find(|row| row.mechanism == "mps-quota");
    let warns = cap.is_some_and(|row| row.warnings.iter().any(|w| w.contains("bypass: 2 of ")));
    assert!(warns, "{cap:?}");
    Ok(())
}
