//! A program of the user's under a mechanism, as far as it can be seen from outside: it tells
//! nothing of itself, so who lists it, what it was started with and what it has mapped must do.

use gpubench_record::Proof;

use super::Observation;
use super::observation::proof_of;

/// What was seen of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramObservation {
    /// Its processes that NVML or a daemon lists with a context; its leader if none is listed.
    pub working: Vec<u32>,
    /// Files that each of these has mapped; none where the system does not tell.
    pub mapped: Vec<(u32, Vec<String>)>,
    /// Variables that the mechanism has for it and that one of these processes was started without,
    /// or with another value.
    pub lacking: Vec<(u32, String)>,
    /// GPU instances in which NVML lists its processes.
    pub instances: Vec<(u32, Option<u32>)>,
    /// The GPU instance that it was handed, where the device is cut up.
    pub handed_instance: Option<u32>,
}

impl ProgramObservation {
    /// Those of its processes that work without having a file mapped. The shell that started them
    /// may have it all the same.
    pub(super) fn without(&self, path: &str) -> Vec<u32> {
        let has = |files: &[String]| files.iter().any(|file| file == path);
        let bare = self.mapped.iter().filter(|(_, files)| !has(files));
        bare.map(|(pid, _)| *pid).collect()
    }
}

/// Whether the program was started with all that its mechanism tells a tenant. A program can still
/// take no notice, so this is proof only beside others.
pub(super) fn handed(observed: &Observation) -> Option<Proof> {
    const CHECK: &str = "the program was started with the variables of its mechanism";
    let program = observed.program.as_ref()?;
    let evidence = if program.lacking.is_empty() {
        format!("processes {:?} have them all", program.working)
    } else {
        let without = |(pid, name): &(u32, String)| format!("{pid} has not {name} as it was set");
        let all: Vec<String> = program.lacking.iter().map(without).collect();
        all.join(", ")
    };
    let holds = program.lacking.is_empty() && !program.working.is_empty();
    Some(proof_of(CHECK, holds, evidence))
}

/// Whether NVML lists the program in the instance that it was handed, and nowhere else. Nothing
/// where NVML's numbers are those of another process namespace.
pub(super) fn in_instance(observed: &Observation) -> Option<Proof> {
    const CHECK: &str = "NVML lists the program in the instance that it was handed";
    let program = observed.program.as_ref()?;
    if observed.ours_listed() == Some(0) {
        return None;
    }
    let handed = program.handed_instance;
    let there = |&(_, instance): &(u32, Option<u32>)| instance.is_some() && instance == handed;
    let holds = !program.instances.is_empty() && program.instances.iter().all(there);
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
    use super::{ProgramObservation, handed, in_instance};
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
    fn a_program_that_dropped_a_variable_is_not_under_its_mechanism() {
        let lacking = |lacking: &[&str]| {
            let lacking = lacking.iter().map(|&name| (7, name.to_owned())).collect();
            let working = vec![7];
            handed(&observed(Some(ProgramObservation {
                working,
                lacking,
                ..ProgramObservation::default()
            })))
        };
        assert!(lacking(&[]).is_some_and(|proof| proof.holds));
        let proof = lacking(&["CUDA_MPS_SM_PARTITION"]);
        assert!(proof.is_some_and(|proof| {
            !proof.holds && proof.evidence == "7 has not CUDA_MPS_SM_PARTITION as it was set"
        }));
        assert_eq!(handed(&observed(None)), None);
        let nobody = handed(&observed(Some(ProgramObservation::default())));
        assert!(nobody.is_some_and(|proof| !proof.holds));
    }

    #[test]
    fn every_process_that_works_must_have_the_file() {
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
    fn only_the_instance_that_it_was_handed_will_do() {
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
            assert_eq!(in_instance(&observed), None, "numbers of another namespace");
        }
    }
}
