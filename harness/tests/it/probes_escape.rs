//! `matrix --escape` against machine files: it finds every open hole of the HAMi stand-in and no
//! closed one, and a limit that the device enforces contains every route.

use std::path::Path;

use crate::support::probe::{HOPPER, matrix};
use crate::support::{Error, TestResult};
use gpubench_record::{ProbeFigure, ProbeFound, RunRecord};

/// Runs the escape attempts under a mechanism.
fn escapes(dir: &Path, name: &str, closed: &str, mechanism: &str) -> Result<RunRecord, Error> {
    let machine = format!("{HOPPER}\n[defects]\nhami_closed = [{closed}]\n");
    let mechanisms = format!("exclusive,{mechanism}");
    let arguments = ["--escape", "--mechanism", &mechanisms];
    let quota = "[mps-quota]\nmemory_pct = 50\n";
    matrix(dir, name, &machine, quota, &arguments, &[0])
}

/// The routes with that verdict, in order.
fn routes<'a>(record: &'a RunRecord, verdict: &str) -> Vec<&'a str> {
    let has = |one: &&ProbeFigure| one.verdict.as_deref() == Some(verdict);
    let all = record.probe_figures.iter().filter(has);
    all.map(|one| one.figure.as_str()).collect()
}

/// Every route under a mechanism that limits memory and time by a preloaded library.
const ROUTES: [&str; 24] = [
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
];

/// The routes that the library limits. Its limiter of launches oscillates around its limit and
/// exceeds it at times, so no launch is among them.
const CONTAINED: [&str; 6] = [
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemCreate",
    "cuMemAlloc, functions found by path",
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
    let by = |name: &str| {
        let mut all = record.probe_figures.iter();
        all.find(|one| one.figure == name).map(|one| one.estimate.value)
    };
    // Nearly 80 GiB with a limit of 40, and all of the time with a limit of half.
    assert!(by("cuArrayCreate").is_some_and(|over| (0.95..1.0).contains(&over)));
    assert!(by("cuGraphLaunch").is_some_and(|over| (0.97..1.03).contains(&over)));
    Ok(())
}

/// Every documented hole of the stand-in but one.
fn all_but(open: &str) -> String {
    let holes = [
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
    assert!(holes.contains(&open));
    let closed = holes.iter().filter(|hole| **hole != open);
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
    let holes = "\"arrays\", \"pools\", \"per-thread\", \"globals\", \"ipc\", \"graphs\", \
                 \"graph-memory\", \"cooperative\", \"durations\"";
    let record = escapes(dir.path(), "closed", holes, "hami")?;
    assert_eq!(routes(&record, "escaped"), ALWAYS, "{:?}", record.probes);

    // Exported memory counts for its owner only, so mapping it exceeds the limit. A program that is
    // not an MPS client has the whole device.
    let record = escapes(dir.path(), "quota", "", "mps-quota")?;
    let expected = [
        "cuIpcOpenMemHandle",
        "cuMemAlloc, environment dropped",
        "cuLaunchKernel, environment dropped",
    ];
    assert_eq!(routes(&record, "escaped"), expected, "{:?}", record.probes);
    let cap = record.matrix.iter().find(|row| row.mechanism == "mps-quota");
    let warns = cap.is_some_and(|row| row.warnings.iter().any(|w| w.contains("bypass: 1 of ")));
    assert!(warns, "{cap:?}");
    Ok(())
}
