//! A user's program under a mechanism. It reports nothing, so proofs rest on the lists of NVML and
//! daemons, on its environment, and on its mapped files.

use gpubench_record::Proof;

use super::interface::Requirement;
use super::{MechanismContext, Observation};

const VARIABLES: Requirement =
    Requirement::once("the program was started with the variables of its mechanism");

/// What a cell of a user's program must show under a mechanism that works through variables.
pub(super) fn required(cx: &MechanismContext<'_>) -> Option<Requirement> {
    cx.profile.user_victim.victim().is_some().then_some(VARIABLES)
}

/// Whether the program was started with all variables of its mechanism. A program can ignore them,
/// so other proofs are needed too.
pub(super) fn has_variables(observed: &Observation) -> Option<Proof> {
    let program = observed.program.as_ref()?;
    let evidence = if program.lacking.is_empty() {
        format!("processes {:?} have them all", program.working)
    } else {
        let without = |(pid, name): &(u32, String)| format!("{pid} lacks {name} as it was set");
        let all: Vec<String> = program.lacking.iter().map(without).collect();
        all.join(", ")
    };
    let holds = program.lacking.is_empty() && !program.working.is_empty();
    Some(VARIABLES.proof(holds, evidence))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::has_variables;
    use crate::mechanism::{Observation, ProgramObservation};

    fn observed(program: Option<ProgramObservation>) -> Observation {
        Observation {
            listed: Some(vec![7, 8]),
            program,
            ..Observation::new(Condition::C, vec![7, 8])
        }
    }

    #[test]
    fn the_program_must_have_every_variable_of_its_mechanism() {
        let lacking = |lacking: &[&str]| {
            let lacking = lacking.iter().map(|&name| (7, name.to_owned())).collect();
            let working = vec![7];
            has_variables(&observed(Some(ProgramObservation {
                working,
                lacking,
                ..ProgramObservation::default()
            })))
        };
        assert!(lacking(&[]).is_some_and(|proof| proof.holds));
        let proof = lacking(&["CUDA_MPS_SM_PARTITION"]);
        assert!(proof.is_some_and(|proof| {
            !proof.holds && proof.evidence == "7 lacks CUDA_MPS_SM_PARTITION as it was set"
        }));
        assert_eq!(has_variables(&observed(None)), None);
        let without_process = has_variables(&observed(Some(ProgramObservation::default())));
        assert!(without_process.is_some_and(|proof| !proof.holds));
    }

    #[test]
    fn lists_working_processes_without_the_file() {
        let files = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let program = ProgramObservation {
            mapped: vec![(7, files(&["/a", "/b"])), (8, files(&["/b"])), (9, files(&[]))],
            ..ProgramObservation::default()
        };
        assert_eq!(program.without("/b"), [9]);
        assert_eq!(program.without("/a"), [8, 9]);
    }
}
