//! `exclusive`: one tenant has the GPU to itself. The reference, not a contestant.
//!
//! Nothing is set up. The proof is that NVML lists no other process on the device. While MIG mode
//! is on nobody has the whole device, whatever instances there are, and there is no reference.

use gpubench_record::Proof;

use super::{Asked, Mechanism, Seen, device_is_cut, observed, prohibited};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct Exclusive;

impl Mechanism for Exclusive {
    fn name(&self) -> &'static str {
        crate::catalogue::EXCLUSIVE
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let waived = device_is_cut(asked.facts).or_else(|| prohibited(asked.facts));
        waived.unwrap_or(Availability::Available)
    }

    fn prove(&self, _asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        prove(seen).into_iter().collect()
    }
}

fn prove(seen: &Seen) -> Option<Proof> {
    seen.condition.is_native().then(|| alone(seen))
}

/// Whether NVML lists nobody but the victim.
pub(super) fn alone(seen: &Seen) -> Proof {
    let (holds, evidence) = match (&seen.listed, seen.foreign()) {
        (None, _) => (
            false,
            "NVML does not list the device's processes".to_owned(),
        ),
        (Some(listed), _) if listed.is_empty() => (
            false,
            "NVML lists no process at all: the victim has no context on the device".to_owned(),
        ),
        (Some(listed), None) => (
            listed.len() == 1,
            format!(
                "NVML lists {} process of another namespace: {listed:?}",
                listed.len()
            ),
        ),
        (Some(_), Some(foreign)) if foreign.is_empty() => {
            let idle = if seen.services.is_empty() {
                String::new()
            } else {
                format!(" and our idle MPS server {:?}", seen.services)
            };
            let evidence = format!("NVML lists no process but the victim {:?}{idle}", seen.ours);
            (true, evidence)
        }
        (Some(_), Some(foreign)) => (false, format!("NVML lists other processes: {foreign:?}")),
    };
    observed("processes on the device", holds, evidence)
}

#[cfg(test)]
mod tests {
    use super::prove;
    use crate::mechanism::Seen;
    use gpubench_record::Condition;

    #[test]
    fn only_a_list_of_the_victim_alone_is_proof() {
        for (condition, listed, expected) in [
            (Condition::N, Some(vec![7]), Some(true)),
            (Condition::N, Some(vec![7, 8]), Some(false)),
            (Condition::NAgain, Some(vec![31_000]), Some(true)),
            (Condition::N, Some(vec![]), Some(false)),
            (Condition::N, None, Some(false)),
            (Condition::C, Some(vec![7]), None),
        ] {
            let seen = Seen {
                listed,
                ..Seen::new(condition, vec![7])
            };
            assert_eq!(prove(&seen).map(|proof| proof.holds), expected, "{seen:?}");
        }
    }

    #[test]
    fn an_mps_server_of_our_own_is_no_foreigner() {
        let seen = Seen {
            listed: Some(vec![7, 9]),
            ..Seen::new(Condition::N, vec![7])
        };
        assert_eq!(prove(&seen).map(|proof| proof.holds), Some(false));
        let served = Seen {
            services: vec![9],
            ..seen
        };
        assert_eq!(prove(&served).map(|proof| proof.holds), Some(true));
    }
}
