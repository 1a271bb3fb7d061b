//! The table of faults: their effect on victims and the times to recovery. Also the notice about
//! planned trials that did not run.

use std::collections::BTreeMap;

use gpubench_record::fault::{Counts, Times, in_words};
use gpubench_record::{FaultTally, Harm, RunRecord};

use super::figures::MISSING_TEXT;
use gpubench_show::{Cell, Table, clean};

const COLUMNS: [&str; 10] = [
    "mechanism",
    "fault",
    "contained",
    "victims",
    "own CUresult",
    "Xid",
    "detected",
    "next good request",
    "new client",
    "left as found",
];

/// One row per fault and mechanism, the controls first. Times are `median / longest`.
pub(super) fn faults(record: &RunRecord) -> Table {
    let rows = record.fault_tallies.iter().map(|tally| {
        vec![
            Cell::text(&tally.variant),
            Cell::lines([tally.fault.as_str(), tally.class.as_str()]),
            contained(tally),
            victims(tally),
            Cell::text(numbers(&tally.own_codes, tally.trials)),
            xids(tally),
            Cell::text(times(tally.detected)),
            Cell::text(times(tally.next_good)),
            new_client(tally),
            device_left(tally),
        ]
    });
    let columns = COLUMNS;
    Table::new("faults", "Faults: trials, and times as median / longest", columns, rows).grouped()
}

/// The planned trials that did not run. Without this notice a missing row looks like one that was
/// never planned.
pub(super) fn missing_trials(record: &RunRecord) -> Option<String> {
    let mut missing: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for trial in record.fault_trials_not_held() {
        let of_variant = missing.entry(&trial.variant).or_default();
        *of_variant.entry(&trial.fault).or_insert(0) += 1;
    }
    let count: u32 = missing.values().flat_map(BTreeMap::values).sum();
    if count == 0 {
        return None;
    }
    let variants = missing.iter().map(|(variant, faults)| {
        let faults = faults.iter().map(|(fault, count)| match count {
            1 => clean(fault),
            count => format!("{} ({count}x)", clean(fault)),
        });
        let faults: Vec<String> = faults.collect();
        format!("{}: {}", clean(variant), faults.join(", "))
    });
    let variants: Vec<String> = variants.collect();
    let planned = record.plan.fault_trials.len();
    Some(format!("NOT RUN: {count} of {planned} planned fault trials; {}", variants.join("; ")))
}

fn contained(tally: &FaultTally) -> Cell {
    let of = format!("{} of {}", tally.contained, tally.trials);
    let bounds = tally.survival.as_ref().map(super::figures::interval);
    let records = (tally.records > 1).then(|| format!("{} records", tally.records));
    let left_out = (tally.left_out > 0).then(|| format!("{} left out", tally.left_out));
    let doubt = tally.doubt.as_ref().map(|_| "not trusted".to_owned());
    Cell::lines([Some(of), bounds, records, left_out, doubt].into_iter().flatten())
}

fn victims(tally: &FaultTally) -> Cell {
    let victims: u32 = tally.victims.values().sum();
    let harms = [Harm::Unharmed, Harm::Slowed, Harm::Stalled, Harm::Dead, Harm::Corrupted];
    let lines = harms.into_iter().filter_map(|harm| {
        let count = tally.victims.get(&harm)?;
        Some(format!("{count} of {victims} {}", harm.as_str()))
    });
    let codes = (!tally.victim_codes.is_empty())
        .then(|| format!("CUresult {}", numbers(&tally.victim_codes, victims)));
    Cell::lines(lines.chain(codes))
}

/// The Xids that NVML reported, and below them the processes that the kernel log names.
fn xids(tally: &FaultTally) -> Cell {
    let owners = tally.xid_owners.iter().map(|(owner, count)| {
        let owner = clean(owner);
        if *count == tally.trials { owner } else { format!("{owner} ({count}x)") }
    });
    let numbers = numbers(&tally.xids, tally.trials);
    Cell::lines(std::iter::once(numbers).chain(owners))
}

fn new_client(tally: &FaultTally) -> Cell {
    let refused = (!tally.refused_with.is_empty()).then(|| {
        let codes = numbers(&tally.refused_with, tally.trials);
        format!("refused with {codes}")
    });
    let never = (tally.no_new_client > 0).then(|| format!("never in {}", tally.no_new_client));
    let gone = (tally.service_gone > 0).then(|| "without the mechanism".to_owned());
    let lines = [Some(times(tally.new_client)), refused, never, gone];
    Cell::lines(lines.into_iter().flatten())
}

/// Trials that left the device as found, the recovery actions that NVML requests, and changes of
/// ECC counters.
fn device_left(tally: &FaultTally) -> Cell {
    let known = tally.trials - tally.unknown_if_left;
    let found = (known > 0).then(|| format!("{} of {known}", tally.left_as_found));
    let unknown = (tally.unknown_if_left > 0).then(|| format!("{} unknown", tally.unknown_if_left));
    let actions: Counts<u32> = tally
        .recovery_after
        .iter()
        .filter(|(action, _)| **action != 0)
        .map(|(action, count)| (*action, *count))
        .collect();
    let action = (!actions.is_empty())
        .then(|| format!("recovery action {}", numbers(&actions, tally.trials)));
    let moved = tally.ecc_moved.iter();
    let moved = moved.map(|(count, by)| Some(format!("ECC {count} {by:+}")));
    Cell::lines([found, unknown, action].into_iter().chain(moved).flatten())
}

/// Each number, with its count if that differs from `of`.
fn numbers<K: std::fmt::Display>(counts: &Counts<K>, of: u32) -> String {
    let text = |(number, count): (&K, &u32)| {
        if *count == of { number.to_string() } else { format!("{number} ({count}x)") }
    };
    let texts: Vec<String> = counts.iter().map(text).collect();
    texts.join(" ")
}

fn times(times: Option<Times>) -> String {
    times.map_or_else(
        || MISSING_TEXT.to_owned(),
        |times| format!("{} / {}", in_words(times.median_ns), in_words(times.max_ns)),
    )
}
