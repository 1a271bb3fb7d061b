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
//! - `file`: as `namespace`, from a configuration file that the daemon applies when it starts.
//!
//! The proof is that each tenant is a client, and that an allocation beyond the limit is refused.

use gpubench_plan::Availability;
use gpubench_plan::profile::options::{LimitBy, MpsMemoryOptions};
use gpubench_record::{Proof, Sharing};

use super::host::{Change, ControlError, DaemonConfig, Guard, HostError, mps_control};
use super::interface::{About, MEMORY_PCT, Requirement, USUAL};
use super::waivers::{settings_locked, too_little_for_share, waived, whole_device_is_closed};
use super::{
    Configuration, HostFacts, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry,
    Observation, OpeningChecks, OptionEntry, TenantEnv, memory_cap, mps, user_program,
};

#[derive(Debug)]
pub struct MpsMemory;

/// First driver, CUDA version and compute capability with version 3 of the interface.
const DRIVER_MIN: u32 = 615;
const CUDA_MIN: i32 = 13040;
const CAPABILITY_MIN: (i32, i32) = (8, 0);

pub(super) const BY: OptionEntry = OptionEntry {
    key: "by",
    summary: "what enforces it: the driver (root, --allow-reconfigure), or the MPS daemon by its \
              commands or its configuration file",
    accepted: &["cgroup", "namespace", "file"],
};

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps-memory",
    summary: "as mps, with the memory of each process limited by the driver or by the server",
    about: About {
        since: "driver 615, CUDA 13.4",
        needs: "compute capability 8.0; root for by = \"cgroup\"",
        changes: "an MPS daemon, control groups",
        proof: "every tenant is a client; an allocation beyond the limit is refused",
        deployed_by: "KAI (sm-sharing), NVIDIA Dynamo",
    },
    group: "mps-memory",
    options: &[MEMORY_PCT, BY],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    ..USUAL
};

impl Mechanism for MpsMemory {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        limited(cx).waiver(cx).unwrap_or_else(|| mps::availability(cx))
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let limited = limited(cx);
        let variant = mps::variant(cx, ENTRY.name, limited.parts());
        let mut host_changes = mps::changes(cx);
        host_changes.extend(limited.change(cx));
        Configuration {
            variant: variant.clone(),
            host_changes,
            stage: Some(HostStage { key: variant, ..mps::stage(cx) }),
            checks: OpeningChecks {
                over_limit_bytes: limited.over_limit_bytes(cx),
                ..OpeningChecks::default()
            },
            refuses_outsiders: mps::is_exclusive(cx),
            memory_limit_bytes: limited.mib(cx).map(|mib| mib << 20),
            compute_limit: None,
            required: [mps::required(cx), limited.required(cx)].concat(),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        mps::enter_mode(cx, guard)?;
        limited(cx).enter(cx, guard)
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        limited(cx).tenant_env(set_up, slot)
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = mps::proofs(cx, observed);
        if !proofs.is_empty() {
            proofs.extend(limited(cx).proofs(cx, observed));
        }
        proofs
    }
}

fn limited<'a>(cx: &MechanismContext<'a>) -> LimitedMemory<'a> {
    LimitedMemory { options: &cx.profile.mps_memory, entry: &ENTRY, shares: true }
}

/// A mechanism with memory limits by version 3 of the MPS interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitedMemory<'a> {
    pub(super) options: &'a MpsMemoryOptions,
    pub(super) entry: &'static MechanismEntry,
    /// Whether clients share the context of a server. Otherwise each has its own, and the daemon
    /// only accounts for memory.
    pub(super) shares: bool,
}

