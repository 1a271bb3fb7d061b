//! Whether the mechanism was in force in the cell.

use gpubench_record::{Gate, Proof, ProofTime, RequiredProof};

use super::{CellObservation, Findings};

/// The evidence about the mechanism of a cell.
#[derive(Debug, Clone, Copy)]
pub enum Proofs<'a> {
    /// Taken for this cell.
    OfCell {
        /// The evidence.
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
pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
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
            (taken, missing(taken, required.unwrap_or_default(), length_ns))
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
fn missing(taken: &[Proof], required: &[RequiredProof], length_ns: u64) -> Vec<String> {
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
    use super::*;
    use crate::gate::fixture::World;
    use gpubench_record::{Condition, GateState};

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
