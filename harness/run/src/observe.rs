//! Observations around a cell: processes on the device, clients of daemons, mapped files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gpubench_host::device::meters::MeterScope;
use gpubench_host::device::nvml::named;
use gpubench_host::device::{Driver, NoAnswer, Nvml};
use gpubench_host::mechanism::{
    InForce, Observation, ProgramObservation, TenantEnv, TenantObservation,
};
use gpubench_record::telemetry::SERVICE;
use gpubench_record::{Condition, XidLine};
use gpubench_workloads::user_victim::process_tree;

use super::RunError;
use super::tenant_process::{self, environment};
use super::tenant_set::TenantSet;
use super::waits::RunClock;

/// Longest wait for a mechanism's daemon: three commands, each with its own limit.
const DAEMON: Duration = Duration::from_secs(70);

/// The servers of a mechanism and their clients, by the mechanism's own list, while the contexts of
/// a cell are open.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    services: Vec<u32>,
    daemon_clients: Option<Result<Vec<u32>, String>>,
}

impl Serving {
    /// Queries the daemon of a mechanism, if there is one. It can block.
    pub fn of(set_up: &InForce) -> Self {
        if set_up.daemon.is_none() {
            return Self::default();
        }
        match set_up.servers() {
            Ok(services) => Self { daemon_clients: set_up.clients(&services), services },
            Err(error) => Self { services: Vec::new(), daemon_clients: Some(Err(error)) },
        }
    }

    /// The servers, by process id.
    pub fn services(&self) -> &[u32] {
        &self.services
    }

    /// Why the daemon does not list its clients, if it does not.
    pub fn error(&self) -> Option<&str> {
        let listed = self.daemon_clients.as_ref()?;
        listed.as_ref().err().map(String::as_str)
    }
}

/// A snapshot at once, of tenants that are not in a cell.
pub async fn snapshot(tenants: &TenantSet) -> Result<Snapshot, RunError> {
    let setup = &tenants.handles().setup;
    let (clock, nvml) = (setup.clock.clone(), Arc::clone(&setup.nvml));
    let scope = tenants.snapshot_scope();
    let take = move || Snapshot::take(&clock, &nvml, &scope);
    let waits = &tenants.handles().waits;
    waits.blocking("observing the mechanism", DAEMON, take).await
}

/// The servers of a mechanism, or why its daemon does not list them.
pub async fn servers(tenants: &TenantSet) -> Result<Result<Vec<u32>, String>, RunError> {
    let set_up = tenants.config().set_up.clone();
    if set_up.daemon.is_none() {
        return Ok(Ok(Vec::new()));
    }
    let waits = &tenants.handles().waits;
    let query = move || set_up.servers();
    waits.blocking("querying the MPS daemon", DAEMON, query).await
}

/// The observation on which every proof rests.
pub fn observation(tenants: &TenantSet, condition: Condition, snapshot: &Snapshot) -> Observation {
    let (on_device, serving) = (&snapshot.on_device, &snapshot.serving);
    // All processes of all lists, which include those of a user's program.
    let listed = [&on_device.listed, &on_device.mps_clients].into_iter().flatten();
    let of_daemon = serving.daemon_clients.iter().flatten();
    let mut listed: Vec<u32> = listed.chain(of_daemon).flatten().copied().collect();
    listed.sort_unstable();
    listed.dedup();
    let mut reports = tenants.observations();
    for report in &mut reports {
        report.mapped = snapshot.mapped.get(&report.pid).cloned().flatten();
    }
    Observation {
        tenants: reports,
        listed_at_ns: snapshot.t_ns,
        attempted_at_ns: tenants.attempted_at_ns(),
        listed: on_device.listed.clone(),
        instances: on_device.instances.clone(),
        mps_clients: on_device.mps_clients.clone(),
        access_attempts: tenants.access_attempts(),
        compute_mode: on_device.compute_mode.clone(),
        native_sm_count: Some(tenants.handles().sm_count()).filter(|&count| count > 0),
        services: serving.services.clone(),
        daemon_clients: serving.daemon_clients.clone(),
        proof_command: snapshot.proof_command.clone(),
        program: tenants.program().map(|pids| of_program(tenants, pids, &listed, snapshot)),
        ..Observation::new(condition, tenants.open_pids(&listed))
    }
}

/// The observation of a user's program with these processes.
fn of_program(
    tenants: &TenantSet,
    pids: Vec<u32>,
    listed: &[u32],
    snapshot: &Snapshot,
) -> ProgramObservation {
    let mut working = pids.clone();
    working.retain(|pid| listed.contains(pid));
    if working.is_empty() {
        working.extend(pids.first());
    }
    let config = tenants.config();
    let handed = config.environments.first().cloned().unwrap_or_default();
    // Without a readable list a library counts as not mapped, which fails the proof.
    let mapped = |pid: &u32| snapshot.mapped.get(pid).cloned().flatten();
    let files = |pid: &u32| (*pid, mapped(pid).unwrap_or_default());
    ProgramObservation {
        mapped: working.iter().map(files).collect(),
        lacking: working.iter().flat_map(|&pid| lacking(pid, &handed)).collect(),
        working,
        handed_instance: config.set_up.instance_id(0),
    }
}

