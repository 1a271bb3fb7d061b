//! Rows of the memory axis that come from probes: proportions, and what gets past a limit.
//!
//! Levels (scoring-v1, memory): a proportion by its bounds (L3 from 0.95, L2 from 0.80, L1 if some
//! trials came out as promised, L0 if none did); a cap by its worst call (L3 to 1 % over the limit,
//! L2 to 10 %), L1 if some calls are held to within 10 % and others not, L0 if none is.

use gpubench_record::{Axis, CapCall, Estimate, MechanismRow, ProbeFound};
use gpubench_stats::{Confidence, NoEstimate, proportion};

use super::Context;
use super::figures::printed;
use super::level::{Level, LevelRange};
use super::probe_figures::bypass;
use super::row::Row;
use super::word::{Evidence, with_bypass};

/// Lower bounds of the proportion for L3 and L2.
pub(super) const SHARE_L3: f64 = 0.95;
const SHARE_L2: f64 = 0.80;
/// Overshoot at most, over the limit, for L3 and L2.
const OVERSHOOT_L3: f64 = 0.01;
const OVERSHOOT_L2: f64 = 0.10;
/// `CUDA_ERROR_OUT_OF_MEMORY`: the refusal that a limit gives.
const OUT_OF_MEMORY: i32 = 2;
/// Memory that takes place on the device only once the device touches it.
const MANAGED: &str = "cuMemAllocManaged";

/// What stands in the place of a victim.
const PROBE: &str = "probe";

/// The rows of one variant, in report order; none for what was not probed.
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
            let found: Vec<&ProbeFound> = own
                .iter()
                .copied()
                .filter(|found| found.is_of_row(sub_axis))
                .collect();
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
        row.set_range(range, vec!["more trials would tell".to_owned()]);
        if let Some(level) = range.decided() {
            // Ways past a limit say nothing of what can be found in memory.
            let tried = matches!(sub_axis, "capacity" | "cap")
                .then(|| bypass(context.input.probes, &mechanism.variant, "memory"))
                .flatten();
            let (word, told) = with_bypass(level, Evidence::of(mechanism), tried);
            if let Some(told) = told {
                row.warn(told);
            }
            row.matrix.word = Some(word.to_owned());
        }
    }
    row.finish()
}

/// The levels that the findings of one sub-axis leave open.
fn judge(found: &[&ProbeFound], row: &mut Row) -> Option<LevelRange> {
    let mut share = Share::default();
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
                share.add(
                    "reservations honoured",
                    (*honoured).into(),
                    (*trials).into(),
                );
                row.warn(format!(
                    "of a reservation of {} MiB at least {} MiB were granted, while neighbours \
                     held at least {} MiB",
                    reserved_bytes >> 20,
                    granted_bytes >> 20,
                    neighbour_bytes >> 20
                ));
                if *neighbour_bytes == 0 {
                    row.doubt("the neighbours got no memory, so nothing was in the way");
                }
            }
            ProbeFound::Cap { .. } => range = cap(one, row),
            ProbeFound::Residue { .. } => residue(one, &mut share, row),
            ProbeFound::Visibility { .. } => visibility(one, &mut share, row),
            ProbeFound::Broken { reason, .. } => row.doubt(format!("the probe broke: {reason}")),
            // The others belong to no sub-axis of memory.
            _ => {}
        }
    }
    if share.trials > 0 {
        let figure = share.estimate();
        let estimate = row.take("proportion", figure)?;
        range = Some(of_share(&estimate));
        row.matrix.survival = Some(estimate);
    }
    range
}

/// Trials that came out as promised, over all findings of a sub-axis.
#[derive(Debug, Default)]
pub(super) struct Share {
    unit: &'static str,
    good: u64,
    trials: u64,
}

impl Share {
    pub(super) fn add(&mut self, unit: &'static str, good: u64, trials: u64) {
        self.unit = unit;
        self.good += good;
        self.trials += trials;
    }

