//! Gates on the surroundings of the cell: the mechanism, the device and the host.

use gpubench_record::{Gate, GateState, Unobserved};

use super::surroundings::missing;
use super::{CellObservation, CellXid, ClockKind, Findings, Host, in_force};

/// Share of CPU time taken by a hypervisor above which rows mention it. It is a mean over all cores
/// in ticks of 10 ms, so it neither bounds what one thread lost nor excludes a cell; the victim's
/// own counts of its gaps do.
const STEAL_MENTIONED: f64 = 0.005;

/// Reasons for throttling (`nvml.h`, `nvmlClocksThrottleReason*`) that spoil a cell.
const SPOILING: &[(u64, &str)] =
    &[(0x08, "hw slowdown"), (0x40, "hw thermal slowdown"), (0x80, "hw power brake")];
/// Reasons that the gate names and accepts: the driver limits the clock as it does for any load.
const ACCEPTED: &[(u64, &str)] = &[(0x04, "sw power cap"), (0x20, "sw thermal slowdown")];

pub(super) const VIRTUAL: &str = "n/a (virtual time)";

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    in_force::judge(observation, found);
    let host = &observation.host;
    let others = host.other_pids.map(|pids| pids.iter().map(u32::to_string).collect());
    listed(
        Gate::ForeignProcess,
        "no process but the tenants was on the GPU",
        "processes on the GPU that are no tenants",
        others.ok_or_else(|| missing(host.unobserved, Unobserved::Processes)),
        found,
    );
    throttle(host, found);
    let xids = host.xids.map(|xids| xids.iter().map(xid_text).collect());
    listed(
        Gate::Xid,
        "the device reported no Xid",
        "the device reported Xid",
        xids.ok_or_else(|| missing(host.unobserved, Unobserved::Xids)),
        found,
    );
    steal(observation, found);
}

/// Fails a gate where the observed list is not empty.
fn listed(
    gate: Gate,
    none: &str,
    some: &str,
    observed: Result<Vec<String>, String>,
    found: &mut Findings,
) {
    match observed {
        Err(why) => found.not_evaluated(gate, why),
        Ok(list) if list.is_empty() => found.holds(gate, true, none),
        Ok(list) => found.holds(gate, false, format!("{some}: {}", list.join(", "))),
    }
}

fn xid_text(xid: &CellXid) -> String {
    match &xid.note {
        Some(note) => format!("{} ({note})", xid.number),
        None => xid.number.to_string(),
    }
}

fn throttle(host: &Host<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::Throttle;
    let why = || missing(host.unobserved, Unobserved::Throttle);
    let Some(reasons) = host.throttle_reasons else {
        return found.not_evaluated(GATE, why());
    };
    let named = |known: &[(u64, &'static str)]| -> Vec<&'static str> {
        known.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name).collect()
    };
    let (spoiling, accepted) = (named(SPOILING), named(ACCEPTED));
    if spoiling.is_empty() && host.unobserved.contains_key(&Unobserved::Throttle) {
        // Some samples have no reasons, and a spoiling one may be among those.
        return found.not_evaluated(GATE, why());
    }
    let all: Vec<&str> = spoiling.iter().chain(&accepted).copied().collect();
    let detail = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    found.holds(GATE, spoiling.is_empty(), detail);
}

fn steal(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::CpuSteal;
    match (observation.clock, observation.host.steal) {
        (ClockKind::Virtual, _) => found.gate(GATE, GateState::NotApplicable, VIRTUAL),
        (ClockKind::Wall, None) => found.not_evaluated(GATE, "not observed"),
        (ClockKind::Wall, Some(steal)) => {
            let (steal_pct, max_pct) = (100.0 * steal, 100.0 * STEAL_MENTIONED);
            let detail =
                format!("{steal_pct:.2} % of the CPU time of all cores, {max_pct} % are usual");
            found.holds(GATE, steal <= STEAL_MENTIONED, detail);
            found.numbers(Some(steal), Some(STEAL_MENTIONED), "share");
        }
    }
}
