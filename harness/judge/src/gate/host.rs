//! Gates on the surroundings of the cell: the mechanism, the device and the host.

use std::collections::BTreeMap;

use gpubench_record::{
    Condition, EccSpan, Event, Gate, GateState, Proof, ProofTime, RequiredProof, Unobserved,
};

use super::catalogue::finite;
use super::{CellObservation, CellXid, ClockKind, Findings, Host};

/// Share of CPU time taken by a hypervisor above which rows mention it. It is a mean over all cores
/// in ticks of 10 ms, so it neither bounds what one thread lost nor excludes a cell; the victim's
/// own counts of its gaps do.
const STEAL_MENTIONED: f64 = 0.005;

/// Reasons for throttling (`nvml.h`, `nvmlClocksThrottleReason*`) that spoil a cell.
const SPOILING: &[(u64, &str)] =
    &[(0x08, "hw slowdown"), (0x40, "hw thermal slowdown"), (0x80, "hw power brake")];
/// Reasons that the gate names and accepts: the driver limits the clock as it does for any load.
const ACCEPTED: &[(u64, &str)] = &[(0x04, "sw power cap"), (0x20, "sw thermal slowdown")];

/// "Preemptive cleanup" (Xid errors of the driver): what a killed process left is taken away.
const CLEANUP: u32 = 45;

pub(super) const VIRTUAL: &str = "n/a (virtual time)";

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    judge_in_force(observation, found);
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
    // The driver reports the process that the cell kills.
    let kills = observation.cell.shape.event.is_some_and(Event::kills);
    let is_spoiling = |xid: &&CellXid| !(kills && xid.number == CLEANUP);
    let xids = host.xids.map(|xids| xids.iter().filter(is_spoiling).map(xid_text).collect());
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

// Gates on the device's memory and on the clocks of the processes that stamp samples.

/// Accepted difference between the native service time and the calibrated one.
const SERVICE_DRIFT_MAX: f64 = 0.10;

pub(super) fn judge_surroundings(observation: &CellObservation<'_>, found: &mut Findings) {
    let unobserved = observation.host.unobserved;
    ecc(observation.host.ecc, unobserved, found);
    clocks(observation, found);
    service_drift(observation, found);
    device_drift(observation, found);
}

/// The device has one speed before the cell and after it. Cells of a block run in random order, and
/// those of its pair in the reverse order, so that a drift within the bracket cancels; what is left
/// between brackets widens intervals (`score/systematic.rs`).
fn device_drift(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::DeviceDrift;
    let Some([before, after]) = observation.host.speed_ln else {
        return found.not_evaluated(GATE, "no check kernel ran before and after the cell");
    };
    if found.figures.closed_rate_per_s.is_some() {
        found.figures.device_speed_ln = finite(f64::midpoint(before, after));
    }
    let (drift, max) = (after - before, observation.thresholds.drift_max);
    let detail = format!(
        "the speed of the device moved by {drift:+.4} (log) between the check kernels around the \
         cell, accepted is up to {max}"
    );
    found.holds(GATE, drift.abs() <= max, detail);
    found.numbers(Some(drift), Some(max), "log ratio");
}

/// Why an observation is missing.
pub(super) fn missing(unobserved: &BTreeMap<Unobserved, String>, what: Unobserved) -> String {
    match unobserved.get(&what) {
        Some(error) => format!("not observed: {error}"),
        None => "not observed".to_owned(),
    }
}

/// Errors that memory could not correct spoil what was computed; corrected ones take time.
fn ecc(span: Option<EccSpan>, unobserved: &BTreeMap<Unobserved, String>, found: &mut Findings) {
    let counts = |count: fn(&gpubench_record::EccCounts) -> Option<u64>| {
        let span = span.as_ref()?;
        Some((count(&span.before)?, count(&span.after)?))
    };
    for (gate, kind, both) in [
        (Gate::Ecc, "uncorrected", counts(|counts| counts.uncorrected_volatile)),
        (Gate::EccCorrected, "corrected", counts(|counts| counts.corrected_volatile)),
    ] {
        match both {
            None => found.not_evaluated(gate, missing(unobserved, Unobserved::Ecc)),
            Some((before, after)) if before == after => {
                found.holds(gate, true, format!("{after} {kind} errors before and after"));
            }
            // A count that falls was reset, so errors of this cell may be gone with it.
            Some((before, after)) => {
                let detail = format!("{before} {kind} errors before the cell, {after} after it");
                found.holds(gate, false, detail);
                found.numbers(Some(after as f64 - before as f64), Some(0.0), "errors");
            }
        }
    }
}

