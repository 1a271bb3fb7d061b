//! `mps`: a server joins the contexts of all tenants, and their kernels run side by side.
//!
//! Our control daemon serves the one device, in a private folder that `CUDA_MPS_PIPE_DIRECTORY` of
//! each tenant names. It needs no privileges and affects no other process, so native cells run
//! beside the idle server. `nvidia-cuda-mps-control -d` starts it before any tenant (there is no
//! `nvidia-smi -mps 1`), and `quit` ends it. `nvidia-smi` has no column "Current Users" either: it
//! marks a client by the type `M+C`, and the daemon lists its clients (`get_client_list PID`). On a
//! Kubernetes node it is `sharing.mps.resources` in the device plugin's configuration, which has no
//! keys named `cudaProc`.
//!
//! The vendor recommends the compute mode EXCLUSIVE_PROCESS with it, which MPS does not need: the
//! server is then the one admitted process, and no process bypasses it. As an option the mode is
//! set before the daemon starts and restored after the daemon has ended. The device must then
//! refuse a process that is no client, which an access attempt proves.
//!
//! A client that does not reach its daemon runs without it and reports nothing. The proof is
//! therefore that the daemon lists every tenant as a client, and that NVML does too if it lists MPS
//! clients.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::facts::EXCLUSIVE_PROCESS;
use super::host::{Change, ControlError, DaemonConfig, Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::waivers::{waived, whole_device_is_closed};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, exclusive_process, interface,
};

#[derive(Debug)]
pub struct Mps;

/// First compute capability whose clients have address spaces of their own (CUDA Multi-Process
/// Service, release 615, "When to use MPS").
const CAPABILITY_MIN: (i32, i32) = (7, 0);
/// Maximum number of clients of a device since CUDA 13.1, and before (the same document).
const CLIENTS_MAX: u32 = 60;
const CLIENTS_MAX_BEFORE_13_1: u32 = 48;
const CUDA_13_1: i32 = 13010;
/// The change to the host of every mechanism with a daemon.
pub(super) const DAEMON: &str = "an MPS daemon of its own, in a private folder";

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps",
    summary: "kernels of all processes run side by side through an MPS server of their own",
    about: About {
        since: "any driver",
        needs: "compute capability 7.0",
        changes: "an MPS daemon",
        proof: "the daemon lists every tenant as a client, and each sees all SMs",
        deployed_by: "the Kubernetes device plugin (sharing.mps), DRA",
    },
    group: "mps",
    options: &[OptionEntry {
        key: "exclusive_process",
        summary: "compute mode EXCLUSIVE_PROCESS under every MPS server of the whole device",
        accepted: &["false", "true"],
    }],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    unprotected: Some(|_| ()),
    ..USUAL
};

impl Mechanism for Mps {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        availability(cx)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        Configuration {
            variant: variant(cx, ENTRY.name, Vec::new()),
            host_changes: changes(cx),
            stage: Some(stage(cx)),
            checks: OpeningChecks::default(),
            refuses_outsiders: is_exclusive(cx),
            memory_limit_bytes: None,
            compute_limit: None,
            required: [required(cx), vec![ALL_SMS]].concat(),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        enter_mode(cx, guard)?;
        let daemon = start(guard, &cx.facts.uuid, Form::Plain)?;
        Ok(InForce { daemon: Some(daemon), ..InForce::default() })
    }

    fn tenant_env(&self, _cx: &MechanismContext<'_>, set_up: &InForce, _slot: usize) -> TenantEnv {
        client_env(set_up)
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = proofs(cx, observed);
        if !proofs.is_empty() {
            proofs.push(all_sms(observed));
        }
        proofs
    }
}

/// Whether the compute mode must refuse every process but the server.
pub(super) fn is_exclusive(cx: &MechanismContext<'_>) -> bool {
    cx.profile.mps.exclusive_process
}

pub(super) fn variant(cx: &MechanismContext<'_>, name: &str, mut options: Vec<String>) -> String {
    if is_exclusive(cx) {
        options.push("exclusive-process".to_owned());
    }
    if options.is_empty() {
        return name.to_owned();
    }
    format!("{name}[{}]", options.join(","))
}

/// The changes to the host, one line each.
pub(super) fn changes(cx: &MechanismContext<'_>) -> Vec<String> {
    let mut changes = vec![DAEMON.to_owned()];
    if is_exclusive(cx) {
        changes.extend(exclusive_process::change(cx));
    }
    changes
}

