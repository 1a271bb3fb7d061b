//! Gates on the surroundings of the cell: lateness of the harness, the mechanism, the device and
//! the host.

use gpubench_record::{Condition, Gate, GateState, Phase, SampleRow, Unobserved};

use super::quantiles::lateness_p99_ns;
use super::surroundings::missing;
use super::{
    CellObservation, CellXid, ClockKind, Findings, Host, Tenant, figure, in_force, samples,
};

/// Lateness of an idle issuer that is accepted in any case.
const LATENESS_MIN_NS: f64 = 20_000.0;
/// Accepted lateness of an idle issuer, as a share of the victim's median latency.
const LATENESS_SHARE: f64 = 0.01;
/// Accepted share of CPU time taken by a hypervisor. Above it, CPU contention could pass for GPU
/// contention.
const STEAL_MAX: f64 = 0.005;

/// Reasons for throttling (`nvml.h`, `nvmlClocksThrottleReason*`) that spoil a cell.
const SPOILING: &[(u64, &str)] = &[
    (0x08, "hw slowdown"),
    (0x40, "hw thermal slowdown"),
    (0x80, "hw power brake"),
];
/// Reasons that the gate names and accepts: the driver limits the clock as it does for any load.
const ACCEPTED: &[(u64, &str)] = &[(0x04, "sw power cap"), (0x20, "sw thermal slowdown")];

pub(super) const VIRTUAL: &str = "n/a (virtual time)";

pub(super) fn judge(observation: &CellObservation<'_>, victim: &Tenant<'_>, found: &mut Findings) {
    lateness(observation, victim, found);
    in_force::judge(observation, found);
    let host = &observation.host;
    let others = host
        .other_pids
        .map(|pids| pids.iter().map(u32::to_string).collect());
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
    if observation.cell.condition == Condition::N {
        found.not_evaluated(
            Gate::Baseline,
            "no reference band of this GPU model to hold N against",
        );
    }
}

/// Where a request was due while its issuer was idle, only the harness can have made it late.
fn lateness(observation: &CellObservation<'_>, victim: &Tenant<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::Lateness;
    if observation.clock == ClockKind::Virtual {
        return found.gate(GATE, GateState::NotApplicable, VIRTUAL);
    }
    let rows = samples::of_phase(victim.rows, Phase::Open);
    let idle = rows.iter().filter(|row: &&SampleRow| row.issuer_idle);
    let Some(p99_ns) = lateness_p99_ns(idle) else {
        return found.not_evaluated(GATE, "no request came due while the issuer was idle");
    };
    if observation.is_user_victim {
        // The user's program waits for its own arrivals, so its lateness is not that of the
        // harness.
        let detail = format!("p99 of the user's program is {p99_ns:.0} ns, in its latencies");
        return found.not_evaluated(GATE, detail);
    }
    let median_ns = found.rates.get(figure::OPEN_LATENCY_P50_NS).copied();
    // Without a median the strict bound holds.
    let bound_ns = LATENESS_MIN_NS.max(LATENESS_SHARE * median_ns.unwrap_or(0.0));
    let sched = victim.result.sched.as_deref().unwrap_or("unknown");
    let detail = format!(
        "p99 of an idle issuer (scheduling class {sched}) is {p99_ns:.0} ns, accepted is at most \
         {bound_ns:.0} ns"
    );
    found.holds(GATE, p99_ns <= bound_ns, detail);
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
        known
            .iter()
            .filter(|(bit, _)| reasons & bit != 0)
            .map(|(_, name)| *name)
            .collect()
    };
    let (spoiling, accepted) = (named(SPOILING), named(ACCEPTED));
    if spoiling.is_empty() && host.unobserved.contains_key(&Unobserved::Throttle) {
        // Some samples have no reasons, and a spoiling one may be among those.
        return found.not_evaluated(GATE, why());
    }
    let all: Vec<&str> = spoiling.iter().chain(&accepted).copied().collect();
    let detail = if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    };
    found.holds(GATE, spoiling.is_empty(), detail);
}

fn steal(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::CpuSteal;
    match (observation.clock, observation.host.steal) {
        (ClockKind::Virtual, _) => found.gate(GATE, GateState::NotApplicable, VIRTUAL),
        (ClockKind::Wall, None) => found.not_evaluated(GATE, "not observed"),
        (ClockKind::Wall, Some(steal)) => {
            let (steal_pct, max_pct) = (100.0 * steal, 100.0 * STEAL_MAX);
            let detail = format!("{steal_pct:.2} % of CPU time, accepted is at most {max_pct} %");
            found.holds(GATE, steal <= STEAL_MAX, detail);
        }
    }
}
