//! `time-slicing`: several processes, each with a context of its own; the driver lets them take
//! turns. What a device plugin's `sharing.timeSlicing` hands out is this and nothing more.
//!
//! Work of different contexts cannot run at the same time unless an MPS server joins them
//! (CUDA Multi-Process Service, "Architecture"), and an MPS client is listed apart from a plain
//! compute process. The proof is therefore that NVML lists every tenant as a compute process of
//! its own, that there are no MPS clients, and that the compute mode lets several processes in.

use gpubench_record::Proof;

use super::{Mechanism, Seen};

/// See the module.
#[derive(Debug)]
pub struct TimeSlicing;

impl Mechanism for TimeSlicing {
    fn name(&self) -> &'static str {
        "time-slicing"
    }

    fn prove(&self, seen: &Seen) -> Option<Proof> {
        if seen.condition.is_native() || seen.ours.len() < 2 {
            return None;
        }
        let want = seen.ours.len();
        let (holds, evidence) = match (seen.ours_listed(), seen.mps_clients) {
            (None, _) => (
                false,
                "NVML does not list the device's processes".to_owned(),
            ),
            (_, Some(clients)) if clients > 0 => (
                false,
                format!("NVML lists {clients} clients of an MPS server"),
            ),
            (Some(found), _) if found == want => (
                true,
                format!("NVML lists all {want} tenants as compute processes of their own"),
            ),
            (Some(0), _)
                if seen
                    .listed
                    .as_ref()
                    .is_some_and(|listed| listed.len() == want) =>
            {
                (
                    true,
                    format!("NVML lists {want} compute processes, numbered in another namespace"),
                )
            }
            (Some(found), _) => (false, format!("NVML lists {found} of {want} tenants")),
        };
        Some(Proof {
            when: "during".to_owned(),
            check: "a context of its own for each tenant".to_owned(),
            holds,
            evidence,
            hardware: false,
            limiter: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::TimeSlicing;
    use crate::mechanism::{Mechanism, Seen};
    use gpubench_record::Condition;

    #[test]
    fn every_tenant_must_be_seen_and_none_through_mps() {
        for (listed, mps_clients, expected) in [
            (Some(vec![7, 8]), Some(0), Some(true)),
            (Some(vec![7, 8]), None, Some(true)),
            (Some(vec![7]), Some(0), Some(false)),
            (Some(vec![7, 8]), Some(2), Some(false)),
            (Some(vec![30_001, 30_002]), Some(0), Some(true)),
            (None, None, Some(false)),
        ] {
            let seen = Seen {
                condition: Condition::C,
                ours: vec![7, 8],
                listed,
                mps_clients,
                compute_mode: None,
            };
            let proof = TimeSlicing.prove(&seen);
            assert_eq!(proof.map(|proof| proof.holds), expected, "{seen:?}");
        }
    }
}