    /// Good trials and all of them.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.good, self.trials)
    }

    /// Two-sided; one-sided where nothing went wrong, because there is nothing above.
    pub(super) fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let good = u32::try_from(self.good).unwrap_or(u32::MAX);
        let trials = u32::try_from(self.trials).unwrap_or(u32::MAX);
        let interval = if good == trials {
            proportion::lower_bound
        } else {
            proportion::clopper_pearson
        };
        interval(good, trials, Confidence::P95).map(|found| printed(found, self.unit))
    }
}

pub(super) fn of_share(share: &Estimate) -> LevelRange {
    if share.value == 0.0 {
        return LevelRange::at(Level::L0);
    }
    let level = |bound: f64| {
        if bound >= SHARE_L3 {
            Level::L3
        } else if bound >= SHARE_L2 {
            Level::L2
        } else {
            Level::L1
        }
    };
    LevelRange {
        worst: level(share.lo),
        best: level(share.hi),
    }
}

fn residue(found: &ProbeFound, share: &mut Share, row: &mut Row) {
    let ProbeFound::Residue {
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
            "the owner itself found {found_by_owner} of {marked} marked pages: the scan misses some"
        ));
    }
    let pages = (*marked).min(*scanned);
    share.add("clean pages", pages.saturating_sub(*stale), pages);
    let how = if released_by == "freed" {
        "freed"
    } else {
        "given up with their context"
    };
    row.warn(format!(
        "{stale} of {marked} marked pages of {page_bytes} bytes, {how}, were found by the next \
         tenant among {scanned}; the interval takes pages for independent"
    ));
}

fn visibility(found: &ProbeFound, share: &mut Share, row: &mut Row) {
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
    share.add("reads kept out", (*blocked_reads).into(), (*reads).into());
    row.warn("the neighbour's addresses were read by copies, not by kernels");
    if *visible_in_free > 0 {
        row.warn(format!(
            "information leak: cuMemGetInfo followed the neighbour's memory in {visible_in_free} of \
             {allocations} times"
        ));
    }
    match listed_by_nvml {
        Some(true) => row.warn("information leak: NVML lists the neighbour's process"),
        Some(false) => {}
        None => row.warn("NVML did not tell whether it lists the neighbour's process"),
    }
}

/// The figure and the levels of a memory cap.
fn cap(found: &ProbeFound, row: &mut Row) -> Option<LevelRange> {
    let ProbeFound::Cap {
        limit_bytes,
        device_bytes,
        in_use_bytes,
        calls,
    } = found
    else {
        return None;
    };
    let Some(limit) = limit_bytes.filter(|&limit| limit > 0) else {
        let most = calls.iter().map(|call| call.bytes.1).max().unwrap_or(0);
        row.warn(format!(
            "no limit is set: one tenant got {} of {} MiB",
            most >> 20,
            device_bytes >> 20
        ));
        return Some(LevelRange::at(Level::L0));
    };
    let over = |bytes: u64| (bytes + in_use_bytes) as f64 / limit as f64 - 1.0;
    let mut worst: Option<(&CapCall, f64)> = None;
    let mut held = Vec::new();
    for call in calls {
        let most = over(call.bytes.1);
        let unsupported = call.bytes.1 == 0 && call.refused_with != Some(OUT_OF_MEMORY);
        if unsupported {
            row.warn(format!(
                "{} gave nothing: {:?}",
                call.call, call.refused_with
            ));
            continue;
        }
        row.warn(format!(
            "{}: {:+.2} % of the limit",
            call.call,
            100.0 * most
        ));
        if call.call == MANAGED {
            row.warn(format!(
                "{MANAGED} is not judged: untouched, it may take no device memory"
            ));
            continue;
        }
        held.push(most);
        if worst.is_none_or(|(_, known)| most > known) {
            worst = Some((call, most));
        }
    }
    let Some((call, most)) = worst else {
        row.doubt("no call gave any memory");
        return None;
    };
    row.matrix.overshoot = Some(Estimate {
        value: most,
        lo: over(call.bytes.0),
        hi: most,
        n: call.rounds,
        unit: "of the limit".to_owned(),
    });
    Some(LevelRange::at(of_overshoots(&held)))
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
