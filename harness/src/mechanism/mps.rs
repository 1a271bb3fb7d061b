//! `mps`: the contexts of all tenants are joined by a server, and their kernels run side by side.
//!
//! A control daemon of our own serves the one device, in a private folder that tenants are told by
//! `CUDA_MPS_PIPE_DIRECTORY`; it needs no rights and changes nothing for anybody else, so native
//! cells run beside the idle server. It is started with `nvidia-cuda-mps-control -d` (there is no
//! `nvidia-smi -mps 1`), before any tenant, and ends with `quit`. `nvidia-smi` has no column
//! "Current Users" either: it marks a client by the type `M+C`, and the daemon lists its clients
//! (`get_client_list PID`). On a Kubernetes node it is `sharing.mps.resources` in the device
//! plugin's configuration, which has no keys named `cudaProc`.
//!
//! The vendor recommends the compute mode EXCLUSIVE_PROCESS with it, which MPS does not need: the
//! server is then the one process that is let in, and no process bypasses it. As an option the mode
//! is set before the daemon starts and restored after it has ended. A process that is no client
//! must then be refused a context, which is proved by an access attempt.
//!
//! A client that does not reach its daemon silently runs without it. The proof is therefore that
//! the daemon itself lists every tenant among its clients, and that NVML, where it lists MPS
//! clients, lists no tenant less.

#[cfg(test)]
mod tests;

use gpubench_record::{Proof, Sharing, SmNumbers};

use super::host::{Change, ControlError, DaemonPlace, Guard, HostError};
use super::observation::proof_of;
use super::waivers::{device_is_cut, prohibited, waived};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, Tenants, exclusive_process, private,
};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct Mps;

/// First compute capability whose clients have address spaces of their own (CUDA Multi-Process
/// Service, release 615, "When to use MPS").
const CAPABILITY_MIN: (i32, i32) = (7, 0);
/// Most clients of a device since CUDA 13.1, and before (the same: CUDA 13.1 raised it).
const CLIENTS_MAX: u32 = 60;
const CLIENTS_MAX_BEFORE_13_1: u32 = 48;
const CUDA_13_1: i32 = 13010;
/// What every one of them changes on the host.
pub(super) const DAEMON: &str = "an MPS daemon of its own, in a private folder";

/// What is known of it without a host.
const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps",
    summary: "kernels of all processes run side by side through an MPS server of their own",
    group: "mps",
    reconfigures: false,
    options: &[OptionEntry {
        key: "exclusive_process",
        summary: "compute mode EXCLUSIVE_PROCESS under every MPS server of the whole device",
        accepted: &["false", "true"],
    }],
    sharing: Sharing::InSpace,
    tenants: Tenants::Processes,
    mps_daemon: true,
    accounting_library: false,
    sm_numbers: SmNumbers::OfDevice,
    settles_ns: 0,
    unprotected: Some(|_| ()),
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
            refuses_outsiders: is_guarded(cx),
            memory_limit_bytes: None,
            compute_limit: None,
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        enter_mode(cx, guard)?;
        let daemon = start(guard, &cx.facts.uuid, Form::Plain)?;
        Ok(InForce {
            daemon: Some(daemon),
            ..InForce::default()
        })
    }

    fn tenant_env(&self, _cx: &MechanismContext<'_>, set_up: &InForce, _place: usize) -> TenantEnv {
        client_env(set_up)
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        proofs(cx, observed)
    }
}

/// Whether the compute mode must refuse every process but the server.
pub(super) fn is_guarded(cx: &MechanismContext<'_>) -> bool {
    cx.profile.mps.exclusive_process
}

/// A variant's text: the mechanism's own options, and the one that all of them have.
pub(super) fn variant(cx: &MechanismContext<'_>, name: &str, mut options: Vec<String>) -> String {
    if is_guarded(cx) {
        options.push("exclusive-process".to_owned());
    }
    if options.is_empty() {
        return name.to_owned();
    }
    format!("{name}[{}]", options.join(","))
}

/// What it changes on the host, one line each.
pub(super) fn changes(cx: &MechanismContext<'_>) -> Vec<String> {
    let mut changes = vec![DAEMON.to_owned()];
    if is_guarded(cx) {
        changes.extend(exclusive_process::change(cx));
    }
    changes
}

