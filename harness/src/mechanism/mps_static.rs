//! `mps-static`: an MPS server that gives each client SMs of its own, which nobody else may use.
//!
//! The daemon runs with `-S`; before tenants start, `sm_partition add GPU-UUID CHUNKS` makes a
//! partition for each and prints its name, which the tenant is told by `CUDA_MPS_SM_PARTITION` as
//! `GPU-UUID/NAME`. What SMs the chunks are is the driver's to choose. The proof is that each
//! tenant is a client, and that the SMs on which blocks of its own ran are no other tenant's (CUDA
//! Multi-Process Service, release 615, "Common tasks", "Static SM partitioning").

use std::collections::BTreeSet;

use gpubench_record::Proof;

use super::host::{ControlError, Guard, HostError, mps_control};
use super::{
    Asked, InForce, Mechanism, Questions, Seen, Stage, TenantEnv, mps, observed, program, waived,
};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct MpsStatic;

/// First driver and CUDA version with static partitioning, and first compute capability (the
/// same).
const DRIVER_MIN: u32 = 590;
const CUDA_MIN: i32 = 13010;
const CAPABILITY_MIN: (i32, i32) = (8, 0);

impl Mechanism for MpsStatic {
    fn name(&self) -> &'static str {
        "mps-static"
    }

    fn variant(&self, asked: &Asked<'_>) -> String {
        let chunks = match asked.profile.mps_static.chunks {
            0 => "chunks=even".to_owned(),
            chunks => format!("chunks={chunks}"),
        };
        mps::variant(asked, self.name(), vec![chunks])
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let facts = asked.facts;
        if facts.driver_major.is_none_or(|major| major < DRIVER_MIN) || facts.cuda < CUDA_MIN {
            return waived(
                format!("static SM partitions need driver {DRIVER_MIN} and CUDA 13.1"),
                Some("a newer driver"),
            );
        }
        if facts.compute_capability < CAPABILITY_MIN {
            return waived("static SM partitions need compute capability 8.0", None);
        }
        mps::availability(asked)
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        mps::changes(asked)
    }

    fn stage(&self, asked: &Asked<'_>) -> Option<Stage> {
        Some(Stage {
            key: self.variant(asked),
            // Tenants without any partition would be clients of nobody, but a server with
            // partitions holds them back from the device.
            plain_too: false,
        })
    }

    fn enter(&self, asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let uuid = &asked.facts.uuid;
        mps::enter_mode(asked, guard)?;
        let daemon = mps::start(guard, uuid, mps::Form::Static)?;
        let tenants = asked.profile.tenants;
        let chunks = match asked.profile.mps_static.chunks {
            0 => even_chunks(&mps_control::ask(&daemon, "lspart")?, uuid, tenants)?,
            chunks => chunks,
        };
        let mut partitions = Vec::new();
        for _ in 0..tenants {
            let said = mps_control::ask(&daemon, &format!("sm_partition add {uuid} {chunks}"))?;
            partitions.push(partition_name(&said, uuid)?);
        }
        Ok(InForce {
            daemon: Some(daemon),
            partitions,
            ..InForce::default()
        })
    }

    fn tenant_env(&self, asked: &Asked<'_>, set_up: &InForce, place: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        if let Some(partition) = set_up.partitions.get(place) {
            let full = format!("{}/{partition}", asked.facts.uuid);
            env.insert("CUDA_MPS_SM_PARTITION".into(), full.into());
        }
        env
    }

    fn refuses_strangers(&self, asked: &Asked<'_>) -> bool {
        mps::is_guarded(asked)
    }

    fn questions(&self, _asked: &Asked<'_>) -> Questions {
        Questions {
            census: true,
            over_limit_bytes: None,
        }
    }

    fn prove(&self, asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        let mut proofs = mps::proofs(asked, seen);
        if !proofs.is_empty() {
            proofs.push(apart(seen));
            proofs.extend(program::handed(seen));
        }
        proofs
    }
}

/// As many chunks for each tenant as there are for all.
fn even_chunks(listed: &str, uuid: &str, tenants: u32) -> Result<u32, ControlError> {
    let doing = "dividing the SMs";
    let free = free_chunks(listed, uuid).ok_or_else(|| {
        ControlError::new(
            doing,
            format!("lspart does not tell free chunks: {:?}", listed.trim()),
        )
    })?;
    match free / tenants.max(1) {
        0 => Err(ControlError::new(
            doing,
            format!("{free} chunks for {tenants} tenants"),
        )),
        chunks => Ok(chunks),
    }
}