/// The variables of `handed` that a process was started without; all where its environment is not
/// readable.
fn lacking(pid: u32, handed: &TenantEnv) -> Vec<(u32, String)> {
    let present = environment(pid);
    let missing = handed.iter().filter(|(name, value)| present.get(*name) != Some(value));
    missing.map(|(name, _)| (pid, name.to_string_lossy().into_owned())).collect()
}

/// A variable that a process was started with; `None` also where its environment is not readable.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let value = environment(pid).remove(OsStr::new(name))?;
    Some(value.to_string_lossy().into_owned())
}

/// Whether a process is alive. A zombie is not (`Z` and `X` in proc_pid_stat(5)).
pub fn is_alive(pid: u32) -> bool {
    process_tree::Process::of(pid).is_some_and(|process| !process.is_gone)
}

// The processes on the device at one instant, as NVML lists them.

/// NVML's lists; `None` where NVML reports none.
#[derive(Debug, Clone, Default)]
pub struct DeviceProcesses {
    pub listed: Option<Vec<u32>>,
    /// The GPU instance of each of them, where MIG is on.
    pub instances: Vec<(u32, Option<u32>)>,
    pub mps_clients: Option<Vec<u32>>,
    pub compute_mode: Option<String>,
    /// Why NVML lists no processes with a context, if it does not.
    pub failure: Option<String>,
}

impl DeviceProcesses {
    fn now(nvml: &Nvml) -> Self {
        let failed = |hang: NoAnswer| Self { failure: Some(hang.to_string()), ..Self::default() };
        nvml.ask("listing the processes on the GPU by NVML", Self::listed_by).unwrap_or_else(failed)
    }

    fn listed_by(nvml: &Driver) -> Self {
        let (processes, failure) = match nvml.compute_processes() {
            Ok(processes) => (Some(processes), None),
            Err(error) => (None, Some(format!("NVML: {}", named(&error)))),
        };
        let pids =
            |processes: &Vec<(u32, Option<u32>)>| processes.iter().map(|one| one.0).collect();
        Self {
            listed: processes.as_ref().map(pids),
            // Without a list the proofs rest on `listed`, which is absent.
            instances: processes.unwrap_or_default(),
            // A driver without this list reports an error; the proof of MPS then rests on the
            // daemon's list.
            mps_clients: nvml.mps_client_pids().ok(),
            // The proof of a compute mode fails without it.
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
            failure,
        }
    }
}

// What is observed of a mechanism while the samples of a cell are taken: the processes on the
// device, the clients of daemons, and mapped files.

#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub on_device: DeviceProcesses,
    pub serving: Serving,
    /// The files that each tenant process has mapped, where the mechanism preloads a library;
    /// `None` for an unreadable list.
    pub mapped: BTreeMap<u32, Option<Vec<String>>>,
    /// What the command printed that proves a described mechanism, or its error.
    pub proof_command: Option<Result<String, String>>,
    /// The instant after all of it, on the clock of the tenants; `None` without a snapshot.
    pub t_ns: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct SnapshotScope {
    pub set_up: InForce,
    /// Tenant processes of which it reads mapped files.
    pub mapped_of: Vec<u32>,
    /// A tenant that runs a user's program: the mapped files of its processes are read too.
    pub program_of: Option<u32>,
    /// The counters that are read around a closed loop.
    pub meters: MeterScope,
}

impl Snapshot {
    /// Takes one. It can block: a daemon has its own time limit.
    pub fn take(clock: &RunClock, nvml: &Nvml, scope: &SnapshotScope) -> Self {
        let of_program = scope.program_of.map(process_tree::descendants);
        let mapped = scope.mapped_of.iter().copied();
        let mapped = mapped.chain(of_program.unwrap_or_default());
        let on_device = DeviceProcesses::now(nvml);
        let listed = on_device.listed.as_deref().unwrap_or_default();
        Self {
            proof_command: scope.set_up.prove(listed),
            on_device,
            serving: Serving::of(&scope.set_up),
            mapped: mapped.map(|pid| (pid, tenant_process::mapped(pid))).collect(),
            t_ns: Some(clock.now_ns()),
        }
    }
}

/// Processes and reports of the tenants before a cell, which proofs rest on: a killed neighbour has
/// none afterwards.
#[derive(Debug)]
pub struct Before {
    pids: Vec<u32>,
    reports: Vec<TenantObservation>,
}

impl Before {
    pub fn of(tenants: &TenantSet) -> Self {
        Self { pids: tenants.open_pids(&[]), reports: tenants.observations() }
    }

    /// Puts the tenants as they were into the observation of a snapshot before the event.
    pub fn stand_in(self, observation: &mut Observation, snapshot: &Snapshot) {
        (observation.ours, observation.tenants) = (self.pids, self.reports);
        for report in &mut observation.tenants {
            report.mapped = snapshot.mapped.get(&report.pid).cloned().flatten();
        }
    }
}