/// Sets the compute mode, where it must refuse every process but the server.
pub(super) fn enter_mode(cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<(), HostError> {
    if is_guarded(cx) {
        exclusive_process::set(guard)?;
    }
    Ok(())
}

/// The proofs of the clients and, where every process but the server must be refused, of the
/// outsider.
pub(super) fn proofs(cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
    let mut proofs = clients(observed);
    if !proofs.is_empty() && is_guarded(cx) {
        proofs.push(exclusive_process::refused(observed));
        proofs.push(exclusive_process::mode(observed));
    }
    proofs
}

/// The stage of every mechanism that runs under a plain daemon.
pub(super) fn stage(cx: &MechanismContext<'_>) -> HostStage {
    // Where one process alone is let in, a server that waits keeps native tenants out.
    let mode = cx.facts.compute_mode.as_deref();
    let alone = is_guarded(cx) || mode == Some(exclusive_process::MODE);
    HostStage {
        key: variant(cx, "mps", Vec::new()),
        allows_native: !alone,
    }
}

/// Whether a daemon can serve the whole device here.
pub(super) fn availability(cx: &MechanismContext<'_>) -> Availability {
    let facts = cx.facts;
    // EXCLUSIVE_PROCESS is not in the way: the server is one process, whatever its clients are.
    if let Some(waived) = device_is_cut(facts).or_else(|| prohibited(facts)) {
        return waived;
    }
    daemon_available(cx)
        .or_else(|| unguarded(cx))
        .unwrap_or(Availability::Available)
}

/// Why the server cannot be the one that is let in, where that is asked for; nothing if it can.
fn unguarded(cx: &MechanismContext<'_>) -> Option<Availability> {
    if !is_guarded(cx) {
        return None;
    }
    exclusive_process::not_settable(cx.facts, "the server could not be the only one")
}

/// Why no daemon can serve anything here; nothing if one can.
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
    let most = if facts.cuda >= CUDA_13_1 {
        CLIENTS_MAX
    } else {
        CLIENTS_MAX_BEFORE_13_1
    };
    (cx.profile.tenants > most).then(|| {
        waived(
            format!("an MPS server takes {most} clients"),
            Some("fewer tenants"),
        )
    })
}

/// What a daemon is started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Its server comes with the first client.
    Plain,
    /// SMs are partitioned.
    Static,
    /// Of the third version: its servers have names.
    Named,
}

/// Starts a daemon in a private folder of its own.
pub(super) fn start(guard: &mut Guard, device: &str, form: Form) -> Result<DaemonPlace, HostError> {
    let folder = private::short_folder().ok_or_else(|| {
        let what = "no private folder is short enough for its sockets";
        ControlError::new("starting the MPS daemon", what)
    })?;
    let daemon = DaemonPlace {
        pipes: folder.join("pipe"),
        logs: folder.join("log"),
        device: device.to_owned(),
        static_partitions: form == Form::Static,
        protocol: if form == Form::Named { 3 } else { 2 },
    };
    for path in [&folder, &daemon.pipes, &daemon.logs] {
        guard.make(Change::Folder { path: path.clone() })?;
    }
    guard.make(Change::MpsDaemon {
        daemon: daemon.clone(),
    })?;
    Ok(daemon)
}

/// The variables by which a tenant finds the daemon. The device stays chosen by its UUID, which
/// means the same to daemon and client; a number would not.
pub(super) fn client_env(set_up: &InForce) -> TenantEnv {
    let mut env = TenantEnv::new();
    if let Some(daemon) = &set_up.daemon {
        env.insert(
            "CUDA_MPS_PIPE_DIRECTORY".into(),
            daemon.pipes.clone().into(),
        );
        env.insert("CUDA_MPS_LOG_DIRECTORY".into(), daemon.logs.clone().into());
    }
    env
}

/// Whether every tenant is a client of our daemon.
pub(super) fn clients(observed: &Observation) -> Vec<Proof> {
    const CHECK: &str = "every tenant is a client of our MPS daemon";
    if observed.condition.is_native() || observed.ours.len() < 2 {
        return Vec::new();
    }
    let missing = |listed: &[u32]| -> Vec<u32> {
        let absent = observed.ours.iter().filter(|pid| !listed.contains(pid));
        absent.copied().collect()
    };
    let mut proofs = vec![match &observed.daemon_clients {
        None => proof_of(CHECK, false, "there is no daemon".to_owned()),
        Some(Err(error)) => proof_of(CHECK, false, error.clone()),
        Some(Ok(listed)) => {
            let missing = missing(listed);
            let evidence = if missing.is_empty() {
                format!("the daemon lists all of {:?}", observed.ours)
            } else {
                format!("the daemon lists {listed:?}, without {missing:?}")
            };
            proof_of(CHECK, missing.is_empty(), evidence)
        }
    }];
    // NVML's numbers can be those of another process namespace, in which case they show nothing.
    if let Some(listed) = observed.mps_clients.as_ref()
        && listed.iter().any(|pid| observed.ours.contains(pid))
    {
        let missing = missing(listed);
        let evidence = format!("NVML lists MPS clients {listed:?}, missing are {missing:?}");
        let check = "NVML lists every tenant as an MPS client";
        proofs.push(proof_of(check, missing.is_empty(), evidence));
    }
    proofs
}
