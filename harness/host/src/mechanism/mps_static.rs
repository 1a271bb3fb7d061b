//! `mps-static`: as `mps`, with SMs for each client that no other client may use.
//!
//! The daemon runs with `-S`. Before tenants start, `sm_partition add GPU-UUID CHUNKS` makes a
//! partition for each and prints its name; `CUDA_MPS_SM_PARTITION` of the tenant is
//! `GPU-UUID/NAME`. The driver chooses the SMs of the chunks. The proof is that each tenant is a
//! client, and that no SM ran blocks of two tenants (CUDA Multi-Process Service, release 615,
//! "Common tasks", "Static SM partitioning").

use std::collections::BTreeSet;

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::host::{ControlError, Guard, HostError, mps_control};
use super::interface::{About, Requirement, USUAL};
use super::waivers::waived;
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, mps, user_program,
};

#[derive(Debug)]
pub struct MpsStatic;

/// First driver, CUDA version and compute capability with static partitions (the same document).
const DRIVER_MIN: u32 = 590;
const CUDA_MIN: i32 = 13010;
const CAPABILITY_MIN: (i32, i32) = (8, 0);

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps-static",
    summary: "as mps, with SMs of its own for each process, which no other may use",
    about: About {
        since: "driver 590, CUDA 13.1",
        needs: "compute capability 8.0",
        changes: "an MPS daemon",
        proof: "no SM runs blocks of two tenants",
        deployed_by: "MPS with -S, set up by hand",
    },
    group: "mps-static",
    options: &[OptionEntry {
        key: "chunks",
        summary: "chunks of SMs for each process; 0 divides the device evenly",
        accepted: &["0 to 64"],
    }],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    ..USUAL
};

impl Mechanism for MpsStatic {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if facts.driver_major.is_none_or(|major| major < DRIVER_MIN) || facts.cuda < CUDA_MIN {
            return waived(
                format!("static SM partitions need driver {DRIVER_MIN} and CUDA 13.1"),
                Some("a newer driver"),
            );
        }
        if facts.compute_capability < CAPABILITY_MIN {
            return waived("static SM partitions need compute capability 8.0", None);
        }
        mps::availability(cx)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let chunks = match cx.profile.mps_static.chunks {
            0 => "chunks=even".to_owned(),
            chunks => format!("chunks={chunks}"),
        };
        let variant = mps::variant(cx, ENTRY.name, vec![chunks]);
        Configuration {
            variant: variant.clone(),
            host_changes: mps::changes(cx),
            stage: Some(HostStage {
                key: variant,
                // Native tenants are no clients, and a server with partitions keeps them off the
                // device.
                allows_native: false,
            }),
            checks: OpeningChecks { sm_placement: true, ..OpeningChecks::default() },
            refuses_outsiders: mps::is_exclusive(cx),
            memory_limit_bytes: None,
            compute_limit: None,
            required: required(cx),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let uuid = &cx.facts.uuid;
        mps::enter_mode(cx, guard)?;
        let daemon = mps::start(guard, uuid, mps::Form::Static)?;
        let tenants = cx.profile.tenants;
        let listed = mps_control::send_line(&daemon, "lspart")?;
        let chunks = match (cx.profile.mps_static.chunks, even_chunks(&listed, uuid, tenants)) {
            (0, even) => even?,
            (wanted, Ok(most)) if wanted > most => return Err(too_many(wanted, most).into()),
            (wanted, _) => wanted,
        };
        let mut partitions = Vec::new();
        for _ in 0..tenants {
            let answer =
                mps_control::send_line(&daemon, &format!("sm_partition add {uuid} {chunks}"))?;
            partitions.push(partition_name(&answer, uuid)?);
        }
        Ok(InForce { daemon: Some(daemon), partitions, ..InForce::default() })
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        if let Some(partition) = set_up.partitions.get(slot) {
            let full = format!("{}/{partition}", cx.facts.uuid);
            env.insert("CUDA_MPS_SM_PARTITION".into(), full.into());
        }
        env
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = mps::proofs(cx, observed);
        if !proofs.is_empty() {
            proofs.push(disjoint_sms(observed));
            proofs.extend(user_program::has_variables(observed));
        }
        proofs
    }
}

fn even_chunks(listed: &str, uuid: &str, tenants: u32) -> Result<u32, ControlError> {
    let doing = "dividing the SMs";
    let free = match of_device(listed, uuid)[..] {
        [(_, free)] => Ok(free),
        [] => Err(format!("lspart lists no free chunks: {:?}", listed.trim())),
        [(one, _), (other, _), ..] => {
            Err(format!("lspart lists {one} and {other}, and {uuid} can be both"))
        }
    };
    let free = free.map_err(|reason| ControlError::new(doing, reason))?;
    match free / tenants.max(1) {
        0 => Err(ControlError::new(doing, format!("{free} chunks for {tenants} tenants"))),
        chunks => Ok(chunks),
    }
}

fn too_many(wanted: u32, most: u32) -> ControlError {
    let what = format!("the device has {most} chunks for each tenant, not {wanted}");
    ControlError::new("dividing the SMs", what)
        .with_remedy(Some("a smaller mps-static.chunks, or 0 to divide the device evenly"))
}

