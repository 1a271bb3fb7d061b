//! All trials of one fault under one variant, counted: harm to victims, codes of the driver, times,
//! and the state of the device afterwards.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::fault::{Counts, Times, in_words as duration};
use gpubench_record::telemetry::SERVICE;
use gpubench_record::{
    DeviceKind, Estimate, FaultObservation, FaultResult, FaultTally, Harm, RecordLeftOut,
    RunRecord, XidLine, counted,
};
use gpubench_stats::Confidence;
use gpubench_stats::proportion::{clopper_pearson, trials_for_lower_limit};

use super::level::{PROPORTION_L2, PROPORTION_L3};
use crate::figures::printed;

/// Counts the trials of `sources`, one list for each record.
pub(super) fn tally(sources: &[Vec<&FaultResult>]) -> FaultTally {
    let all: Vec<&FaultResult> = sources.iter().flatten().copied().collect();
    let trials: Vec<&FaultResult> = all.iter().copied().filter(|t| counts(t)).collect();
    let Some(first) = all.first() else {
        return FaultTally::default();
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let of = |holds: &dyn Fn(&FaultResult) -> bool| {
        number(trials.iter().filter(|trial| holds(trial)).count())
    };
    let (n, k) = (of(&|_| true), of(&FaultResult::is_contained));
    let victims = || trials.iter().flat_map(|trial| &trial.victims);
    let observed = || trials.iter().map(|trial| &trial.observed);
    let client = |pick: fn(&gpubench_record::NewClient) -> bool| {
        number(observed().filter_map(|one| one.new_client).filter(pick).count())
    };
    let more = |bound: f64| (k == n).then(|| needed(bound).saturating_sub(n));
    let records = |source: &&Vec<&FaultResult>| source.iter().any(|trial| counts(trial));
    FaultTally {
        mechanism: first.planned.mechanism.clone(),
        variant: first.planned.variant.clone(),
        fault: first.planned.fault.clone(),
        class: first.planned.class.clone(),
        records: number(sources.iter().filter(records).count()),
        trials: n,
        left_out: number(all.len() - trials.len()),
        contained: k,
        survival: survival(k, n),
        more_for_l2: more(PROPORTION_L2),
        more_for_l3: more(PROPORTION_L3),
        victims: count(victims().map(|victim| victim.harm)),
        victim_codes: count(victims().filter_map(|victim| victim.code)),
        own_codes: count(observed().filter_map(|one| one.injector.code)),
        xids: count(observed().flat_map(|one| {
            let mut xids = one.xids.clone().unwrap_or_default();
            xids.sort_unstable();
            xids.dedup();
            xids
        })),
        xid_owners: count(observed().flat_map(owners)),
        xids_unobserved: of(&|trial| trial.observed.xids.is_none()),
        detected: Times::of(trials.iter().filter_map(|trial| trial.detected_after_ns)),
        next_good: Times::of(victims().filter_map(|victim| victim.next_good_ns)),
        new_client: Times::of(observed().filter_map(|one| one.new_client?.accepted_after_ns)),
        refused_with: count(observed().filter_map(|one| one.new_client?.refused_with)),
        no_new_client: client(|client| client.accepted_after_ns.is_none()),
        service_gone: of(&|trial| trial.observed.service_gone == Some(true)),
        recovery_before: count(observed().filter_map(|one| one.recovery_action[0])),
        recovery_after: count(observed().filter_map(|one| one.recovery_action[1])),
        ecc_moved: ecc_moved(&trials),
        ecc_unobserved: of(&|trial| trial.observed.ecc.iter().any(|ecc| !ecc.has_any())),
        left_as_found: of(&|trial| left_as_found(trial) == Some(true)),
        unknown_if_left: of(&|trial| left_as_found(trial).is_none()),
        doubt: None,
    }
}

/// Each Xid of a trial with the process that the kernel's log names, once.
fn owners(observed: &FaultObservation) -> BTreeSet<String> {
    let owner = |line: &XidLine| {
        let is_victim =
            |name: &String| observed.victims.iter().any(|one| one.planned.tenant == *name);
        let owner = match &line.ours {
            None if line.pid.is_none() => "no process that the driver knows",
            None => "a process of another namespace",
            Some(ours) if ours.contains(&observed.injector.tenant) => "the faulting process",
            Some(ours) if ours.iter().any(is_victim) => "a victim",
            Some(ours) if ours.iter().any(|name| name == SERVICE) => "the mechanism's service",
            Some(ours) if ours.is_empty() => "a process that is none of ours",
            Some(_) => "a process beside them",
        };
        format!("{} of {owner}", line.number)
    };
    observed.xid_lines.iter().flatten().map(owner).collect()
}

fn counts(trial: &FaultResult) -> bool {
    trial.outcome.is_measured()
}

/// Whether the device was left as it was found; `None` where that was not observed.
fn left_as_found(trial: &FaultResult) -> Option<bool> {
    let [before, after] = trial.observed.recovery_action;
    let [ecc_before, ecc_after] = trial.observed.ecc;
    let left = trial.observed.left_behind.as_ref()?;
    // A counter that is no longer readable may have any value.
    if !ecc_before.has_same_counts_as(&ecc_after) {
        return None;
    }
    let nothing_moved = ecc_before.moved(&ecc_after).next().is_none();
    Some(left.is_empty() && before? == after? && nothing_moved)
}

fn ecc_moved(trials: &[&FaultResult]) -> BTreeMap<String, i64> {
    let mut moved = BTreeMap::new();
    for trial in trials {
        let [before, after] = trial.observed.ecc;
        for (name, by) in before.moved(&after) {
            *moved.entry(name.to_owned()).or_insert(0) += by;
        }
    }
    moved
}

fn ecc_in_words(moved: &BTreeMap<String, i64>) -> Option<String> {
    let text = |(name, by): (&String, &i64)| format!("{name} {by:+}");
    let texts: Vec<String> = moved.iter().map(text).collect();
    (!texts.is_empty()).then(|| format!("ECC {}", texts.join(", ")))
}

fn count<K: Ord>(all: impl Iterator<Item = K>) -> Counts<K> {
    let mut counts = Counts::new();
    for one in all {
        *counts.entry(one).or_insert(0) += 1;
    }
    counts
}

/// The proportion contained with its two-sided interval.
fn survival(k: u32, n: u32) -> Option<Estimate> {
    let found = clopper_pearson(k, n, Confidence::P95).ok()?;
    Some(printed(found, "proportion"))
}

/// Trials that show this lower bound if all of them are contained.
fn needed(bound: f64) -> u32 {
    trials_for_lower_limit(bound, Confidence::P95).unwrap_or(u32::MAX)
}

/// How many more trials would decide the level, if all of them were contained. One trial that was
/// not contained decides nothing.
pub(super) fn more_trials(tally: &FaultTally) -> String {
    let (k, n) = (tally.contained, tally.trials);
    if (k, n) == (0, 1) {
        return "failed once".to_owned();
    }
    match (tally.more_for_l2, tally.more_for_l3) {
        (Some(0), Some(more)) => format!("L2 or better, {more} more trials for L3"),
        (Some(more), _) => format!("{k} of {} contained, {more} more for L2", counted(n, "trial")),
        (None, _) => format!("{k} of {} contained", counted(n, "trial")),
    }
}

/// The interval, the outcomes of the victims, the codes of the driver, and the longest times.
pub(super) fn in_words(tally: &FaultTally) -> String {
    let (k, n) = (tally.contained, tally.trials);
    let mut parts = Vec::new();
    if let Some(survival) = &tally.survival {
        let of_records = match tally.records {
            0 | 1 => String::new(),
            records => format!(" of {records} records"),
        };
        // Rounded outwards, so that the printed interval contains the computed one.
        let (lo, hi) = ((survival.lo * 1e3).floor() / 1e3, (survival.hi * 1e3).ceil() / 1e3);
        parts.push(format!(
            "{k} of {}{of_records} contained: {lo:.3} to {hi:.3} of them with 95 %",
            counted(n, "trial")
        ));
    }
    let victims: u32 = tally.victims.values().sum();
    for harm in [Harm::Unharmed, Harm::Slowed, Harm::Stalled, Harm::Dead, Harm::Corrupted] {
        let Some(of) = tally.victims.get(&harm) else {
            continue;
        };
        parts.push(format!("{of} of {} {}", counted(victims, "victim"), harm.as_str()));
    }
    let mut numbers = |what: &str, counts: Vec<String>| {
        if !counts.is_empty() {
            parts.push(format!("{what} {}", counts.join(" ")));
        }
    };
    numbers("victims' CUresult", times(&tally.victim_codes));
    numbers("own CUresult", times(&tally.own_codes));
    numbers("Xid", times(&tally.xids));
    numbers("by the kernel's log", times(&tally.xid_owners));
    numbers("new client refused with", times(&tally.refused_with));
    let acted: Counts<u32> = tally.recovery_after.clone();
    numbers(
        "recovery action afterwards",
        times(&acted.into_iter().filter(|(action, _)| *action != 0).collect()),
    );
    for (what, times) in [
        ("detected", tally.detected),
        ("next good request", tally.next_good),
        ("new client", tally.new_client),
    ] {
        parts.extend(times.map(|times| format!("{what} after at most {}", duration(times.max_ns))));
    }
    for (what, trials) in [
        ("no new client accepted", tally.no_new_client),
        ("the mechanism's service gone", tally.service_gone),
        ("device not left as found", n - tally.left_as_found - tally.unknown_if_left),
    ] {
        if trials > 0 {
            parts.push(format!("{what} in {}", counted(trials, "trial")));
        }
    }
    parts.extend(ecc_in_words(&tally.ecc_moved));
    parts.join(", ")
}

/// Each value, with its count where that is more than one.
fn times<K: std::fmt::Display>(counts: &Counts<K>) -> Vec<String> {
    let text = |(number, count): (&K, &u32)| match count {
        1 => number.to_string(),
        count => format!("{number} ({count} times)"),
    };
    counts.iter().map(text).collect()
}

// Which records' fault trials count together: those of one device under one driver, with the same
// number of tenants, the same service time and the same scoring rules. Virtual trials count only
// with those of the same machine file.

/// The trials that count with those of one record, and why others do not.
#[derive(Debug, Default)]
pub struct Pooled {
    pub earlier: Vec<Vec<FaultResult>>,
    /// The records that do not count, with the reason.
    pub left_out: Vec<RecordLeftOut>,
}

/// Name of the fact that identifies a virtual machine, whose UUID follows from its seed.
pub const MACHINE_HASH: &str = "machine_hash";

/// The facts that must be equal, each with its name.
fn key(record: &RunRecord) -> [(&'static str, String); 5] {
    let device = &record.device;
    let which = match device.kind {
        DeviceKind::Real => format!("real {}", device.uuid),
        DeviceKind::Virtual => {
            let hash = device.facts.get(MACHINE_HASH).map_or("unknown", String::as_str);
            format!("virtual, machine file {hash}")
        }
    };
    [
        ("device", which),
        ("driver", device.driver.clone()),
        ("tenants", record.plan.tenants.to_string()),
        ("profile's service time in ns", record.plan.service_ns.to_string()),
        ("scoring", record.scoring.clone()),
    ]
}

/// Whether two records hold the same trials: one record passed twice, or two virtual runs with one
/// seed, whose trials are identical.
fn same_trials(a: &RunRecord, b: &RunRecord) -> bool {
    if a.device.kind == DeviceKind::Virtual && a.provenance.clock == "virtual" {
        return a.seed == b.seed;
    }
    a.provenance.started_at == b.provenance.started_at && a.provenance.host == b.provenance.host
}

/// Sorts other records, each with its name on the command line, into those whose trials count with
/// those of `record` and those whose trials do not.
pub fn pool(record: &RunRecord, others: &[(String, &RunRecord)]) -> Pooled {
    let mut pooled = Pooled::default();
    let mut taken: Vec<&RunRecord> = vec![record];
    let own = key(record);
    for (name, other) in others {
        let theirs = key(other);
        let machine_unknown = record.device.kind == DeviceKind::Virtual
            && !record.device.facts.contains_key(MACHINE_HASH);
        let differing = own.iter().zip(&theirs).find(|(a, b)| a != b);
        let why = if let Some(((what, own), (_, theirs))) = differing {
            format!("its {what} is {theirs}, not {own}")
        } else if machine_unknown {
            "neither record names its machine file".to_owned()
        } else if taken.iter().any(|known| same_trials(known, other)) {
            "its trials are those of another record that counts".to_owned()
        } else {
            taken.push(other);
            pooled.earlier.push(other.fault_trials.clone());
            continue;
        };
        pooled.left_out.push(RecordLeftOut { record: name.clone(), reason: why });
    }
    pooled
}
