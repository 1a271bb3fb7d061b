//! `mps-memory`: as `mps`, with a limit on the memory of each tenant, by version 3 of the MPS
//! interface (MPS documentation, release 615; driver 615, CUDA 13.4).
//!
//! The daemon runs with `-p 3` and has one server, made with `server create`, which serves the one
//! device. The option `by` selects what enforces a tenant's limit:
//!
//! - `cgroup`: each tenant joins a control group of its own before it opens the device, and
//!   `nvidia-smi memory-limits` limits the group. The driver counts, so the limit does not depend
//!   on how the program was linked, unlike that of a preloaded library. Soft and hard limit are
//!   equal, so that no tenant borrows memory and none is evicted. It needs root. A limit is removed
//!   before its group, because the driver adds limits up in the parent groups. A tenant sees the
//!   group's limit as the total memory.
//! - `namespace`: the server limits the clients of a namespace, one for each tenant, by
//!   `namespace set --pinned-memory-limit`. A client selects its namespace by the folder in
//!   `CUDA_MPS_PIPE_DIRECTORY`. It needs no privileges.
//!
//! The proof is that each tenant is a client, and that an allocation beyond the limit is refused.

use gpubench_plan::Availability;
use gpubench_plan::profile::options::LimitBy;
use gpubench_record::{Proof, Sharing};

use super::host::{Change, ControlError, DaemonConfig, Guard, HostError, mps_control};
use super::interface::{MEMORY_PCT, Requirement, USUAL};
use super::waivers::{settings_locked, too_little_for_share, waived};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, memory_cap, mps, user_program,
};

#[derive(Debug)]
pub struct MpsMemory;

/// First driver, CUDA version and compute capability with version 3 of the interface.
const DRIVER_MIN: u32 = 615;
const CUDA_MIN: i32 = 13040;
const CAPABILITY_MIN: (i32, i32) = (8, 0);

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps-memory",
    summary: "as mps, with the memory of each process limited by the driver or by the server",
    group: "mps-memory",
    options: &[
        MEMORY_PCT,
        OptionEntry {
            key: "by",
            summary: "what enforces it: the driver (root, --allow-reconfigure), or the server",
            accepted: &["cgroup", "namespace"],
        },
    ],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    ..USUAL
};

impl Mechanism for MpsMemory {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if facts.driver_major.is_none_or(|major| major < DRIVER_MIN) || facts.cuda < CUDA_MIN {
            return waived(
                format!("memory limits of MPS need driver {DRIVER_MIN} and CUDA 13.4"),
                Some("a newer driver"),
            );
        }
        if facts.compute_capability < CAPABILITY_MIN {
            return waived("memory limits of MPS need compute capability 8.0", None);
        }
        let pct = cx.profile.mps_memory.memory_pct;
        if let Some(waived) = too_little_for_share(cx, "device memory", pct) {
            return waived;
        }
        match mps::availability(cx) {
            Availability::Available => groups_waiver(cx).unwrap_or(Availability::Available),
            waived => waived,
        }
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let options = &cx.profile.mps_memory;
        let limit_mib = limit_mib(cx);
        let parts =
            vec![format!("memory={}", options.memory_pct), format!("by={}", options.by.as_str())];
        let variant = mps::variant(cx, ENTRY.name, parts);
        let mut host_changes = mps::changes(cx);
        if by_group(cx) {
            host_changes
                .push(format!("a control group for each tenant, limited to {limit_mib} MiB"));
        }
        Configuration {
            variant: variant.clone(),
            host_changes,
            stage: Some(HostStage { key: variant, ..mps::stage(cx) }),
            checks: OpeningChecks {
                sm_placement: false,
                over_limit_bytes: limit_of(cx).map(|mib| memory_cap::beyond_bytes(cx.facts, mib)),
            },
            refuses_outsiders: mps::is_exclusive(cx),
            memory_limit_bytes: limit_of(cx).map(|mib| mib << 20),
            compute_limit: None,
            required: required(cx),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let daemon = mps::enter_mode(cx, guard)
            .and_then(|()| mps::start(guard, &cx.facts.uuid, mps::Form::Named))?;
        mps_control::create_server(&daemon)?;
        let mut set_up = InForce::default();
        for slot in 0..cx.profile.tenants {
            if by_group(cx) {
                set_up.groups.push(limited_group(cx, guard)?);
            } else {
                mps_control::create_namespace(&daemon, &namespace(slot), limit_mib(cx))?;
            }
        }
        set_up.daemon = Some(daemon);
        Ok(set_up)
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        let server = set_up.daemon.as_ref().map(DaemonConfig::server_folder);
        if let Some(folder) = server {
            let folder = match u32::try_from(slot) {
                Ok(slot) if !by_group(cx) => folder.join(namespace(slot)),
                _ => folder,
            };
            env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), folder.into());
        }
        env
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = mps::proofs(cx, observed);
        if proofs.is_empty() {
            return proofs;
        }
        let shown = limit_of(cx).filter(|_| by_group(cx));
        proofs.extend(shown.map(|mib| memory_cap::shown(mib, observed)));
        proofs.push(mps::all_sms(observed));
        proofs.extend(memory_cap::over_limit(observed));
        proofs.extend(user_program::has_variables(observed));
        proofs
    }
}

fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let mut required = mps::required(cx);
    required.push(mps::ALL_SMS);
    let limit = limit_of(cx);
    required.extend(limit.filter(|_| by_group(cx)).map(|_| memory_cap::SHOWN));
    required.extend(limit.map(|_| memory_cap::OVER_LIMIT));
    required.extend(user_program::required(cx));
    required
}

