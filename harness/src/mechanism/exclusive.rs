//! `exclusive`: one tenant has the GPU to itself. The reference, not a contestant.
//!
//! Nothing is set up. The proof is that NVML lists no other process on the device.

use gpubench_record::Proof;

use super::{Mechanism, Seen};

/// See the module.
#[derive(Debug)]
pub struct Exclusive;

impl Mechanism for Exclusive {
    fn name(&self) -> &'static str {
        crate::catalogue::EXCLUSIVE
    }

    fn prove(&self, seen: &Seen) -> Option<Proof> {
        if !seen.condition.is_native() {
            return None;
        }
        let (holds, evidence) = match (&seen.listed, seen.foreign()) {
            (None, _) => (
                false,
                "NVML does not list the device's processes".to_owned(),
            ),
            (Some(listed), None) => (
                listed.len() == 1,
                format!(
                    "NVML lists {} process of another namespace: {listed:?}",
                    listed.len()
                ),
            ),
            (Some(_), Some(foreign)) if foreign.is_empty() => (
                true,
                format!("NVML lists no process but the victim {:?}", seen.ours),
            ),
            (Some(_), Some(foreign)) => (false, format!("NVML lists other processes: {foreign:?}")),
        };
        Some(Proof {
            when: "during".to_owned(),
            check: "processes on the device".to_owned(),
            holds,
            evidence,
            hardware: false,
            limiter: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Exclusive;
    use crate::mechanism::{Mechanism, Seen};
    use gpubench_record::Condition;

    #[test]
    fn only_a_list_of_the_victim_alone_is_proof() {
        for (condition, listed, expected) in [
            (Condition::N, Some(vec![7]), Some(true)),
            (Condition::N, Some(vec![7, 8]), Some(false)),
            (Condition::NAgain, Some(vec![31_000]), Some(true)),
            (Condition::N, None, Some(false)),
            (Condition::C, Some(vec![7]), None),
        ] {
            let seen = Seen {
                condition,
                ours: vec![7],
                listed,
                mps_clients: None,
                compute_mode: None,
            };
            assert_eq!(
                Exclusive.prove(&seen).map(|proof| proof.holds),
                expected,
                "{seen:?}"
            );
        }
    }
}