/// Free chunks in what `lspart` prints: the third column of the device's own line, in which the
/// place of a partition's name is empty.
fn free_chunks(listed: &str, uuid: &str) -> Option<u32> {
    listed.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let own = words.next() == Some(uuid) && words.next() == Some("-");
        if own {
            words.next()?.parse().ok()
        } else {
            None
        }
    })
}

/// The name of a new partition in the daemon's answer, which says it behind the device's.
fn partition_name(said: &str, uuid: &str) -> Result<String, ControlError> {
    let after = |word: &str| {
        let name = word.strip_prefix(uuid)?.strip_prefix('/')?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    said.split_whitespace().find_map(after).ok_or_else(|| {
        let doing = "adding an SM partition";
        ControlError::new(doing, format!("the daemon said {:?}", said.trim()))
    })
}

/// Whether the SMs on which the tenants' blocks ran have none in common.
fn apart(seen: &Seen) -> Proof {
    const CHECK: &str = "no SM runs blocks of two tenants";
    let mut taken = BTreeSet::new();
    let (mut twice, mut told) = (BTreeSet::new(), Vec::new());
    for tenant in &seen.tenants {
        let Some(sms) = tenant.census.as_ref().filter(|sms| !sms.is_empty()) else {
            return observed(CHECK, false, format!("{} counted no SMs", tenant.name()));
        };
        twice.extend(sms.iter().copied().filter(|sm| !taken.insert(*sm)));
        told.push(format!("{} ran on {}", tenant.name(), sms.len()));
    }
    // A program of the user's counts nothing. What its neighbours leave untouched is its own.
    let leaves_some = || {
        let all = seen.native_sm_count.map_or(0, |count| count as usize);
        seen.program.is_some() && (1..all).contains(&taken.len())
    };
    let holds = twice.is_empty() && (seen.tenants.len() > 1 || leaves_some());
    Proof {
        limiter: holds,
        ..observed(
            CHECK,
            holds,
            format!("{}; in common: {twice:?}", told.join(", ")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{apart, even_chunks, partition_name};
    use crate::mechanism::{Seen, TenantSeen};
    use gpubench_record::Condition;

    #[test]
    fn an_answer_that_is_no_name_is_an_error() {
        for (said, expected) in [
            ("GPU-1/p1\n", Some("p1")),
            ("Partition GPU-1/1 created\n", Some("1")),
            ("", None),
            ("GPU-1 is unknown\n", None),
            ("no 9 free chunks in a row\n", None),
        ] {
            let found = partition_name(said, "GPU-1").ok();
            assert_eq!(found.as_deref(), expected, "{said:?}");
        }
    }

    #[test]
    fn chunks_are_divided_as_lspart_counts_them() {
        let listed = "GPU    Partition free  used  free used clients\n\
                      \x20                chunk chunk SM   SM\n\
                      GPU-1  -         16    0     128  0    -\n\
                      GPU-1  1         -     4     -    32   No\n";
        assert_eq!(even_chunks(listed, "GPU-1", 2).ok(), Some(8));
        assert_eq!(even_chunks(listed, "GPU-1", 3).ok(), Some(5));
        assert!(even_chunks(listed, "GPU-1", 17).is_err());
        assert!(even_chunks(listed, "GPU-2", 2).is_err());
        // Driver 580.159.04, which has no partitions.
        let unknown = even_chunks("Unknown command \"lspart\"\n", "GPU-1", 2);
        let said = unknown.map_err(|error| error.to_string());
        assert!(said.is_err_and(|text| text.contains("Unknown command")));
    }

    #[test]
    fn one_sm_in_common_is_one_too_many() {
        for (first, second, expected) in [
            (Some(vec![0, 1]), Some(vec![2, 3]), true),
            (Some(vec![0, 1]), Some(vec![1, 2]), false),
            (Some(vec![0, 1]), Some(vec![]), false),
            (Some(vec![0, 1]), None, false),
        ] {
            let tenant = |place, census| TenantSeen {
                place,
                census,
                ..TenantSeen::default()
            };
            let seen = Seen {
                tenants: vec![tenant(0, first), tenant(1, second)],
                ..Seen::new(Condition::C, vec![7, 8])
            };
            assert_eq!(apart(&seen).holds, expected, "{seen:?}");
        }
    }
}
