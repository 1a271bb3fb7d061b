//! Rows from probes: proportions with their bounds, caps by their worst call, information leaks.

use gpubench_record::{CapCall, MatrixRow, OutcomeKind, ProbeFound, ProbeResult};

use super::lab::{Lab, QUOTA, rate};

const GIB: u64 = 1 << 30;

/// The row of these findings.
fn row(found: Vec<ProbeFound>) -> MatrixRow {
    let mut lab = Lab::new(&[(QUOTA, None)], 8, |_, _, _| rate(1000.0));
    lab.probes = found
        .into_iter()
        .map(|found| ProbeResult { variant: QUOTA.to_owned(), took_ns: None, found })
        .collect();
    lab.row(QUOTA, "memory")
}

fn residue(marked: u64, found_by_owner: u64, stale: u64) -> ProbeFound {
    ProbeFound::Residue {
        released_by: "freed".to_owned(),
        page_bytes: 4096,
        marked,
        found_by_owner,
        scanned: marked,
        stale,
    }
}

fn capacity(trials: u32, honoured: u32) -> ProbeFound {
    ProbeFound::Capacity {
        reserved_bytes: GIB,
        trials,
        honoured,
        neighbour_bytes: 10 * GIB,
        granted_bytes: 0,
    }
}

/// Calls with what they allocated, in thousandths of the limit of 40 GiB.
fn cap(limit: Option<u64>, calls: &[(&str, u64)]) -> ProbeFound {
    ProbeFound::Cap {
        limit_bytes: limit,
        device_bytes: 80 * GIB,
        in_use_bytes: 0,
        calls: calls
            .iter()
            .map(|(call, thousandths)| CapCall {
                call: (*call).to_owned(),
                bytes: (40 * GIB / 1000 * thousandths, 40 * GIB / 1000 * thousandths),
                rounds: 3,
                refused_with: Some(2),
            })
            .collect(),
    }
}

#[test]
fn a_proportion_has_the_level_of_its_bounds() {
    for (trials, honoured, level) in [
        (59, 59, "L3"),
        (58, 58, "L2..L3"),
        (14, 14, "L2..L3"),
        (10, 10, "L1..L3"),
        (400, 360, "L2"),
        (59, 30, "L1"),
        (59, 0, "L0"),
    ] {
        let row = row(vec![capacity(trials, honoured)]);
        assert_eq!(row.level.as_deref(), Some(level), "{honoured} of {trials}");
        let survival = row.survival.expect("a proportion");
        assert_eq!(survival.n, trials);
        assert!(survival.lo <= survival.value && survival.value <= survival.hi);
    }
    let row = row(vec![capacity(59, 59)]);
    let printed = row.survival.expect("a proportion").lo;
    // Clopper-Pearson for no failure, two-sided: 0.025 to the power of 1/59.
    assert!((printed - 0.025_f64.powf(1.0 / 59.0)).abs() < 1e-12);
    let bound = "the level rests on one-sided 95 % bounds: at least 0.950, at most 1.000";
    assert!(row.warnings.iter().any(|text| text == bound), "{:?}", row.warnings);
}

#[test]
fn clean_pages_count_over_freed_memory_and_closed_contexts() {
    let row = row(vec![residue(256, 256, 256), residue(256, 256, 0)]);
    let survival = row.survival.expect("a proportion");
    assert_eq!((survival.n, survival.value), (512, 0.5));
    assert_eq!(row.level.as_deref(), Some("L1"));
    assert!(row.warnings.iter().any(|w| w.contains("256 of 256 marked pages")));
}

#[test]
fn a_scan_that_misses_pages_of_the_owner_is_inconclusive() {
    let row = row(vec![residue(256, 255, 0)]);
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    assert_eq!((row.level, row.word), (None, None));
}

#[test]
fn a_cap_has_the_level_of_its_worst_call() {
    let limit = Some(40 * GIB);
    for (calls, level) in [
        (&[("cuMemAlloc", 1000), ("cuMemCreate", 1009)][..], "L3"),
        (&[("cuMemAlloc", 1000), ("cuMemCreate", 1090)], "L2"),
        (&[("cuMemAlloc", 1000), ("cuArrayCreate", 1900)], "L1"),
        (&[("cuMemAlloc", 1900), ("cuArrayCreate", 1900)], "L0"),
        (&[("cuMemAlloc", 1000), ("cuMemAllocManaged", 1900)], "L3"),
    ] {
        let row = row(vec![cap(limit, calls)]);
        assert_eq!(row.level.as_deref(), Some(level), "{calls:?}");
        assert!(row.survival.is_none() && row.overshoot.is_some());
    }
    let free = row(vec![cap(None, &[("cuMemAlloc", 1900)])]);
    assert_eq!((free.level.as_deref(), free.word.as_deref()), (Some("L0"), Some("None")));
    assert!(free.overshoot.is_none());
}

#[test]
fn information_leaks_are_warnings() {
    let found = ProbeFound::Visibility {
        reads: 59,
        blocked_reads: 59,
        allocations: 14,
        visible_in_free: 14,
        listed_by_nvml: Some(true),
    };
    let row = row(vec![found]);
    assert_eq!(row.level.as_deref(), Some("L3"));
    let leaks = row.warnings.iter().filter(|w| w.starts_with("information leak"));
    assert_eq!(leaks.count(), 2);
}

#[test]
fn a_failed_probe_is_inconclusive_with_its_reason() {
    let row = row(vec![ProbeFound::Broken {
        name: "cap".to_owned(),
        reason: "victim ended: signal 9".to_owned(),
    }]);
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    assert!(row.outcome.reason.is_some_and(|reason| reason.contains("signal 9")));
}