/// The devices in the output of `lspart` that this one can be, with their free chunks: the third
/// column of a device's own line, in which the partition's name is `-`. The first column has the
/// first digits of the UUID: 8 in the example of the vendor's page, from 2 on in public logs.
fn of_device<'a>(listed: &'a str, uuid: &str) -> Vec<(&'a str, u32)> {
    let line = |line: &'a str| {
        let mut words = line.split_whitespace();
        let (gpu, partition) = (words.next()?, words.next()?);
        let digits = gpu.strip_prefix(uuid.get(..4)?)?;
        let own = !digits.is_empty() && uuid.starts_with(gpu) && partition == "-";
        if own { Some((gpu, words.next()?.parse().ok()?)) } else { None }
    };
    listed.lines().filter_map(line).collect()
}

/// The name of a new partition in the daemon's answer, where it follows the device's UUID.
fn partition_name(answer: &str, uuid: &str) -> Result<String, ControlError> {
    let after = |word: &str| {
        let name = word.strip_prefix(uuid)?.strip_prefix('/')?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    answer.split_whitespace().find_map(after).ok_or_else(|| {
        let doing = "adding an SM partition";
        ControlError::new(doing, format!("the daemon answered {:?}", answer.trim()))
    })
}

const DISJOINT: Requirement = Requirement::once("no SM runs blocks of two tenants");

fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let mut required = mps::required(cx);
    required.push(DISJOINT);
    required.extend(user_program::required(cx));
    required
}

/// Whether no SM ran blocks of two tenants.
fn disjoint_sms(observed: &Observation) -> Proof {
    let mut used = BTreeSet::new();
    let (mut twice, mut reported) = (BTreeSet::new(), Vec::new());
    for tenant in &observed.tenants {
        let Some(sms) = tenant.sm_placement.as_ref().filter(|sms| !sms.is_empty()) else {
            return DISJOINT.proof(false, format!("{} reported no SMs", tenant.name()));
        };
        twice.extend(sms.iter().copied().filter(|sm| !used.insert(*sm)));
        reported.push(format!("{} ran on {}", tenant.name(), sms.len()));
    }
    // A user's program reports no SMs. It has those that its neighbours do not use.
    let leaves_some = || {
        let all = observed.native_sm_count.map_or(0, |count| count as usize);
        observed.program.is_some() && (1..all).contains(&used.len())
    };
    let holds = twice.is_empty() && (observed.tenants.len() > 1 || leaves_some());
    Proof {
        limiter: holds,
        ..DISJOINT.proof(holds, format!("{}; in common: {twice:?}", reported.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{disjoint_sms, even_chunks, partition_name};
    use crate::mechanism::{Observation, TenantObservation};

    #[test]
    fn an_answer_without_a_partition_name_is_an_error() {
        for (answer, expected) in [
            ("GPU-1/p1\n", Some("p1")),
            ("Partition GPU-1/1 created\n", Some("1")),
            ("", None),
            ("GPU-1 is unknown\n", None),
            ("no 9 free chunks in a row\n", None),
        ] {
            let found = partition_name(answer, "GPU-1").ok();
            assert_eq!(found.as_deref(), expected, "{answer:?}");
        }
    }

    #[test]
    fn divides_the_free_chunks_that_lspart_lists() {
        let uuid = "GPU-74d43ed3-9b2c-4c5e-8a70-0c1f5f3a7d11";
        for (listed, tenants, expected) in [
            ("GPU-74d43ed3", 2, Some(8)),
            ("GPU-74", 3, Some(5)),
            (uuid, 2, Some(8)),
            (uuid, 17, None),
            ("GPU-75", 2, None),
            ("GPU-", 2, None),
        ] {
            let listed = format!(
                "GPU           Partition free  used  free used clients\n\
                 \x20                       chunk chunk SM   SM\n\
                 {listed} -  16    0     128  0    -\n\
                 {listed} Ld -     4     -    32   No\n\
                 GPU-0a1b - 4 0 32 0 -\n"
            );
            assert_eq!(even_chunks(&listed, uuid, tenants).ok(), expected, "{listed}");
        }
        let two = even_chunks("GPU-74 - 16 0 128 0 -\nGPU-74d - 9 0 72 0 -\n", uuid, 2);
        let refused = two.map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("GPU-74 and GPU-74d")));
        // The answer of driver 580.159.04, which has no partitions.
        let unknown = even_chunks("Unknown command \"lspart\"\n", "GPU-1", 2);
        let answer = unknown.map_err(|error| error.to_string());
        assert!(answer.is_err_and(|text| text.contains("Unknown command")));
    }

    #[test]
    fn no_sm_may_run_blocks_of_two_tenants() {
        for (first, second, expected) in [
            (Some(vec![0, 1]), Some(vec![2, 3]), true),
            (Some(vec![0, 1]), Some(vec![1, 2]), false),
            (Some(vec![0, 1]), Some(vec![]), false),
            (Some(vec![0, 1]), None, false),
        ] {
            let tenant = |slot, sm_placement| TenantObservation {
                slot,
                sm_placement,
                ..TenantObservation::default()
            };
            let observed = Observation {
                tenants: vec![tenant(0, first), tenant(1, second)],
                ..Observation::new(Condition::C, vec![7, 8])
            };
            assert_eq!(disjoint_sms(&observed).holds, expected, "{observed:?}");
        }
    }
}
