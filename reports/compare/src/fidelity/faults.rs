//! Fault trials: what became of the peer, codes, Xids, new clients, and the time until detection.

use std::collections::BTreeSet;
use std::fmt::Display;

use gpubench_record::fault::{Counts, in_words};
use gpubench_record::{FaultTally, Harm, RunRecord};

use super::{Check, Noticed, Row, Verdict, bounds};

pub(super) fn rows(real: &RunRecord, model: &RunRecord, noticed: &Noticed) -> Vec<Row> {
    let is_control = |tally: &&FaultTally| {
        let mut trials = real.plan.fault_trials.iter();
        let of_fault = trials.find(|trial| trial.fault == tally.fault);
        of_fault.is_some_and(|trial| trial.facts.control.is_some())
    };
    let tallies = real.fault_tallies.iter().filter(|one| !is_control(one));
    tallies.map(|tally| compare(tally, model, noticed)).collect()
}

fn compare(real: &FaultTally, model: &RunRecord, noticed: &Noticed) -> Row {
    let name = format!("fault/{}", real.fault);
    let same = |one: &&FaultTally| (&one.variant, &one.fault) == (&real.variant, &real.fault);
    let Some(other) = model.fault_tallies.iter().find(same) else {
        return Row::missing(&real.variant, name, "trials", "not run");
    };
    let refused = |tally: &FaultTally| {
        let codes = tally.refused_with.keys().map(|code| format!("refused with {code}"));
        let never = (tally.no_new_client > 0).then(|| "never accepted".to_owned());
        codes.chain(never).collect::<BTreeSet<_>>()
    };
    let xids = match real.xids_unobserved.max(other.xids_unobserved) {
        0 => set("Xids", &real.xids, &other.xids),
        _ => None,
    };
    let checks = [
        Some(outcome(real, other)),
        set("peer's code", &real.victim_codes, &other.victim_codes),
        set("own code", &real.own_codes, &other.own_codes),
        xids,
        texts("new client", &refused(real), &refused(other)),
        detection(real, other, model, noticed),
    ];
    // Without a trial that counts there is nothing but the outcome.
    let counted = real.trials > 0 && other.trials > 0;
    let kept = if counted { checks.len() } else { 1 };
    Row {
        variant: real.variant.clone(),
        name,
        checks: checks.into_iter().take(kept).flatten().collect(),
        reason: None,
    }
}

/// What became of the peers. The model's trials must include what the hardware did; they are
/// optimistic where all of them harm less.
fn outcome(real: &FaultTally, model: &FaultTally) -> Check {
    let worst = |tally: &FaultTally| tally.victims.keys().next_back().copied();
    let verdict = match (worst(real), worst(model)) {
        (Some(real), Some(model)) if model < real => Verdict::Optimistic,
        (Some(_), Some(_)) => bounds::verdict(includes(&real.victims, &model.victims)),
        (real, model) => bounds::verdict(real == model),
    };
    let text = |tally: &FaultTally| match worst(tally) {
        None => "no trial counts".to_owned(),
        Some(_) => listed(tally.victims.keys().map(|harm: &Harm| harm.as_str())),
    };
    let mut both = [text(real), text(model)];
    if worst(real).is_none() && worst(model).is_none() {
        "none either".clone_into(&mut both[1]);
    }
    check("outcome", both, verdict)
}

/// Whether every value of the hardware is among the model's.
fn includes<K: Ord>(real: &Counts<K>, model: &Counts<K>) -> bool {
    real.keys().all(|value| model.contains_key(value))
}

fn set<K: Ord + Display>(name: &str, real: &Counts<K>, model: &Counts<K>) -> Option<Check> {
    let texts_of = |counts: &Counts<K>| counts.keys().map(K::to_string).collect();
    texts(name, &texts_of(real), &texts_of(model))
}

/// Both sets of values; `None` where both are empty.
fn texts(name: &str, real: &BTreeSet<String>, model: &BTreeSet<String>) -> Option<Check> {
    let within = real.is_subset(model) && real.is_empty() == model.is_empty();
    let both = [real, model].map(|set| listed(set.iter().map(String::as_str)));
    (!real.is_empty() || !model.is_empty()).then(|| check(name, both, bounds::verdict(within)))
}

fn listed<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<&str> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// The median until the culprit's answer, beside what the model's driver takes to notice the fault,
/// or beside the range of the model's trials where it notices it at once.
fn detection(
    real: &FaultTally,
    other: &FaultTally,
    model: &RunRecord,
    noticed: &Noticed,
) -> Option<Check> {
    let (real, other_median) = (real.detected?, other.detected?);
    let trials = model.fault_trials.iter().filter(|trial| {
        trial.outcome.is_measured()
            && (&trial.planned.variant, &trial.planned.fault) == (&other.variant, &other.fault)
    });
    let times: Vec<u64> = trials.filter_map(|trial| trial.detected_after_ns).collect();
    let range = [*times.iter().min()?, *times.iter().max()?];
    let texts = [real.median_ns, other_median.median_ns].map(in_words);
    let key = (other.mechanism.clone(), other.fault.clone());
    let verdict = match noticed.get(&key) {
        Some([least, most]) => bounds::verdict((*least..=*most).contains(&real.median_ns)),
        None => bounds::detection(real.median_ns, range),
    };
    let mut check = check("detected after", texts, verdict);
    check.error = bounds::error(real.median_ns as f64, other_median.median_ns as f64);
    Some(check)
}

fn check(name: &str, [real, model]: [String; 2], verdict: Verdict) -> Check {
    Check { figure: name.to_owned(), real, model, error: None, verdict }
}