/// Sets the compute mode, if it must refuse every process but the server.
pub(super) fn enter_mode(cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<(), HostError> {
    if is_exclusive(cx) {
        exclusive_process::set(guard)?;
    }
    Ok(())
}

/// What every cell with a daemon must show.
pub(super) fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let mut required = vec![CLIENTS];
    if is_exclusive(cx) {
        required.extend([exclusive_process::REFUSED, exclusive_process::IN_MODE]);
    }
    required
}

/// The proofs of the clients and, under the exclusive compute mode, of the refused outsider.
pub(super) fn proofs(cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
    let mut proofs = clients(observed);
    if !proofs.is_empty() && is_exclusive(cx) {
        proofs.push(exclusive_process::refused(observed));
        proofs.push(exclusive_process::mode(observed));
    }
    proofs
}

pub(super) fn stage(cx: &MechanismContext<'_>) -> HostStage {
    // If the device admits one process, an idle server excludes native tenants.
    let mode = cx.facts.compute_mode.as_deref();
    let admits_one = is_exclusive(cx) || mode == Some(EXCLUSIVE_PROCESS);
    HostStage { key: variant(cx, "mps", Vec::new()), allows_native: !admits_one }
}

/// Whether a daemon can serve the whole device here.
pub(super) fn availability(cx: &MechanismContext<'_>) -> Availability {
    let facts = cx.facts;
    // EXCLUSIVE_PROCESS is allowed: the server is one process for all clients.
    if let Some(waived) = whole_device_is_closed(facts) {
        return waived;
    }
    daemon_available(cx).or_else(|| exclusive_mode_waiver(cx)).unwrap_or(Availability::Available)
}

/// The waiver where the exclusive compute mode is requested and cannot be set.
fn exclusive_mode_waiver(cx: &MechanismContext<'_>) -> Option<Availability> {
    if !is_exclusive(cx) {
        return None;
    }
    exclusive_process::not_settable(cx.facts, "the server could not be the only one")
}

/// The waiver where no daemon can run here; `None` if one can.
pub(super) fn daemon_available(cx: &MechanismContext<'_>) -> Option<Availability> {
    let facts = cx.facts;
    if facts.mps_control.is_none() {
        return Some(waived(
            "nvidia-cuda-mps-control is not on PATH",
            Some("install the driver's MPS tools (in containers: NVIDIA_DRIVER_CAPABILITIES)"),
        ));
    }
    if facts.compute_capability < CAPABILITY_MIN {
        let (major, minor) = facts.compute_capability;
        return Some(waived(
            format!("compute capability {major}.{minor} has MPS clients in one address space"),
            None,
        ));
    }
    let max_clients = if facts.cuda >= CUDA_13_1 { CLIENTS_MAX } else { CLIENTS_MAX_BEFORE_13_1 };
    (cx.profile.tenants > max_clients).then(|| {
        waived(format!("an MPS server has at most {max_clients} clients"), Some("fewer tenants"))
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Its server starts with the first client.
    Plain,
    Static,
    /// With version 3 of the interface, in which servers have names, and the text of a
    /// configuration file.
    Named(Option<String>),
}

/// Starts a daemon in a private folder of its own.
pub(super) fn start(
    guard: &mut Guard,
    device: &str,
    form: Form,
) -> Result<DaemonConfig, HostError> {
    let folder = interface::short_folder().ok_or_else(|| {
        let what = "no private folder is short enough for its sockets";
        ControlError::new("starting the MPS daemon", what)
    })?;
    let daemon = DaemonConfig {
        pipes: folder.join("pipe"),
        logs: folder.join("log"),
        device: device.to_owned(),
        static_partitions: form == Form::Static,
        protocol: if matches!(form, Form::Named(_)) { 3 } else { 2 },
        configuration: match form {
            Form::Named(text) => text,
            Form::Plain | Form::Static => None,
        },
    };
    for path in [&folder, &daemon.pipes, &daemon.logs] {
        guard.make(Change::Folder { path: path.clone() })?;
    }
    guard.make(Change::MpsDaemon { daemon: daemon.clone() })?;
    Ok(daemon)
}

/// The variables with which a tenant finds the daemon. The UUID still selects the device: unlike an
/// index it means the same to daemon and client.
pub(super) fn client_env(set_up: &InForce) -> TenantEnv {
    let mut env = TenantEnv::new();
    if let Some(daemon) = &set_up.daemon {
        env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), daemon.pipes.clone().into());
        env.insert("CUDA_MPS_LOG_DIRECTORY".into(), daemon.logs.clone().into());
    }
    env
}

