//! Rows of the memory axis that come from probes: proportions, and how far a tenant gets over its
//! memory limit.
//!
//! A proportion has the level of its printed interval, over independent units: reservations,
//! release events, mappings. A cap has the level of its worst allocation call: L3 up to 1 % over
//! the limit, L2 up to 10 %; L1 where some calls are held to within 10 % and others are not, L0
//! where none is.

use gpubench_record::{
    Axis, BLOCKS_MIN, CapCall, CellResult, Condition, Ends, Estimate, MechanismRow, ProbeFound,
    SubAxis,
};
use gpubench_stats::student_t;
use gpubench_stats::summary::moments;

use super::Context;
use super::fault::Proportion;
use super::level::{Level, LevelRange, PROPORTION_L3};
use super::probe_figures::bypass;
use super::resource::unprotected_form;
use super::row::Row;
use super::word::{Bound, Evidence, enforcing, with_bypass};
use crate::figures::{Key, Pair, in_words};
use crate::gate::{ANSWERED_REQUESTS, HONOURED_REQUESTS};

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
        range = Some(LevelRange::of_proportion(&estimate));
        row.matrix.survival = Some(estimate);
    }
    range
}

fn residue(found: &ProbeFound, promised: &mut Proportion, row: &mut Row) {
    let ProbeFound::Residue {
        releases,
        clean,
        released_by,
        page_bytes,
        marked,
        found_by_owner,
        scanned,
        stale,
    } = found
    else {
        return;
    };
    if found_by_owner != marked || *marked == 0 {
        row.doubt(format!(
            "the owner found {found_by_owner} of its {marked} marked pages: the scan misses pages"
        ));
    }
    let clean = clean.unwrap_or(u32::from(*stale == 0));
    promised.add("clean releases", clean.into(), (*releases).into());
    let how = if released_by == "freed" { "freed" } else { "given up with their context" };
    row.warn(format!(
        "{stale} of {marked} marked pages of {page_bytes} bytes, {how} in {}, were found by the \
         next tenant among {scanned}",
        gpubench_record::counted(*releases, "release")
    ));
}

fn visibility(found: &ProbeFound, promised: &mut Proportion, row: &mut Row) {
    let ProbeFound::Visibility {
        mappings,
        blocked_mappings,
        reads,
        blocked_reads,
        allocations,
        visible_in_free,
        listed_by_nvml,
    } = found
    else {
        return;
    };
    let blocked = blocked_mappings.unwrap_or(u32::from(blocked_reads == reads));
    promised.add("mappings kept private", blocked.into(), (*mappings).into());
    row.warn(format!(
        "{blocked_reads} of {reads} reads at addresses of {} were kept out",
        gpubench_record::counted(*mappings, "mapping")
    ));
    row.warn("the neighbour's addresses were read by copies, not by kernels");
    if *visible_in_free > 0 {
        row.warn(format!(
            "no part of the level: cuMemGetInfo shows the neighbour's use of memory, in \
             {visible_in_free} of {allocations} readings"
        ));
    }
    match listed_by_nvml {
        Some(true) => row.warn("no part of the level: NVML lists the neighbour's process"),
        Some(false) => {}
        None => row.warn("not observed: whether NVML lists the neighbour's process"),
    }
}

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
        let percent = format!("{:+.2}", 100.0 * overshoot).replace("-0.00", "+0.00");
        row.warn(format!("{}: {percent} % of the limit", call.call));
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

// Rows of victims with answering codes: the proportion of requests for memory that are honoured
// beside the memory hog.
//
// The level is that of the proportion ([`LevelRange::of_proportion`]). The unprotected form shows
// that the hog takes memory at all.

const UNIT: &str = "requests honoured";

/// Whether the victim of this pair has answering codes.
pub(super) fn applies_to(context: &Context<'_>, pair: &Pair) -> bool {
    let facts = context.input.plan.workloads.get(&pair.victim);
    facts.is_some_and(|facts| !facts.answering_codes.is_empty())
}