/// Time stamps of two processes are compared, so their clocks must be one clock.
fn clocks(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::TimeNamespace;
    let host = &observation.host;
    match (observation.clock, host.other_clocks) {
        (ClockKind::Virtual, _) => found.gate(GATE, GateState::NotApplicable, VIRTUAL),
        (ClockKind::Wall, None) => {
            found.not_evaluated(GATE, missing(host.unobserved, Unobserved::Clocks));
        }
        (ClockKind::Wall, Some([])) => found.holds(GATE, true, "one for all processes"),
        (ClockKind::Wall, Some(others)) => {
            let detail = format!(
                "time stamps cannot be compared: {} in another time namespace",
                others.join(", ")
            );
            found.holds(GATE, false, detail);
        }
    }
}

/// A native request takes the time that calibration found, else the victim does other work than
/// planned, or the device has another speed.
fn service_drift(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::ServiceDrift;
    if observation.cell.condition != Condition::N {
        return;
    }
    let native_ns = found.figures.closed_service_p50_ns;
    let calibrated_ns = observation.calibrated_service_ns.filter(|ns| *ns > 0);
    let (Some(native_ns), Some(calibrated_ns)) = (native_ns, calibrated_ns) else {
        return found.not_evaluated(GATE, "no native median, or no calibrated service time");
    };
    let ratio = native_ns / calibrated_ns as f64;
    let detail = format!(
        "native median {native_ns:.0} ns, calibrated {calibrated_ns} ns: {ratio:.3}, accepted is \
         {:.2} to {:.2}",
        1.0 - SERVICE_DRIFT_MAX,
        1.0 + SERVICE_DRIFT_MAX
    );
    found.holds(GATE, (ratio - 1.0).abs() <= SERVICE_DRIFT_MAX, detail);
    found.numbers(Some(ratio - 1.0), Some(SERVICE_DRIFT_MAX), "share");
}

// Whether the mechanism was in force in the cell.

/// The evidence about the mechanism of a cell.
#[derive(Debug, Clone, Copy)]
pub enum Proofs<'a> {
    OfCell {
        taken: &'a [Proof],
        /// What each cell of the variant must show; `None` where its tenants run without a
        /// mechanism.
        required: Option<&'a [RequiredProof]>,
    },
    /// All evidence of the variant, whatever cell it is of: records of format 1.0.
    Pooled(&'a [Proof]),
}

impl Default for Proofs<'_> {
    fn default() -> Self {
        Self::OfCell { taken: &[], required: None }
    }
}

const GATE: Gate = Gate::MechanismInForce;

/// Every proof of the cell holds, none that its mechanism requires is missing, and one was taken
/// while the samples were.
pub(super) fn judge_in_force(observation: &CellObservation<'_>, found: &mut Findings) {
    let (taken, missing) = match observation.host.proofs {
        Proofs::Pooled([]) => return found.not_evaluated(GATE, "no proof was taken"),
        Proofs::OfCell { taken: [], required: None } => {
            return found.not_evaluated(GATE, "the tenants run without a mechanism");
        }
        Proofs::Pooled(taken) => {
            let during = taken.iter().any(|proof| proof.when == ProofTime::During);
            let missing = (!during).then(|| "any proof taken during the samples".to_owned());
            (taken, Vec::from_iter(missing))
        }
        Proofs::OfCell { taken, required } => {
            let length_ns = observation.durations.cell_ns();
            (taken, missing_proofs(taken, required.unwrap_or_default(), length_ns))
        }
    };
    if let Some(against) = taken.iter().find(|proof| !proof.holds) {
        let (check, when, evidence) = (&against.check, against.when, &against.evidence);
        return found.holds(GATE, false, format!("{check} ({when}): {evidence}"));
    }
    let detail = if missing.is_empty() {
        let pooled = match observation.host.proofs {
            Proofs::Pooled(_) => " (of all cells of the variant)",
            Proofs::OfCell { .. } => "",
        };
        format!("{}{pooled}", holding(taken.len()))
    } else {
        format!("not observed: {}", missing.join("; "))
    };
    found.holds(GATE, missing.is_empty(), detail);
}

