//! A user's program under a mechanism. It reports nothing, so proofs rest on the lists of NVML and
//! daemons, on its environment, and on its mapped files.

use gpubench_record::Proof;

use super::Observation;
use super::observation::proof_of;

/// The observation of a user's program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramObservation {
    /// Its processes that NVML or a daemon lists with a context; its first process if none is
    /// listed.
    pub working: Vec<u32>,
    /// Files that each of these has mapped; empty if they cannot be read.
    pub mapped: Vec<(u32, Vec<String>)>,
    /// Variables of the mechanism that one of these processes was started without, or with another
    /// value.
    pub lacking: Vec<(u32, String)>,
    /// GPU instances in which NVML lists its processes.
    pub instances: Vec<(u32, Option<u32>)>,
    /// The GPU instance that was assigned to it, if MIG divides the device.
    pub handed_instance: Option<u32>,
}

impl ProgramObservation {
    /// Its working processes that have not mapped a file. The shell that started them does not
    /// count.
    pub(super) fn without(&self, path: &str) -> Vec<u32> {
        let has = |files: &[String]| files.iter().any(|file| file == path);
        let bare = self.mapped.iter().filter(|(_, files)| !has(files));
        bare.map(|(pid, _)| *pid).collect()
    }
}

/// Whether the program was started with all variables of its mechanism. A program can ignore them,
/// so other proofs are needed too.
pub(super) fn has_variables(observed: &Observation) -> Option<Proof> {
    const CHECK: &str = "the program was started with the variables of its mechanism";
    let program = observed.program.as_ref()?;
    let evidence = if program.lacking.is_empty() {
        format!("processes {:?} have them all", program.working)
    } else {
        let without = |(pid, name): &(u32, String)| format!("{pid} lacks {name} as it was set");
        let all: Vec<String> = program.lacking.iter().map(without).collect();
        all.join(", ")
    };
    let holds = program.lacking.is_empty() && !program.working.is_empty();
    Some(proof_of(CHECK, holds, evidence))
}

/// Whether NVML lists the program only in its assigned instance. `None` if NVML's process ids are
/// of another PID namespace.
pub(super) fn in_instance(observed: &Observation) -> Option<Proof> {
    const CHECK: &str = "NVML lists the program in the instance that it was handed";
    let program = observed.program.as_ref()?;
    if observed.ours_listed() == Some(0) {
        return None;
    }
    let handed = program.handed_instance;
    let is_assigned =
        |&(_, instance): &(u32, Option<u32>)| instance.is_some() && instance == handed;
    let holds = !program.instances.is_empty() && program.instances.iter().all(is_assigned);
    let number = |instance: Option<u32>| {
        instance.map_or_else(|| "no instance".to_owned(), |id| format!("instance {id}"))
    };
    let listed = program.instances.iter();
    let listed: Vec<String> = listed
        .map(|&(pid, instance)| format!("{pid} in {}", number(instance)))
        .collect();
    let evidence = format!("handed {}, listed: [{}]", number(handed), listed.join(", "));
    Some(proof_of(CHECK, holds, evidence))
}

#[cfg(test)]
mod tests {
    use super::{ProgramObservation, has_variables, in_instance};
    use crate::mechanism::Observation;
    use gpubench_record::Condition;

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
            mapped: vec![
                (7, files(&["/a", "/b"])),
                (8, files(&["/b"])),
                (9, files(&[])),
            ],
            ..ProgramObservation::default()
        };
        assert_eq!(program.without("/b"), [9]);
        assert_eq!(program.without("/a"), [8, 9]);
    }

    #[test]
    fn the_program_must_be_listed_in_its_assigned_instance_only() {
        for (instances, expected) in [
            (vec![(7, Some(2))], Some(true)),
            (vec![(7, Some(1))], Some(false)),
            (vec![(7, Some(2)), (9, Some(1))], Some(false)),
            (vec![(7, None)], Some(false)),
            (vec![], Some(false)),
        ] {
            let program = ProgramObservation {
                instances,
                handed_instance: Some(2),
                ..ProgramObservation::default()
            };
            let mut observed = observed(Some(program));
            let found = in_instance(&observed).map(|proof| proof.holds);
            assert_eq!(found, expected, "{observed:?}");
            observed.listed = Some(vec![30_001]);
            assert_eq!(in_instance(&observed), None, "ids of another namespace");
        }
    }
}
