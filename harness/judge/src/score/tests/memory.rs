//! Rows from probes: proportions with their bounds, caps by their worst call, information leaks.

use gpubench_record::{
    CapCall, Condition, MatrixRow, Outcome, OutcomeKind, ProbeFound, ProbeResult, SubAxis,
    WorkloadFacts,
};

use super::lab::{Lab, MIG, QUOTA, SLICING, rate};
use crate::gate::{ANSWERED_REQUESTS, CLOSED_REQUESTS, HONOURED_REQUESTS};

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
        releases: 9,
        clean: Some(if stale == 0 { 9 } else { 0 }),
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
        (72, 72, "L3"),
        (71, 71, "L2..L3"),
        (17, 17, "L2..L3"),
        (16, 16, "L1..L3"),
        (400, 360, "L2"),
        (59, 30, "L1"),
        (59, 0, "L0"),
        (1, 0, "L0..L3"),
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
}

#[test]
fn clean_releases_count_over_freed_memory_and_closed_contexts() {
    let row = row(vec![residue(256, 256, 256), residue(256, 256, 0)]);
    let survival = row.survival.expect("a proportion");
    assert_eq!((survival.n, survival.value), (18, 0.5));
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
        mappings: 72,
        blocked_mappings: Some(72),
        reads: 288,
        blocked_reads: 288,
        allocations: 14,
        visible_in_free: 14,
        listed_by_nvml: Some(true),
    };
    let row = row(vec![found]);
    assert_eq!(row.level.as_deref(), Some("L3"));
    let leaks = row.warnings.iter().filter(|w| w.starts_with("no part of the level: "));
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

// Rows of a victim with answering codes.

/// Answered requests of each cell.
const ANSWERED: u64 = 400;

/// The row of a run whose cells honour this many of [`ANSWERED`] requests, by condition and block.
fn reservation_row(
    mut lab: Lab,
    variant: &str,
    honoured: impl Fn(Condition, u32) -> u64,
) -> MatrixRow {
    lab.plan.axes = vec!["memory/capacity".to_owned()];
    let facts = WorkloadFacts { answering_codes: vec![2], sub_axis: None };
    lab.plan.workloads.insert("reserve".to_owned(), facts);
    for (planned, result) in lab.plan.cells.iter_mut().zip(&mut lab.cells) {
        planned.sub_axis = SubAxis::Capacity;
        planned.victim = "reserve".to_owned();
        planned.aggressor = planned.aggressor.take().map(|_| "memory-hog".to_owned());
        result.cell.victim.clone_from(&planned.victim);
        result.cell.aggressor.clone_from(&planned.aggressor);
        let kept = honoured(planned.condition, planned.block);
        let counts =
            [(ANSWERED_REQUESTS, ANSWERED), (HONOURED_REQUESTS, kept), (CLOSED_REQUESTS, kept)];
        result.requests.extend(counts.map(|(name, count)| (name.to_owned(), count)));
    }
    lab.row(variant, "memory")
}

/// Time-slicing, which is its own unprotected form.
fn slicing() -> Lab {
    Lab::slicing(900.0, 900.0, 900.0)
}

/// A mechanism with another one as its unprotected form.
fn protected(variant: &str) -> Lab {
    Lab::protected(variant, [900.0; 4])
}

#[test]
fn a_hog_that_takes_everything_is_measured_as_l0() {
    let row =
        reservation_row(
            slicing(),
            SLICING,
            |condition, _| {
                if condition.has_aggressor() { 0 } else { ANSWERED }
            },
        );
    assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
    assert_eq!(row.level.as_deref(), Some("L0"));
    assert_eq!(row.word.as_deref(), Some("None"));
    let share = row.survival.expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (0.0, 8 * ANSWERED));
    assert!(share.hi < 0.01);
}

#[test]
fn a_quarter_of_the_requests_is_no_protection_whatever_the_mechanism() {
    let quarter = |condition: Condition, _| {
        if condition.has_aggressor() { ANSWERED / 4 } else { ANSWERED }
    };
    let itself = reservation_row(slicing(), SLICING, quarter);
    assert_eq!(itself.level.as_deref(), Some("L0"), "{itself:?}");
    assert_eq!(itself.u_kind.as_deref(), Some("time-slicing (identity)"));
    let another = reservation_row(protected(QUOTA), QUOTA, quarter);
    assert_eq!(another.level.as_deref(), Some("L0"), "{another:?}");
    assert_eq!(another.u_kind.as_deref(), Some("mps"));
}

#[test]
fn clearly_more_than_half_of_the_requests_is_some_protection() {
    let row = reservation_row(protected(QUOTA), QUOTA, |condition, _| match condition {
        Condition::U => ANSWERED / 4,
        Condition::C => 7 * ANSWERED / 10,
        _ => ANSWERED,
    });
    assert_eq!(row.level.as_deref(), Some("L1"), "{row:?}");
    assert_eq!(row.word.as_deref(), Some("Partial"));
}

#[test]
fn honoured_reservations_are_l3_with_their_counts() {
    let row = reservation_row(protected(MIG), MIG, |condition, _| match condition {
        Condition::U => 0,
        _ => ANSWERED,
    });
    assert_eq!(row.level.as_deref(), Some("L3"), "{row:?}");
    let share = row.survival.clone().expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (1.0, 8 * ANSWERED));
    assert!(share.lo > 0.998, "{share:?}");
    let warns = |what: &str| row.warnings.iter().any(|warning| warning == what);
    assert!(warns("beside the hog 3200 of 3200 requests honoured"));
    assert!(warns("unprotected 0 of 3200 requests honoured"), "{row:?}");
}

#[test]
fn different_blocks_widen_the_interval() {
    // With independent requests the interval around 88 % would be narrow.
    let uneven = |condition: Condition, block: u32| match (condition, block % 2) {
        (Condition::U, _) => 0,
        (Condition::C, 0) => ANSWERED * 3 / 4,
        _ => ANSWERED,
    };
    let row = reservation_row(protected(MIG), MIG, uneven);
    let share = row.survival.as_ref().expect("a figure");
    assert!((share.value - 0.875).abs() < 1e-9, "{share:?}");
    assert!(share.lo < 0.80 && share.hi > 0.95, "{share:?}");
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    assert_eq!(row.level.as_deref(), Some("L1..L3"));
}

#[test]
fn cells_that_show_nothing_leave_no_level() {
    // Honoured under U and in the other cells, valid blocks of U, and the reason.
    for (unprotected, others, blocks, says) in [
        (ANSWERED, ANSWERED, 8, "too weak to show anything"),
        (0, ANSWERED / 2, 8, "refused without the hog as well"),
        (0, ANSWERED, 1, "unprotected rests on 1 block, 3 are needed"),
    ] {
        let mut lab = protected(MIG);
        for result in lab.each(Condition::U).skip(blocks) {
            result.outcome = Outcome::inconclusive("xid: 13");
        }
        let row = reservation_row(lab, MIG, |condition, _| match condition {
            Condition::U => unprotected,
            _ => others,
        });
        assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
        let reason = row.outcome.reason.unwrap_or_default();
        assert!(reason.contains(says), "{reason}");
    }
}

#[test]
fn without_an_unprotected_form_l2_is_the_best_level() {
    let mut lab = protected(MIG);
    for planned in &mut lab.plan.mechanisms {
        planned.unprotected = None;
    }
    let row = reservation_row(lab, MIG, |_, _| ANSWERED);
    assert_eq!(row.level.as_deref(), Some("L2"), "{row:?}");
}
