//! Rows of the memory axis that come from probes: proportions, and how far a tenant gets over its
//! memory limit.
//!
//! A proportion has the level of its one-sided bounds ([`Bounds`](super::proportion::Bounds)). A
//! cap has the level of its worst allocation call: L3 up to 1 % over the limit, L2 up to 10 %; L1
//! where some calls are held to within 10 % and others are not, L0 where none is.

use gpubench_record::{Axis, CapCall, Ends, Estimate, MechanismRow, ProbeFound};

use super::Context;
use super::level::{Level, LevelRange};
use super::probe_figures::bypass;
use super::proportion::Proportion;
use super::row::Row;
use super::word::{Bound, Evidence, with_bypass};

/// Greatest overshoot for L3 and L2, as a part of the limit.
const OVERSHOOT_L3: f64 = 0.01;
const OVERSHOOT_L2: f64 = 0.10;
/// `CUDA_ERROR_OUT_OF_MEMORY`: the refusal that an enforced limit gives.
const OUT_OF_MEMORY: i32 = 2;
/// A call that reserves device memory only when the device touches the pages.
const MANAGED: &str = "cuMemAllocManaged";

/// The name in the column of victims.
const PROBE: &str = "probe";

/// The rows of one variant, in report order; none for a sub-axis without a probe.
pub(super) fn rows(context: &Context<'_>, mechanism: &MechanismRow) -> Vec<Row> {
    let own: Vec<&ProbeFound> = context
        .input
        .probes
        .iter()
        .filter(|probe| probe.variant == mechanism.variant)
        .map(|probe| &probe.found)
        .collect();
    ["capacity", "cap", "residue", "visibility"]
        .into_iter()
        .filter_map(|sub_axis| {
            let found: Vec<&ProbeFound> =
                own.iter().copied().filter(|found| found.is_of_row(sub_axis)).collect();
            (!found.is_empty()).then(|| row(context, mechanism, sub_axis, &found))
        })
        .collect()
}

fn row(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    sub_axis: &str,
    found: &[&ProbeFound],
) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, Axis::Memory, None);
    row.matrix.sub_axis = Some(sub_axis.to_owned());
    row.matrix.victim = Some(PROBE.to_owned());
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let range = judge(found, &mut row);
    if let Some(range) = range.filter(|_| !row.is_doubtful()) {
        row.set_range(range, vec!["more trials would decide".to_owned().into()]);
        if let Some(level) = range.decided() {
            // A bypass of a limit does not change what a tenant finds in memory.
            let is_limited = matches!(sub_axis, "capacity" | "cap");
            let tried = is_limited
                .then(|| bypass(context.input.probes, &mechanism.variant, "memory"))
                .flatten();
            let bound = if is_limited { Bound::Limiter } else { Bound::Partition };
            let enforced_by = (Evidence::of(mechanism), bound);
            let (word, warning) = with_bypass(level, enforced_by, tried);
            if let Some(warning) = warning {
                row.warn(warning);
            }
            row.matrix.word = Some(word.to_owned());
        }
    }
    row.finish()
}

/// The levels that the findings of one sub-axis leave open.
fn judge(found: &[&ProbeFound], row: &mut Row) -> Option<LevelRange> {
    let mut promised = Proportion::default();
    let mut range = None;
    for one in found {
        match one {
            ProbeFound::Capacity {
                reserved_bytes,
                trials,
                honoured,
                neighbour_bytes,
                granted_bytes,
            } => {
                promised.add("reservations honoured", (*honoured).into(), (*trials).into());
                row.warn(format!(
                    "of a reservation of {} MiB at least {} MiB were granted, while neighbours \
                     held at least {} MiB",
                    reserved_bytes >> 20,
                    granted_bytes >> 20,
                    neighbour_bytes >> 20
                ));
                if *neighbour_bytes == 0 {
                    row.doubt("the neighbours allocated no memory, so they competed for none");
                }
            }
            ProbeFound::Cap { .. } => range = cap(one, row),
            ProbeFound::Residue { .. } => residue(one, &mut promised, row),
            ProbeFound::Visibility { .. } => visibility(one, &mut promised, row),
            ProbeFound::Broken { reason, .. } => row.doubt(format!("the probe broke: {reason}")),
            // Other findings belong to no sub-axis of memory.
            _ => {}
        }
    }
    if promised.counts().1 > 0 {
        let figure = promised.estimate();
        let estimate = row.take("proportion", figure)?;
        if let Ok(bounds) = promised.bounds() {
            range = Some(bounds.levels());
            row.warn(bounds.in_words());
        }
        row.matrix.survival = Some(estimate);
    }
    range
}