pub(super) fn reservation_row(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, pair.sub_axis.axis(), Some(pair));
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let Some(contended) = context.cells.contended(&mechanism.variant, pair) else {
        row.doubt("no contended cell was planned");
        return row.finish();
    };
    row.matrix.aggressor.clone_from(&pair.aggressor);
    let solo = contended.with(Condition::S);
    let Some(pairs) = context.cells.pair(contended, &solo) else {
        row.doubt("no solo cell was planned");
        return row.finish();
    };
    row.decide_by(UNIT, &pairs);
    let (beside, solo_cells): (Vec<&CellResult>, Vec<&CellResult>) =
        pairs.measured.iter().map(|(_, beside, solo)| (*beside, *solo)).unzip();
    row.matrix.requests = beside.iter().map(|cell| counted(cell).1).sum();
    let share = honoured(&beside, "beside the hog", &mut row);
    let without_hog = honoured(&solo_cells, "without the hog", &mut row);
    if let Some(found) = without_hog.filter(|found| found.value < PROPORTION_L3) {
        let found = in_words(&found);
        row.doubt(format!("requests are refused without the hog as well: {found}"));
    }
    let is_strong = unprotected(context, contended, mechanism, &mut row);
    if let Some(share) = &share
        && !row.is_doubtful()
    {
        let range = of_requests(share, context.input.plan.thresholds.retention_l1);
        // Without an unprotected form the hog may be too weak.
        let range = if is_strong { range } else { range.weaker(LevelRange::at(Level::L2)) };
        row.set_range(range, vec!["more blocks would decide".to_owned().into()]);
        word(context, mechanism, range, &mut row);
    }
    row.matrix.survival = share;
    row.finish()
}

fn word(context: &Context<'_>, mechanism: &MechanismRow, range: LevelRange, row: &mut Row) {
    let Some(level) = range.decided() else {
        return;
    };
    let tried = bypass(context.input.probes, &mechanism.variant, "memory");
    let (word, warning) = with_bypass(level, enforcing(mechanism, SubAxis::Capacity), tried);
    if let Some(warning) = warning {
        row.warn(warning);
    }
    row.matrix.word = Some(word.to_owned());
}

/// The levels of a share of requests, which is a rate as well: L1 takes as much of it as L1 of a
/// retention.
fn of_requests(share: &Estimate, l1: f64) -> LevelRange {
    let range = LevelRange::of_proportion(share);
    let at = |level: Level, end: f64| {
        if level == Level::L1 && end < l1 { Level::L0 } else { level }
    };
    LevelRange { worst: at(range.worst, share.lo), best: at(range.best, share.hi) }
}

/// Whether there is an unprotected form. Where the hog leaves it nearly everything, it is too weak,
/// and the row is in doubt.
fn unprotected(
    context: &Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> bool {
    let Some((key, u_kind)) = unprotected_form(context, contended, mechanism, row) else {
        return false;
    };
    row.matrix.u_kind = Some(u_kind);
    let cells = context.cells.blocks(key).into_iter().flatten();
    let cells: Vec<&CellResult> = cells.filter_map(|(_, cell)| cell.measured()).collect();
    let (have, need) = (cells.len(), BLOCKS_MIN as usize);
    if have < need {
        row.doubt(format!(
            "{UNIT} unprotected rests on {}, {need} are needed",
            gpubench_record::counted(have, "block")
        ));
    }
    let Some(share) = honoured(&cells, "unprotected", row) else {
        return false;
    };
    let max = context.input.plan.thresholds.effectiveness_max;
    if share.hi > max {
        let found = in_words(&share);
        row.doubt(format!(
            "the aggressor is too weak to show anything: unprotected {found}, accepted is up to \
             {max}"
        ));
    }
    true
}

/// Honoured requests, and answered requests.
fn counted(cell: &CellResult) -> (u64, u64) {
    let count = |name| cell.requests.get(name).copied().unwrap_or(0);
    (count(HONOURED_REQUESTS), count(ANSWERED_REQUESTS))
}

/// The proportion of answered requests that were honoured. The interval is the union of two:
/// Clopper-Pearson over all requests, which assumes that requests are independent, and a t interval
/// over the blocks' proportions, which is wider where blocks differ more than that.
fn honoured(cells: &[&CellResult], when: &str, row: &mut Row) -> Option<Estimate> {
    let counts: Vec<(u64, u64)> = cells.iter().map(|cell| counted(cell)).collect();
    let mut share = Proportion::default();
    for &(good, trials) in &counts {
        share.add(UNIT, good, trials);
    }
    let mut estimate = row.take(&format!("proportion of {UNIT} {when}"), share.estimate())?;
    let parts = counts.iter().filter(|(_, trials)| *trials > 0);
    let parts: Vec<f64> = parts.map(|(good, of)| *good as f64 / *of as f64).collect();
    // A single block has no spread.
    if let Ok(blocks) = moments(&parts)
        && let Ok(t) = student_t::two_sided_quantile(0.05, f64::from(blocks.n) - 1.0)
    {
        let half = t * blocks.sd / f64::from(blocks.n).sqrt();
        estimate.lo = estimate.lo.min((estimate.value - half).max(0.0));
        estimate.hi = estimate.hi.max((estimate.value + half).min(1.0));
    }
    let (good, trials) = share.counts();
    row.warn(format!("{when} {good} of {trials} {UNIT}"));
    Some(estimate)
}