fn by_group(cx: &MechanismContext<'_>) -> bool {
    cx.profile.mps_memory.by == LimitBy::Cgroup
}

/// The memory limit that tenants notice; `None` if there is none.
fn limit_of(cx: &MechanismContext<'_>) -> Option<u64> {
    memory_cap::limit_mib(cx.facts, cx.profile.mps_memory.memory_pct)
}

/// The memory limit that is set for each tenant.
fn limit_mib(cx: &MechanismContext<'_>) -> u64 {
    memory_cap::part_mib(cx.facts, cx.profile.mps_memory.memory_pct)
}

fn namespace(slot: u32) -> String {
    format!("p{slot}")
}

/// The waiver where control groups are requested and cannot limit memory.
fn groups_waiver(cx: &MechanismContext<'_>) -> Option<Availability> {
    const NAMESPACE: &str = "[mps-memory] by = \"namespace\"";
    let facts = cx.facts;
    if !by_group(cx) {
        return None;
    }
    if facts.nvidia_smi.is_none() {
        let reason = "only nvidia-smi limits a control group here, and it is not on PATH";
        return Some(waived(reason, Some(NAMESPACE)));
    }
    let Some(tree) = &facts.control_groups else {
        let reason = "there are no control groups of version 2";
        return Some(waived(reason, Some(NAMESPACE)));
    };
    settings_locked(facts, "memory limits of control groups").or_else(|| {
        let (reason, remedy) = tree.problem.as_ref()?;
        Some(waived(reason.clone(), Some(remedy)))
    })
}

/// Makes a control group with the limit of a tenant.
fn limited_group(
    cx: &MechanismContext<'_>,
    guard: &mut Guard,
) -> Result<std::path::PathBuf, HostError> {
    let tree = cx.facts.control_groups.as_ref();
    let none = || ControlError::new("making a control group", "there are none of version 2");
    let path = tree.ok_or_else(none)?.fresh();
    guard.make(Change::ControlGroup { path: path.clone() })?;
    guard.make(Change::MemoryLimit { group: path.clone(), hard_mib: limit_mib(cx) })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use gpubench_plan::Availability;
    use gpubench_plan::profile::options::LimitBy;
    use gpubench_plan::profile::{Overrides, Profile, built_in};

    use super::MpsMemory;
    use crate::mechanism::control_groups::ControlGroups;
    use crate::mechanism::{HostFacts, Mechanism, MechanismContext};

    fn able() -> HostFacts {
        HostFacts {
            driver_major: Some(615),
            cuda: 13040,
            compute_capability: (9, 0),
            memory_mib: 81_920,
            compute_mode: Some("DEFAULT".to_owned()),
            mps_control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
            nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
            control_groups: Some(ControlGroups { path: "/sys/fs/cgroup".into(), problem: None }),
            allow_reconfigure: true,
            may_change_settings: true,
            ..HostFacts::default()
        }
    }

    /// Reason and remedy of the waiver; empty if it can run.
    fn waiver(profile: &Profile, facts: &HostFacts) -> (String, String) {
        match MpsMemory.availability(&MechanismContext { profile, facts }) {
            Availability::Available => (String::new(), String::new()),
            Availability::Waived { reason, remedy } => (reason, remedy.unwrap_or_default()),
        }
    }

    fn with(change: fn(&mut HostFacts)) -> HostFacts {
        let mut facts = able();
        change(&mut facts);
        facts
    }

    #[test]
    fn every_waiver_has_a_reason_and_a_remedy() -> Result<(), Box<dyn std::error::Error>> {
        let profile = built_in("smoke", &Overrides::default())?;
        assert_eq!(waiver(&profile, &able()).0, "");
        for (facts, reason, remedy) in [
            (with(|f| f.driver_major = Some(610)), "need driver 615 and CUDA 13.4", "newer driver"),
            (with(|f| f.cuda = 13010), "need driver 615 and CUDA 13.4", "newer driver"),
            (with(|f| f.compute_capability = (7, 5)), "compute capability 8.0", ""),
            (with(|f| f.mig = Some(true)), "MIG mode is on", "nvidia-smi -mig 0"),
            (with(|f| f.mps_control = None), "not on PATH", "MPS tools"),
            (with(|f| f.nvidia_smi = None), "only nvidia-smi limits", "by = \"namespace\""),
            (with(|f| f.control_groups = None), "of version 2", "by = \"namespace\""),
            (with(|f| f.allow_reconfigure = false), "memory limits", "--allow-reconfigure"),
            (with(|f| f.may_change_settings = false), "CAP_SYS_ADMIN", "run as root"),
        ] {
            let (found, help) = waiver(&profile, &facts);
            assert!(found.contains(reason) && help.contains(remedy), "{found}: {help}");
        }
        Ok(())
    }

    #[test]
    fn an_unusable_tree_of_control_groups_waives_only_the_option_cgroup()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut profile = built_in("smoke", &Overrides::default())?;
        let mut locked = able();
        if let Some(tree) = &mut locked.control_groups {
            tree.problem = Some(("no dmem".to_owned(), "echo +dmem".to_owned()));
        }
        assert_eq!(waiver(&profile, &locked), ("no dmem".to_owned(), "echo +dmem".to_owned()));
        profile.mps_memory.by = LimitBy::Namespace;
        let plain =
            with(|f| (f.control_groups, f.nvidia_smi, f.allow_reconfigure) = Default::default());
        assert_eq!(waiver(&profile, &plain).0, "", "the server needs none of these");
        profile.mps_memory.memory_pct = 42;
        assert!(waiver(&profile, &plain).0.contains("42 % of the device memory is less than"));
        Ok(())
    }
}