fn residue(found: &ProbeFound, promised: &mut Proportion, row: &mut Row) {
    let ProbeFound::Residue { released_by, page_bytes, marked, found_by_owner, scanned, stale } =
        found
    else {
        return;
    };
    if found_by_owner != marked || *marked == 0 {
        row.doubt(format!(
            "the owner found {found_by_owner} of its {marked} marked pages: the scan misses pages"
        ));
    }
    let pages = (*marked).min(*scanned);
    promised.add("clean pages", pages.saturating_sub(*stale), pages);
    let how = if released_by == "freed" { "freed" } else { "given up with their context" };
    row.warn(format!(
        "{stale} of {marked} marked pages of {page_bytes} bytes, {how}, were found by the next \
         tenant among {scanned}; the interval takes pages for independent"
    ));
}

fn visibility(found: &ProbeFound, promised: &mut Proportion, row: &mut Row) {
    let ProbeFound::Visibility {
        reads,
        blocked_reads,
        allocations,
        visible_in_free,
        listed_by_nvml,
    } = found
    else {
        return;
    };
    promised.add("reads kept out", (*blocked_reads).into(), (*reads).into());
    row.warn("the neighbour's addresses were read by copies, not by kernels");
    if *visible_in_free > 0 {
        row.warn(format!(
            "information leak: cuMemGetInfo followed the neighbour's memory in {visible_in_free} \
             of {allocations} readings"
        ));
    }
    match listed_by_nvml {
        Some(true) => row.warn("information leak: NVML lists the neighbour's process"),
        Some(false) => {}
        None => row.warn("not observed: whether NVML lists the neighbour's process"),
    }
}

/// The figure and the levels of a memory cap.
fn cap(found: &ProbeFound, row: &mut Row) -> Option<LevelRange> {
    let ProbeFound::Cap { limit_bytes, device_bytes, in_use_bytes, calls } = found else {
        return None;
    };
    let Some(limit) = limit_bytes.filter(|&limit| limit > 0) else {
        let max_bytes = calls.iter().map(|call| call.bytes.1).max().unwrap_or(0);
        row.warn(format!(
            "no limit is set: one tenant allocated {} of {} MiB",
            max_bytes >> 20,
            device_bytes >> 20
        ));
        return Some(LevelRange::at(Level::L0));
    };
    let over = |bytes: u64| (bytes + in_use_bytes) as f64 / limit as f64 - 1.0;
    let mut worst: Option<(&CapCall, f64)> = None;
    let mut overshoots = Vec::new();
    for call in calls {
        let overshoot = over(call.bytes.1);
        let unsupported = call.bytes.1 == 0 && call.refused_with != Some(OUT_OF_MEMORY);
        if unsupported {
            row.warn(format!("{} allocated nothing: {:?}", call.call, call.refused_with));
            continue;
        }
        row.warn(format!("{}: {:+.2} % of the limit", call.call, 100.0 * overshoot));
        if call.call == MANAGED {
            row.warn(format!(
                "{MANAGED} is not judged: untouched pages need not take device memory"
            ));
            continue;
        }
        overshoots.push(overshoot);
        if worst.is_none_or(|(_, known)| overshoot > known) {
            worst = Some((call, overshoot));
        }
    }
    let Some((call, overshoot)) = worst else {
        row.doubt("no call allocated any memory");
        return None;
    };
    row.matrix.overshoot = Some(Estimate {
        value: overshoot,
        lo: over(call.bytes.0),
        hi: overshoot,
        ends: Ends::Range,
        parts: None,
        n: call.rounds,
        unit: "of the limit".to_owned(),
    });
    Some(LevelRange::at(of_overshoots(&overshoots)))
}

fn of_overshoots(calls: &[f64]) -> Level {
    let within = |bound: f64| calls.iter().filter(|&&over| over <= bound).count();
    if within(OVERSHOOT_L3) == calls.len() {
        Level::L3
    } else if within(OVERSHOOT_L2) == calls.len() {
        Level::L2
    } else if within(OVERSHOOT_L2) > 0 {
        Level::L1
    } else {
        Level::L0
    }
}
