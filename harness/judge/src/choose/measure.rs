//! Why a need is unknown under a mechanism, and the command that would measure it.

use gpubench_record::{Axis, MechanismProperties, OutcomeKind, RunRecord};

use super::need::{Need, What};
use super::properties;

/// Minutes of a run that measures one axis under one mechanism, and that decides rows whose
/// intervals straddle what is needed.
const MINUTES: u64 = 5;
const MINUTES_UNDECIDED: u64 = 15;
/// Minutes of the probes of memory and of the fault trials of one mechanism: the published runs
/// took 15 s for the first, and 3.3 to 4 s for each of 17 trials of 21 faults.
const MINUTES_MEMORY: u64 = 1;
const MINUTES_FAULTS: u64 = 24;

/// Why a mechanism has no row that a need is about.
pub(super) fn unmeasured(records: &[&RunRecord], variant: &str) -> String {
    let rows = records.iter().flat_map(|run| &run.mechanisms);
    let own: Vec<_> = rows.filter(|row| row.variant == variant).collect();
    let waived = own.iter().find(|row| row.outcome.outcome == OutcomeKind::Waived);
    match waived.filter(|_| own.iter().all(|row| !row.outcome.is_measured())) {
        Some(row) => row.outcome.reason.clone().unwrap_or_default(),
        None => "not measured".to_owned(),
    }
}

/// The command that would measure a need, and its minutes. None where the host must change first
/// in a way that no flag does, or where nothing can measure it.
pub(super) fn measure(
    records: &[&RunRecord],
    variant: &str,
    need: &Need,
    undecided: bool,
) -> Option<(String, u64)> {
    let (run, row) = records
        .iter()
        .find_map(|run| Some((run, run.mechanisms.iter().find(|row| row.variant == variant)?)))?;
    let axis = need.axis();
    let skip = run
        .plan
        .skips
        .iter()
        .find(|skip| skip.name == row.name && skip.axis.as_deref() == axis.map(Axis::as_str));
    let allow = "--allow-reconfigure";
    let remedy = row.remedy.as_deref().unwrap_or_default();
    let is_waived = row.outcome.outcome == OutcomeKind::Waived;
    let is_alone = properties(run, variant).is_some_and(MechanismProperties::admits_one_tenant);
    if is_alone
        || skip.is_some_and(|skip| skip.remedy.is_none())
        || (is_waived && !remedy.contains(allow))
    {
        return None;
    }
    let device = run.provenance.command.windows(2).find(|two| two[0] == "--device");
    let device = device.map_or_else(String::new, |two| format!(" --device {}", two[1]));
    let mut command = format!("gpubench matrix{device} --mechanism {}", row.name);
    let minutes = match axis {
        Some(Axis::Fault) => MINUTES_FAULTS,
        Some(Axis::Memory) => MINUTES_MEMORY,
        _ if undecided => MINUTES_UNDECIDED,
        _ => MINUTES,
    };
    if let Some(axis) = axis {
        command += &format!(" --axis {}", axis.as_str());
    }
    match (axis, &need.what) {
        (_, What::Tenants(count)) => {
            command = format!(
                "printf 'version = 1\\ntenants = {count}\\n' > tenants.toml && {command} \
                 --profile tenants.toml --for-minutes {minutes}"
            );
        }
        (Some(Axis::Fault), _) => command += " --faults",
        (Some(Axis::Memory), _) => {}
        _ => command += &format!(" --for-minutes {minutes}"),
    }
    if remedy.contains(allow) || run.provenance.command.iter().any(|one| one == allow) {
        command += &format!(" {allow}");
    }
    Some((command, minutes))
}
