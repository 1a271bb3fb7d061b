//! `mps-memory`: as `mps`, with a limit on the memory of each tenant, by the third version of the
//! interface of MPS (MPS documentation, release 615; driver 615, CUDA 13.4).
//!
//! The daemon runs with `-p 3` and has one server, made with `server create`, which serves the one
//! device. Who holds a tenant to its limit is an option:
//!
//! - `cgroup`: each tenant is put in a control group of its own before it opens the device, and
//!   `nvidia-smi memory-limits` limits the group. The driver counts, whatever the tenant calls and
//!   however it was linked, so this is the rival of a preloaded library's cap. Soft and hard limit
//!   are equal, so that nobody borrows and nobody is put out. It takes the rights of the system's
//!   administrator, and limits are taken back before a group goes, because the driver adds them up
//!   in the groups above. The group's own limit is what the tenant is shown as all there is.
//! - `namespace`: the server limits the clients of a namespace, one for each tenant, by
//!   `namespace set --pinned-memory-limit`. A client chooses its namespace by the folder in
//!   `CUDA_MPS_PIPE_DIRECTORY`. It takes no rights.
//!
//! The proof is that each tenant is a client, and that an allocation beyond the limit is refused.

use gpubench_record::Proof;

use super::host::{Change, ControlError, DaemonPlace, Guard, HostError, mps_control};
use super::{Asked, InForce, Mechanism, Questions, Seen, Stage, TenantEnv, mps};
use super::{memory_cap, program, settings_locked, too_little_for_share, waived};
use crate::plan::Availability;
use crate::profile::options::LimitBy;

/// See the module.
#[derive(Debug)]
pub struct MpsMemory;

/// First driver and CUDA version with the third version of the interface, and first compute
/// capability.
const DRIVER_MIN: u32 = 615;
const CUDA_MIN: i32 = 13040;
const CAPABILITY_MIN: (i32, i32) = (8, 0);

impl Mechanism for MpsMemory {
    fn name(&self) -> &'static str {
        "mps-memory"
    }

    fn variant(&self, asked: &Asked<'_>) -> String {
        let options = &asked.profile.mps_memory;
        let parts = vec![
            format!("memory={}", options.memory_pct),
            format!("by={}", options.by.as_str()),
        ];
        mps::variant(asked, self.name(), parts)
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let facts = asked.facts;
        if facts.driver_major.is_none_or(|major| major < DRIVER_MIN) || facts.cuda < CUDA_MIN {
            return waived(
                format!("memory limits of MPS need driver {DRIVER_MIN} and CUDA 13.4"),
                Some("a newer driver"),
            );
        }
        if facts.compute_capability < CAPABILITY_MIN {
            return waived("memory limits of MPS need compute capability 8.0", None);
        }
        let pct = asked.profile.mps_memory.memory_pct;
        if let Some(waived) = too_little_for_share(asked, "device memory", pct) {
            return waived;
        }
        match mps::availability(asked) {
            Availability::Available => groups_missing(asked).unwrap_or(Availability::Available),
            waived => waived,
        }
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        let mut changes = mps::changes(asked);
        if by_group(asked) {
            let mib = limit_mib(asked);
            changes.push(format!(
                "a control group for each tenant, limited to {mib} MiB"
            ));
        }
        changes
    }

    fn stage(&self, asked: &Asked<'_>) -> Option<Stage> {
        Some(Stage {
            key: self.variant(asked),
            ..mps::stage(asked)
        })
    }

    fn enter(&self, asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let daemon = mps::enter_mode(asked, guard)
            .and_then(|()| mps::start(guard, &asked.facts.uuid, mps::Form::Named))?;
        mps_control::create_server(&daemon)?;
        let mut set_up = InForce::default();
        for place in 0..asked.profile.tenants {
            if by_group(asked) {
                set_up.groups.push(limited_group(asked, guard)?);
            } else {
                mps_control::create_namespace(&daemon, &namespace(place), limit_mib(asked))?;
            }
        }
        set_up.daemon = Some(daemon);
        Ok(set_up)
    }

    fn tenant_env(&self, asked: &Asked<'_>, set_up: &InForce, place: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        let server = set_up.daemon.as_ref().map(DaemonPlace::server_folder);
        if let Some(folder) = server {
            let folder = match u32::try_from(place) {
                Ok(place) if !by_group(asked) => folder.join(namespace(place)),
                _ => folder,
            };
            env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), folder.into());
        }
        env
    }

    fn refuses_strangers(&self, asked: &Asked<'_>) -> bool {
        mps::is_guarded(asked)
    }

    fn questions(&self, asked: &Asked<'_>) -> Questions {
        Questions {
            census: false,
            over_limit_bytes: Some(memory_cap::beyond_bytes(limit_mib(asked))),
        }
    }

    fn memory_limit_bytes(&self, asked: &Asked<'_>) -> Option<u64> {
        Some(limit_mib(asked) << 20)
    }

    fn prove(&self, asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        let mut proofs = mps::proofs(asked, seen);
        if proofs.is_empty() {
            return proofs;
        }
        if by_group(asked) {
            proofs.push(memory_cap::shown(limit_mib(asked), seen));
        }
        proofs.extend(memory_cap::over_limit(seen));
        proofs.extend(program::handed(seen));
        proofs
    }
}

fn by_group(asked: &Asked<'_>) -> bool {
    asked.profile.mps_memory.by == LimitBy::Cgroup
}