// Process ids of all started tenants: the kernel's log names processes by id only.

/// Every process that was started for a tenant, by its id. Clones share the registry.
#[derive(Debug, Clone, Default)]
pub struct PidRegistry(Rc<RefCell<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    tenants: BTreeMap<u32, Vec<String>>,
    /// The process that was entered last.
    last: Option<u32>,
}

impl PidRegistry {
    /// Enters a process. Tenants that are threads of one process are entered one after another; an
    /// id that is entered again later belongs to a new process.
    pub fn enter(&self, tenant: &str, pid: u32) {
        let entries = &mut *self.0.borrow_mut();
        let tenants = entries.tenants.entry(pid).or_default();
        if entries.last != Some(pid) {
            tenants.clear();
        }
        tenants.push(tenant.to_owned());
        entries.last = Some(pid);
    }

    /// Writes into each line the tenants of the process that it names.
    pub fn attribute(&self, lines: &mut [XidLine], services: &[u32]) {
        let entries = self.0.borrow();
        for line in lines {
            line.ours = line.pid.map(|pid| {
                if services.contains(&pid) {
                    return vec![SERVICE.to_owned()];
                }
                entries.tenants.get(&pid).cloned().unwrap_or_default()
            });
        }
    }
}

/// The processes of another time namespace than this one, whose monotonic clock can be shifted.
pub fn other_clocks(processes: &[(String, u32)]) -> Result<Vec<String>, String> {
    let Some(own) = time_namespace("self")? else {
        // A kernel before 5.6: all processes have one clock.
        return Ok(Vec::new());
    };
    let mut others = Vec::new();
    for (name, pid) in processes {
        let found = time_namespace(&pid.to_string())?;
        // A process that has ended stamps nothing more.
        if found.is_some_and(|found| found != own) {
            others.push(format!("{name} (process {pid})"));
        }
    }
    Ok(others)
}

/// The inode that names the time namespace of a process; `None` if there is no such process, or the
/// kernel has no time namespaces.
fn time_namespace(process: &str) -> Result<Option<u64>, String> {
    let path = format!("/proc/{process}/ns/time");
    match std::fs::metadata(&path) {
        Ok(meta) => Ok(Some(meta.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use gpubench_host::mechanism::TenantEnv;

    use super::{PidRegistry, XidLine, is_alive, lacking, other_clocks, time_namespace, variable};

    #[test]
    fn the_processes_of_this_program_share_its_clock() {
        let own = ("own".to_owned(), std::process::id());
        let ended = ("ended".to_owned(), u32::MAX);
        assert_eq!(other_clocks(&[own, ended]), Ok(Vec::new()));
        assert_eq!(time_namespace("0"), Ok(None));
    }

    #[test]
    fn a_zombie_is_not_alive() -> std::io::Result<()> {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
        let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
        assert!(is_alive(child.id()));
        child.kill()?;
        while is_alive(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().map(drop)
    }

    #[test]
    fn finds_the_own_program_among_mapped_files() {
        let own = std::env::current_exe().ok();
        let files = super::tenant_process::mapped(std::process::id());
        let own = own.map(|path| path.display().to_string());
        assert!(own.is_some_and(|own| files.is_some_and(|files| files.contains(&own))));
        assert_eq!(super::tenant_process::mapped(0), None);
    }

    #[test]
    fn finds_handed_variables_that_a_process_lacks() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (own, word) = (std::process::id(), "GPUBENCH_TEST_NOT_SET");
        let mut handed = TenantEnv::from([("PATH".into(), path)]);
        assert_eq!(lacking(own, &handed), []);
        let found = variable(own, "PATH").map(OsString::from);
        assert_eq!(found.as_ref(), handed.get(OsStr::new("PATH")));
        assert_eq!(variable(own, word), None);
        handed.insert(word.into(), "1".into());
        assert_eq!(lacking(own, &handed), [(own, word.to_owned())]);
        handed.insert("PATH".into(), "elsewhere".into());
        assert_eq!(lacking(own, &handed).len(), 2);
    }

    #[test]
    fn an_id_belongs_to_the_tenant_that_was_started_last_with_it() {
        let registry = PidRegistry::default();
        for (tenant, pid) in [
            ("victim", 7),
            ("neighbour-1", 8),
            ("victim", 9),
            ("neighbour-1", 9),
            // The id of a process that has ended.
            ("recovery-client", 7),
        ] {
            registry.enter(tenant, pid);
        }
        let tenants_of = |pid: Option<u32>| {
            let mut lines = [XidLine { pid, ..XidLine::default() }];
            registry.attribute(&mut lines, &[20]);
            let [line] = lines;
            line.ours.map(|ours| ours.join(" "))
        };
        for (pid, expected) in [
            (Some(7), Some("recovery-client")),
            (Some(8), Some("neighbour-1")),
            (Some(9), Some("victim neighbour-1")),
            (Some(20), Some("service")),
            (Some(99), Some("")),
            (None, None),
        ] {
            assert_eq!(tenants_of(pid).as_deref(), expected, "{pid:?}");
        }
    }
}