impl LimitedMemory<'_> {
    /// The options, as the variant has them.
    pub(super) fn parts(&self) -> Vec<String> {
        let MpsMemoryOptions { memory_pct, by } = self.options;
        vec![format!("memory={memory_pct}"), format!("by={}", by.as_str())]
    }

    fn by_group(&self) -> bool {
        self.options.by == LimitBy::Cgroup
    }

    /// The memory limit that tenants notice, in MiB; `None` if there is none.
    pub(super) fn mib(&self, cx: &MechanismContext<'_>) -> Option<u64> {
        memory_cap::limit_mib(cx.facts, self.options.memory_pct)
    }

    /// The memory limit that is set for each tenant.
    fn set_mib(&self, cx: &MechanismContext<'_>) -> u64 {
        memory_cap::part_mib(cx.facts, self.options.memory_pct)
    }

    pub(super) fn over_limit_bytes(&self, cx: &MechanismContext<'_>) -> Option<u64> {
        self.mib(cx).map(|mib| memory_cap::beyond_bytes(cx.facts, mib))
    }

    /// The waiver of the driver, of the chip or of control groups; `None` without one.
    pub(super) fn waiver(&self, cx: &MechanismContext<'_>) -> Option<Availability> {
        let (facts, name) = (cx.facts, self.entry.name);
        if facts.driver_major.is_none_or(|major| major < DRIVER_MIN) || facts.cuda < CUDA_MIN {
            let reason =
                format!("memory limits of control groups need driver {DRIVER_MIN} and CUDA 13.4");
            return Some(waived(reason, Some("a newer driver")));
        }
        if facts.compute_capability < CAPABILITY_MIN {
            return Some(waived(
                "memory limits of control groups need compute capability 8.0",
                None,
            ));
        }
        too_little_for_share(cx, "device memory", self.options.memory_pct)
            .or_else(|| whole_device_is_closed(facts))
            .or_else(|| groups_waiver(facts, name).filter(|_| self.by_group()))
    }

    /// The change to the host beside the daemon.
    pub(super) fn change(&self, cx: &MechanismContext<'_>) -> Option<String> {
        let mib = self.set_mib(cx);
        self.by_group().then(|| format!("a control group for each tenant, limited to {mib} MiB"))
    }

    pub(super) fn enter(
        &self,
        cx: &MechanismContext<'_>,
        guard: &mut Guard,
    ) -> Result<InForce, HostError> {
        let (uuid, mib, by) = (&cx.facts.uuid, self.set_mib(cx), self.options.by);
        let tenants = 0..cx.profile.tenants;
        let named = |slot| (namespace(slot), mib);
        let in_file: Vec<_> = tenants.clone().map(named).filter(|_| by == LimitBy::File).collect();
        let has_file = by == LimitBy::File || !self.shares;
        let file = has_file.then(|| mps_control::configuration(self.shares, uuid, &in_file));
        let daemon = mps::start(guard, uuid, mps::Form::Named(file))?;
        match by {
            LimitBy::File => mps_control::has_server(&daemon)?,
            // Without shared contexts the daemon's own socket serves clients.
            LimitBy::Cgroup if !self.shares => {}
            LimitBy::Cgroup | LimitBy::Namespace => mps_control::create_server(&daemon)?,
        }
        let mut set_up = InForce::default();
        for slot in tenants {
            match by {
                LimitBy::Cgroup => set_up.groups.push(limited_group(cx, guard, mib)?),
                LimitBy::Namespace => {
                    mps_control::create_namespace(&daemon, &namespace(slot), mib)?;
                }
                LimitBy::File => {}
            }
        }
        set_up.daemon = Some(daemon);
        Ok(set_up)
    }

    pub(super) fn tenant_env(&self, set_up: &InForce, slot: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        if self.by_group() && !self.shares {
            return env;
        }
        if let Some(folder) = set_up.daemon.as_ref().map(DaemonConfig::server_folder) {
            let folder = match u32::try_from(slot) {
                Ok(slot) if !self.by_group() => folder.join(namespace(slot)),
                _ => folder,
            };
            env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), folder.into());
        }
        env
    }

    /// What its cells must show beside their contexts.
    pub(super) fn required(&self, cx: &MechanismContext<'_>) -> Vec<Requirement> {
        let mut required = vec![mps::ALL_SMS];
        let limit = self.mib(cx);
        required.extend(limit.filter(|_| self.by_group()).map(|_| memory_cap::SHOWN));
        required.extend(limit.map(|_| memory_cap::OVER_LIMIT));
        required.extend(user_program::required(cx));
        required
    }

    pub(super) fn proofs(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let shown = self.mib(cx).filter(|_| self.by_group());
        let shown = shown.map(|mib| memory_cap::shown(mib, observed));
        let mut proofs: Vec<Proof> = shown.into_iter().collect();
        proofs.push(mps::all_sms(observed));
        proofs.extend(memory_cap::over_limit(observed));
        proofs.extend(user_program::has_variables(observed));
        proofs
    }
}

fn namespace(slot: u32) -> String {
    format!("p{slot}")
}

/// The waiver where control groups cannot limit memory.
fn groups_waiver(facts: &HostFacts, table: &str) -> Option<Availability> {
    let namespace = format!("[{table}] by = \"namespace\"");
    if let Some(problem) = &facts.no_nvidia_smi {
        let reason = format!("only nvidia-smi limits a control group here, and {problem}");
        return Some(waived(reason, Some(&namespace)));
    }
    let Some(tree) = &facts.control_groups else {
        let reason = "there are no control groups of version 2";
        return Some(waived(reason, Some(&namespace)));
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
    hard_mib: u64,
) -> Result<std::path::PathBuf, HostError> {
    let tree = cx.facts.control_groups.as_ref();
    let none = || ControlError::new("making a control group", "there are none of version 2");
    let path = tree.ok_or_else(none)?.fresh();
    guard.make(Change::ControlGroup { path: path.clone() })?;
    guard.make(Change::MemoryLimit { group: path.clone(), hard_mib })?;
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
            (
                with(|f| f.no_nvidia_smi = Some("it is not on PATH".to_owned())),
                "only nvidia-smi limits",
                "by = \"namespace\"",
            ),
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
        let plain = with(|f| (f.control_groups, f.allow_reconfigure) = Default::default());
        assert_eq!(waiver(&profile, &plain).0, "", "the server needs none of these");
        profile.mps_memory.memory_pct = 42;
        assert!(waiver(&profile, &plain).0.contains("42 % of the device memory is less than"));
        Ok(())
    }
}