/// The memory limit of each tenant.
fn limit_mib(asked: &Asked<'_>) -> u64 {
    memory_cap::part_mib(asked.facts, asked.profile.mps_memory.memory_pct)
}

/// Name of the namespace of the tenant in a place.
fn namespace(place: u32) -> String {
    format!("p{place}")
}

/// Why no tenant can be put in a limited control group, where that is asked for.
fn groups_missing(asked: &Asked<'_>) -> Option<Availability> {
    const OTHERWISE: &str = "[mps-memory] by = \"namespace\"";
    let facts = asked.facts;
    if !by_group(asked) {
        return None;
    }
    if facts.nvidia_smi.is_none() {
        let reason = "only nvidia-smi limits a control group here, and it is not on PATH";
        return Some(waived(reason, Some(OTHERWISE)));
    }
    let Some(tree) = &facts.control_groups else {
        let reason = "there are no control groups of version 2";
        return Some(waived(reason, Some(OTHERWISE)));
    };
    settings_locked(facts, "memory limits of control groups").or_else(|| {
        let (reason, remedy) = tree.problem.as_ref()?;
        Some(waived(reason.clone(), Some(remedy)))
    })
}

/// Makes a control group with the limit of a tenant.
fn limited_group(asked: &Asked<'_>, guard: &mut Guard) -> Result<std::path::PathBuf, HostError> {
    let tree = asked.facts.control_groups.as_ref();
    let none = || ControlError::new("making a control group", "there are none of version 2");
    let path = tree.ok_or_else(none)?.fresh();
    guard.make(Change::ControlGroup { path: path.clone() })?;
    guard.make(Change::MemoryLimit {
        group: path.clone(),
        hard_mib: limit_mib(asked),
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::MpsMemory;
    use crate::mechanism::control_groups::ControlGroups;
    use crate::mechanism::{Asked, HostFacts, Mechanism};
    use crate::plan::Availability;
    use crate::profile::options::LimitBy;
    use crate::profile::{Overrides, Profile, load};

    fn able() -> HostFacts {
        HostFacts {
            driver_major: Some(615),
            cuda: 13040,
            compute_capability: (9, 0),
            memory_mib: 81_920,
            compute_mode: Some("DEFAULT".to_owned()),
            mps_control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
            nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
            control_groups: Some(ControlGroups {
                path: "/sys/fs/cgroup".into(),
                problem: None,
            }),
            allow_reconfigure: true,
            may_change_settings: true,
            ..HostFacts::default()
        }
    }

    /// Reason and remedy on such a host; nothing where it can run.
    fn of(profile: &Profile, facts: &HostFacts) -> (String, String) {
        match MpsMemory.availability(&Asked { profile, facts }) {
            Availability::Available => (String::new(), String::new()),
            Availability::Waived { reason, remedy } => (reason, remedy.unwrap_or_default()),
        }
    }

    fn bent(bend: fn(&mut HostFacts)) -> HostFacts {
        let mut facts = able();
        bend(&mut facts);
        facts
    }

    #[test]
    fn each_thing_that_is_missing_is_named_with_its_remedy()
    -> Result<(), Box<dyn std::error::Error>> {
        let profile = load("smoke", &Overrides::default())?;
        assert_eq!(of(&profile, &able()).0, "");
        for (bend, reason, remedy) in [
            (
                bent(|f| f.driver_major = Some(610)),
                "need driver 615 and CUDA 13.4",
                "newer driver",
            ),
            (
                bent(|f| f.cuda = 13010),
                "need driver 615 and CUDA 13.4",
                "newer driver",
            ),
            (
                bent(|f| f.compute_capability = (7, 5)),
                "compute capability 8.0",
                "",
            ),
            (
                bent(|f| f.mig = Some(true)),
                "MIG mode is on",
                "nvidia-smi -mig 0",
            ),
            (bent(|f| f.mps_control = None), "not on PATH", "MPS tools"),
            (
                bent(|f| f.nvidia_smi = None),
                "only nvidia-smi limits",
                "by = \"namespace\"",
            ),
            (
                bent(|f| f.control_groups = None),
                "of version 2",
                "by = \"namespace\"",
            ),
            (
                bent(|f| f.allow_reconfigure = false),
                "memory limits",
                "--allow-reconfigure",
            ),
            (
                bent(|f| f.may_change_settings = false),
                "CAP_SYS_ADMIN",
                "run as root",
            ),
        ] {
            let (said, way) = of(&profile, &bend);
            assert!(
                said.contains(reason) && way.contains(remedy),
                "{said}: {way}"
            );
        }
        Ok(())
    }

    #[test]
    fn a_tree_can_be_in_the_way_of_groups_and_not_of_the_server()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut profile = load("smoke", &Overrides::default())?;
        let mut locked = able();
        if let Some(tree) = &mut locked.control_groups {
            tree.problem = Some(("no dmem".to_owned(), "echo +dmem".to_owned()));
        }
        assert_eq!(
            of(&profile, &locked),
            ("no dmem".to_owned(), "echo +dmem".to_owned())
        );
        profile.mps_memory.by = LimitBy::Namespace;
        let plain =
            bent(|f| (f.control_groups, f.nvidia_smi, f.allow_reconfigure) = Default::default());
        assert_eq!(of(&profile, &plain).0, "", "the server needs none of them");
        profile.mps_memory.memory_pct = 42;
        assert!(
            of(&profile, &plain)
                .0
                .contains("42 % of the device memory is less than")
        );
        Ok(())
    }
}
