//! Gates on the surroundings of the cell: lateness of the harness, the mechanism, the device and
//! the host.

use gpubench_record::{Condition, Gate, GateState, Phase, SampleRow};

use super::quantiles::lateness_p99_ns;
use super::{CellObservation, ClockKind, Findings, Tenant, figure, in_force, samples};

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

const VIRTUAL: &str = "n/a (virtual time)";

pub(super) fn judge(observation: &CellObservation<'_>, victim: &Tenant<'_>, found: &mut Findings) {
    lateness(observation, victim, found);
    in_force::judge(observation, found);
    listed(
        Gate::ForeignProcess,
        "no process but the tenants was on the GPU",
        "processes on the GPU that are no tenants",
        observation.host.other_pids,
        found,
    );
    throttle(observation.host.throttle_reasons, found);
    listed(
        Gate::Xid,
        "the device reported no Xid",
        "the device reported Xid",
        observation.host.xids,
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
    let bound_ns = LATENESS_MIN_NS.max(LATENESS_SHARE * median_ns.unwrap_or(0.0));
    let sched = victim.result.sched.as_deref().unwrap_or("unknown");
    let detail = format!(
        "p99 of an idle issuer (scheduling class {sched}) is {p99_ns:.0} ns, accepted is at most \
         {bound_ns:.0} ns"
    );
    found.holds(GATE, p99_ns <= bound_ns, detail);
}

/// Fails a gate where the observed list is not empty.
fn listed(gate: Gate, none: &str, some: &str, observed: Option<&[u32]>, found: &mut Findings) {
    match observed {
        None => found.not_evaluated(gate, "not observed"),
        Some([]) => found.holds(gate, true, none),
        Some(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            found.holds(gate, false, format!("{some}: {}", numbers.join(", ")));
        }
    }
}

fn throttle(reasons: Option<u64>, found: &mut Findings) {
    const GATE: Gate = Gate::Throttle;
    let Some(reasons) = reasons else {
        return found.not_evaluated(GATE, "not observed");
    };
    let named = |known: &[(u64, &'static str)]| -> Vec<&'static str> {
        known
            .iter()
            .filter(|(bit, _)| reasons & bit != 0)
            .map(|(_, name)| *name)
            .collect()
    };
    let (spoiling, accepted) = (named(SPOILING), named(ACCEPTED));
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