// Proofs of every mechanism with an MPS daemon: its clients, and the SMs that they see.

pub(in crate::mechanism) const CLIENTS: Requirement =
    Requirement::during("every tenant is a client of our MPS daemon");
/// NVML lists every tenant as a client. Its process ids can be of another PID namespace and then
/// show nothing, so no cell needs this proof.
const NVML_CLIENTS: Requirement = Requirement::during("NVML lists every tenant as an MPS client");
/// No percentage limits a tenant.
pub(in crate::mechanism) const ALL_SMS: Requirement =
    Requirement::at_open("every tenant sees all SMs of the device");

/// Whether every tenant is a client of our daemon.
pub(in crate::mechanism) fn clients(observed: &Observation) -> Vec<Proof> {
    if observed.condition.is_native() {
        return Vec::new();
    }
    let missing = |listed: &[u32]| -> Vec<u32> {
        let absent = observed.ours.iter().filter(|pid| !listed.contains(pid));
        absent.copied().collect()
    };
    let mut proofs = vec![match &observed.daemon_clients {
        None => CLIENTS.proof(false, "there is no daemon"),
        Some(Err(error)) => CLIENTS.proof(false, error),
        Some(Ok(listed)) => {
            let missing = missing(listed);
            let evidence = if missing.is_empty() {
                format!("the daemon lists all of {:?}", observed.ours)
            } else {
                format!("the daemon lists {listed:?}, without {missing:?}")
            };
            CLIENTS.proof(missing.is_empty(), evidence)
        }
    }];
    if let Some(listed) = observed.mps_clients.as_ref()
        && listed.iter().any(|pid| observed.ours.contains(pid))
    {
        let missing = missing(listed);
        let evidence = format!("NVML lists MPS clients {listed:?}, without {missing:?}");
        proofs.push(NVML_CLIENTS.proof(missing.is_empty(), evidence));
    }
    proofs
}

/// Whether every tenant has the SMs of the whole device. A percentage that a tenant inherits, or
/// that the daemon has as its default, limits a client without a trace in any list.
pub(in crate::mechanism) fn all_sms(observed: &Observation) -> Proof {
    let Some(all) = observed.native_sm_count else {
        return ALL_SMS.proof(false, "no tenant has reported the SMs of the whole device");
    };
    let reported = observed.tenants.iter().map(|t| (t.name(), t.number("sm_count")));
    let reported: Vec<_> = reported.collect();
    let has_all = |(_, count): &(String, Option<u64>)| *count == Some(u64::from(all));
    let holds = !reported.is_empty() && reported.iter().all(has_all);
    let text = |(name, count): &(String, Option<u64>)| match count {
        Some(count) => format!("{name} {count}"),
        None => format!("{name} nothing"),
    };
    let reported: Vec<String> = reported.iter().map(text).collect();
    ALL_SMS.proof(holds, format!("of {all} SMs; reported: {}", reported.join(", ")))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::clients;
    use crate::mechanism::Observation;

    #[test]
    fn the_daemon_must_list_every_tenant() {
        for (daemon, nvml, expected) in [
            (Some(Ok(vec![7, 8])), None, vec![true]),
            (Some(Ok(vec![7, 8])), Some(vec![7, 8]), vec![true, true]),
            (Some(Ok(vec![7, 8])), Some(vec![7]), vec![true, false]),
            (Some(Ok(vec![7, 8])), Some(vec![30_001]), vec![true]),
            (Some(Ok(vec![7])), Some(vec![7, 8]), vec![false, true]),
            (Some(Err("no answer".to_owned())), None, vec![false]),
            (None, Some(vec![7, 8]), vec![false, true]),
        ] {
            let observed = Observation {
                daemon_clients: daemon,
                mps_clients: nvml,
                ..Observation::new(Condition::C, vec![7, 8])
            };
            let holds: Vec<bool> = clients(&observed).iter().map(|proof| proof.holds).collect();
            assert_eq!(holds, expected, "{observed:?}");
        }
    }
}