fn holding(count: usize) -> String {
    match count {
        1 => "1 proof holds".to_owned(),
        _ => format!("{count} proofs hold"),
    }
}

/// The required proofs that the cell lacks. One that is due during the samples counts only if its
/// instant lies in the cell.
fn missing_proofs(taken: &[Proof], required: &[RequiredProof], length_ns: u64) -> Vec<String> {
    let is_inside = |proof: &Proof| {
        let t_ns = proof.t_ns.and_then(|t_ns| u64::try_from(t_ns).ok());
        t_ns.is_some_and(|t_ns| t_ns <= length_ns)
    };
    let counts = |proof: &&Proof| proof.when != ProofTime::During || is_inside(proof);
    let lacks = |one: &&RequiredProof| !taken.iter().filter(counts).any(|proof| proof.is(one));
    let text = |one: &RequiredProof| format!("{} ({})", one.check, one.when);
    let mut missing: Vec<String> = required.iter().filter(lacks).map(text).collect();
    let during = |proof: &Proof| proof.when == ProofTime::During;
    if missing.is_empty() && !taken.iter().filter(counts).any(during) {
        missing.push("any proof taken during the samples".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Condition, GateState};

    use super::*;
    use crate::gate::fixture::World;

    fn proof(when: ProofTime, check: &str, t_ns: Option<i64>) -> Proof {
        Proof {
            when,
            t_ns,
            check: check.to_owned(),
            holds: true,
            evidence: "seven".to_owned(),
            hardware: false,
            limiter: false,
        }
    }

    fn verdict(taken: Vec<Proof>) -> (GateState, String) {
        let mut world = World::new(Condition::C, 1_000_000);
        world.proofs = taken;
        let required = |when, check: &str| RequiredProof { when, check: check.to_owned() };
        world.required_proofs =
            Some(vec![required(ProofTime::During, "listed"), required(ProofTime::Once, "limited")]);
        let gates = world.judge().gates;
        let gate = gates.into_iter().find(|gate| gate.gate == GATE);
        gate.map_or((GateState::NotApplicable, String::new()), |gate| (gate.state, gate.detail))
    }

    #[test]
    fn a_cell_needs_each_required_proof_and_one_of_them_inside_it() {
        let once = proof(ProofTime::Once, "limited", Some(-9_000_000_000));
        let inside = proof(ProofTime::During, "listed", Some(5_000_000));
        let (state, detail) = verdict(vec![inside.clone(), once.clone()]);
        assert_eq!((state, detail.as_str()), (GateState::Passed, "2 proofs hold"));
        for (taken, expected) in [
            (vec![], "not observed: listed (during); limited (once)"),
            (vec![inside.clone()], "not observed: limited (once)"),
            (vec![once.clone()], "not observed: listed (during)"),
        ] {
            assert_eq!(verdict(taken), (GateState::Failed, expected.to_owned()));
        }
        // Taken before the cell, after it, or at an unknown instant, it is no proof of the cell.
        for t_ns in [Some(-1), Some(60_000_000_000), None] {
            let outside = proof(ProofTime::During, "listed", t_ns);
            let (state, detail) = verdict(vec![outside, once.clone()]);
            assert_eq!(state, GateState::Failed, "{t_ns:?}: {detail}");
        }
        let against = Proof { holds: false, ..proof(ProofTime::AtOpen, "alone", None) };
        let (state, detail) = verdict(vec![inside, once, against]);
        assert_eq!((state, detail.as_str()), (GateState::Failed, "alone (at open): seven"));
    }
}
