//! One sentence for each axis or mechanism that the profile includes and that did not run for want
//! of a flag.

use gpubench_record::{Axis, RunRecord};

use super::parts::clean;

/// The flag without which no device setting changes.
const RECONFIGURE: &str = "--allow-reconfigure";

/// The sentences.
pub(super) fn not_asked(record: &RunRecord) -> Vec<String> {
    [user_victim(record), faults(record), reconfigure(record)].into_iter().flatten().collect()
}

/// Whether the profile includes this axis. A record without a list includes all.
fn includes(record: &RunRecord, axis: Axis) -> bool {
    let axes = &record.plan.axes;
    axes.is_empty() || axes.iter().any(|name| name == "all" || name == axis.as_str())
}

fn user_victim(record: &RunRecord) -> Option<String> {
    record.plan.user_victim.as_ref()?;
    let needs = includes(record, Axis::Memory) || includes(record, Axis::Fault);
    needs.then(|| {
        "NOT MEASURED: the axes memory and fault need built-in victims, and the victim is the \
         user's own program"
            .to_owned()
    })
}

fn faults(record: &RunRecord) -> Option<String> {
    let plan = &record.plan;
    let is_missing = includes(record, Axis::Fault)
        && plan.fault_trials.is_empty()
        && record.fault_tallies.is_empty()
        && plan.user_victim.is_none();
    is_missing.then(|| "NOT ASKED FOR: the fault axis; --faults injects faults".to_owned())
}

fn reconfigure(record: &RunRecord) -> Option<String> {
    let whole = record.plan.skips.iter().filter(|skip| skip.axis.is_none());
    let wanting = whole.filter(|skip| {
        let remedy = skip.remedy.as_deref().unwrap_or_default();
        remedy.contains(RECONFIGURE)
    });
    let names: Vec<String> = wanting.map(|skip| clean(&skip.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "NOT ASKED FOR: {}; {RECONFIGURE} lets the run change device settings for them",
            names.join(", ")
        )
    })
}
