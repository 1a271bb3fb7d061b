//! The device that a verb works on: a virtual GPU started for it, or a real GPU of this host.
#![expect(
    unsafe_code,
    reason = "the loaded library reads its device's folder from the environment"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpubench_host::device::lock::{GpuLock, LockError};
use gpubench_host::device::nvml::DeviceKey;
use gpubench_host::device::virtual_gpu::{
    DEFAULT, ENV, MACHINE_FILE, Machine, SAMPLE_ENV, TimeMode,
};
use gpubench_host::device::{
    Allotment, DeviceSelector, Driver, Nvml, VirtualGpu, identity, limits,
};
use gpubench_judge::score::MACHINE_HASH;
use gpubench_record::{
    DeviceIdentity, DeviceKind, DeviceSpeed, MACHINE_GUESSES, Plan, RunEvent, regular_file,
};
use gpubench_run::RunClock;
use gpubench_workloads::command::RUN;

use super::recovery::GuardProcess;
use super::verdict;
use crate::error::{ExpectedError, WRITTEN_BYTES_MAX};

/// A device, held until dropped.
pub struct DeviceSession {
    nvml: Arc<Nvml>,
    identity: DeviceIdentity,
    clock: RunClock,
    environment: BTreeMap<OsString, OsString>,
    allotment: Option<Allotment>,
    // Dropped last: the virtual device ends after its last user, the guard process after both.
    _lock: Option<GpuLock>,
    virtual_gpu: Option<VirtualGpu>,
    _guard: GuardProcess,
}

impl DeviceSession {
    pub const fn is_virtual(&self) -> bool {
        self.virtual_gpu.is_some()
    }

    /// The defects that a virtual device plants, one line each; empty on a real device.
    pub fn planted(&self) -> Vec<String> {
        let machine = self.virtual_gpu.as_ref().map(VirtualGpu::machine);
        machine.map_or_else(Vec::new, Machine::planted)
    }

    /// The noise that a virtual device plants, one line each; empty on a real device.
    pub fn noise(&self) -> Vec<String> {
        let machine = self.virtual_gpu.as_ref().map(VirtualGpu::machine);
        machine.map_or_else(Vec::new, Machine::noise_lines)
    }

    /// Where the contents of a virtual device's memory are on disk, in one line; `None` where they
    /// are in memory, and on a real device.
    pub fn memory_on_disk(&self) -> Option<String> {
        let file = self.virtual_gpu.as_ref()?.memory_on_disk()?;
        Some(format!("device memory is on disk, which slows a run: {}", file.display()))
    }

    /// Starts the guard process, starts or finds the device, and takes its lock. `time` applies to
    /// a virtual device; a real device has the wall clock.
    pub fn open(
        device: Option<&DeviceSelector>,
        seed: u64,
        time: TimeMode,
    ) -> Result<Self, ExpectedError> {
        limits::of_session()?;
        let is_virtual = device.is_some_and(DeviceSelector::is_virtual);
        let is_virtual = is_virtual || std::env::var_os(ENV).is_some();
        let guard = GuardProcess::start(is_virtual);
        let mut guard = guard.map_err(|error| ExpectedError::NothingRan {
            reason: format!("the guard process cannot be started: {error}"),
        })?;
        set_variable(&OsString::from(RUN), &guard.run().to_string().into());
        match device {
            Some(DeviceSelector::Virtual(name)) => {
                Self::start_virtual(name.as_deref(), seed, time, guard)
            }
            other => {
                guard.watch();
                Self::find_real(other, guard)
            }
        }
    }

    fn start_virtual(
        name: Option<&str>,
        seed: u64,
        time: TimeMode,
        mut guard: GuardProcess,
    ) -> Result<Self, ExpectedError> {
        let name = name.unwrap_or(DEFAULT);
        let gpu = VirtualGpu::start(name, time, seed).map_err(verdict::from_virtual_gpu)?;
        let mut environment = gpu.environment();
        for (name, value) in &environment {
            set_variable(name, value);
        }
        guard.watch();
        let nvml = Nvml::open(Some(&gpu.library_dir()), &DeviceKey::Index(0))
            .map_err(verdict::from_nvml)?;
        let nvml = Arc::new(nvml);
        let mut identity = identified(&nvml)?;
        name_machine(&mut identity, environment.get(&OsString::from(ENV)));
        let clock = if time == TimeMode::Virtual {
            let device = gpu.open().map_err(verdict::from_virtual_gpu)?;
            RunClock::Virtual(Arc::new(device))
        } else {
            environment.extend(wall_environment(&nvml, identity.kind));
            RunClock::Wall
        };
        Ok(Self {
            nvml,
            identity,
            clock,
            environment,
            allotment: None,
            _lock: None,
            virtual_gpu: Some(gpu),
            _guard: guard,
        })
    }

    fn find_real(
        device: Option<&DeviceSelector>,
        guard: GuardProcess,
    ) -> Result<Self, ExpectedError> {
        let (nvml, allotment) = find_allotted(device)?;
        let nvml = Arc::new(nvml);
        let mut identity = identified(&nvml)?;
        limits::of_memory(identity.memory_mib << 20, false)?;
        // Virtual GPUs of one seed have one UUID; each is locked in its own folder.
        let folder = std::env::var_os(ENV).filter(|_| identity.kind == DeviceKind::Virtual);
        name_machine(&mut identity, folder.as_ref());
        let lock = match folder {
            Some(folder) => GpuLock::take_in(Path::new(&folder), nvml.uuid()),
            None => GpuLock::take(nvml.uuid()),
        };
        let lock = lock.map_err(|error| match error {
            LockError::Held { uuid, holder } => ExpectedError::Busy { gpu: uuid, holder },
            LockError::Io { path, source } => ExpectedError::from_write(&path, source),
        })?;
        let environment = wall_environment(&nvml, identity.kind);
        Ok(Self {
            nvml,
            identity,
            clock: RunClock::Wall,
            environment,
            allotment,
            _lock: Some(lock),
            virtual_gpu: None,
            _guard: guard,
        })
    }

    pub fn nvml(&self) -> Arc<Nvml> {
        Arc::clone(&self.nvml)
    }

    /// Asks NVML.
    /// Fails when a call does not return.
    pub fn ask<T: Send + 'static>(
        &self,
        doing: &str,
        call: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<T, ExpectedError> {
        self.nvml.ask(doing, call).map_err(verdict::no_answer)
    }

    /// The peaks that bind a calibration to this device.
    pub fn peaks(&self) -> Result<BTreeMap<String, f64>, ExpectedError> {
        self.ask("reading the peaks of the device by NVML", Driver::peaks)
    }

    pub const fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    /// The allotment that the device was chosen from; `None` without one, and for a virtual GPU
    /// that was started for this process.
    pub const fn allotment(&self) -> Option<&Allotment> {
        self.allotment.as_ref()
    }

    pub fn clock(&self) -> RunClock {
        self.clock.clone()
    }

    /// The environment variables with which tenants find the device.
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.environment.clone()
    }
}

pub(super) fn identified(nvml: &Nvml) -> Result<DeviceIdentity, ExpectedError> {
    let identity = nvml.ask("asking NVML what the device is", identity::identify);
    identity.map_err(verdict::no_answer)?.map_err(verdict::from_nvml)
}

/// The variables of tenants on the wall clock.
fn wall_environment(nvml: &Nvml, kind: DeviceKind) -> BTreeMap<OsString, OsString> {
    // Tenants see this device alone, as ordinal 0.
    let visible = OsString::from(nvml.uuid());
    let mut environment = BTreeMap::from([(OsString::from("CUDA_VISIBLE_DEVICES"), visible)]);
    if kind == DeviceKind::Virtual {
        // Tenants do not read the results of timed kernels, so launches may be sampled.
        environment.insert(OsString::from(SAMPLE_ENV), OsString::from("1"));
    }
    environment
}

/// Finds a real device without taking its lock, for verbs that change nothing.
pub fn find(device: Option<&DeviceSelector>) -> Result<Nvml, ExpectedError> {
    find_allotted(device).map(|(nvml, _)| nvml)
}

/// The device, and the allotment that it was chosen from.
fn find_allotted(
    device: Option<&DeviceSelector>,
) -> Result<(Nvml, Option<Allotment>), ExpectedError> {
    let allotment = Allotment::read().map_err(verdict::from_visible)?;
    let which = match (device, &allotment) {
        (Some(DeviceSelector::Gpu(uuid) | DeviceSelector::Mig(uuid)), _) => {
            DeviceKey::Uuid(uuid.clone())
        }
        (Some(DeviceSelector::Index(index)), _) => DeviceKey::Index(*index),
        (Some(DeviceSelector::PciAddress(address)), _) => DeviceKey::PciAddress(address.clone()),
        (_, Some(allotment)) => DeviceKey::Uuid(allotment.first().to_owned()),
        (_, None) => DeviceKey::Index(0),
    };
    let nvml = Nvml::open(None, &which).map_err(verdict::from_nvml)?;
    match allotment.as_ref().and_then(|one| one.refusal(&nvml)) {
        Some(problem) => Err(ExpectedError::usage(
            problem,
            Some("name one of these devices, or unset the variable"),
        )),
        None => Ok((nvml, allotment)),
    }
}

/// Adds the hash of a virtual device's machine file to its facts: the UUID follows from the seed
/// alone, so two machines can have the same. And the constants that the file marks as guessed.
fn name_machine(identity: &mut DeviceIdentity, folder: Option<&OsString>) {
    let file = folder.map(|folder| Path::new(folder).join(MACHINE_FILE));
    // Without the hash, trials of this record are not pooled with trials of other records.
    if let Some(text) = file.and_then(|file| regular_file::read(&file, WRITTEN_BYTES_MAX).ok()) {
        let hash = blake3::hash(&text).to_hex().to_string();
        identity.facts.insert(MACHINE_HASH.to_owned(), hash);
        let machine = String::from_utf8_lossy(&text).parse::<toml::Table>().unwrap_or_default();
        let guesses = machine.get("guesses").and_then(toml::Value::as_array);
        let guesses = guesses.into_iter().flatten().filter_map(toml::Value::as_str);
        let guesses = Vec::from_iter(guesses).join(" ");
        if !guesses.is_empty() {
            identity.facts.insert(MACHINE_GUESSES.to_owned(), guesses);
        }
    }
}

fn set_variable(name: &OsString, value: &OsString) {
    // SAFETY: called before the event loop and any thread of this process is started.
    unsafe { std::env::set_var(name, value) };
}

// A GPU on which other processes compute is refused before anything starts: every cell beside them
// would be excluded, and faults and changed settings would harm them.

/// Waits for processes of a dead run, which its guard process or this run has just ended.
const WAITS: u32 = 30;
const STEP: Duration = Duration::from_millis(100);
/// Processes that the message names.
const NAMED_MAX: usize = 8;

/// Checks that no process has a context on the device.
pub(super) fn check(session: &DeviceSession) -> Result<(), ExpectedError> {
    let mut pids = Vec::new();
    for _ in 0..WAITS {
        // Without a list the proofs of the mechanisms say so.
        let listed = session.ask("listing the processes on the GPU", Driver::compute_pids)?;
        pids = listed.unwrap_or_default();
        if pids.is_empty() {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    Err(ExpectedError::Busy { gpu: session.identity().uuid.clone(), holder: holders(&pids) })
}

fn holders(pids: &[u32]) -> String {
    let name = |pid: &u32| {
        // It may have ended, or belong to another namespace.
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let comm = comm.map_or_else(|_| String::new(), |comm| format!(" ({})", comm.trim()));
        format!("{pid}{comm}")
    };
    let named: Vec<String> = pids.iter().take(NAMED_MAX).map(name).collect();
    let more = match pids.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let process = if pids.len() == 1 { "process" } else { "processes" };
    format!("other work: {process} {}{more}", named.join(", "))
}

// The speed of the device during a run, from its events: how it was heated, and what the check
// kernel said before and after each cell.

/// Heating, loads and measurements; `None` where the plan has no soak.
pub(super) fn of_run(plan: &Plan, events: &[RunEvent]) -> Option<DeviceSpeed> {
    plan.soak?;
    let mut found = DeviceSpeed::default();
    for event in events {
        match event {
            RunEvent::Heated { heating } => found.heating = Some(heating.clone()),
            RunEvent::KeptWarm { .. } => found.kept_warm += 1,
            RunEvent::SpeedChecked { check } => found.checks.push(*check),
            _ => {}
        }
    }
    Some(found)
}

/// The speed before and after each cell over the first speed of that start of the harness, as
/// logarithms: each start has a check kernel of its own length. A cell without a measurement on
/// either side is absent.
pub(super) fn brackets(events: &[RunEvent]) -> BTreeMap<&str, [f64; 2]> {
    starts(events).flat_map(of_one_start).collect()
}

pub(super) fn starts(events: &[RunEvent]) -> impl Iterator<Item = &[RunEvent]> {
    events.split(|event| matches!(event, RunEvent::Resumed { .. }))
}

fn of_one_start(events: &[RunEvent]) -> BTreeMap<&str, [f64; 2]> {
    let mut found = BTreeMap::new();
    let (mut first, mut before) = (None, None);
    let mut between: Vec<&str> = Vec::new();
    for event in events {
        match event {
            RunEvent::CellEnded { id, .. } => between.push(id),
            RunEvent::SpeedChecked { check } => {
                let log = check.rate_per_s.ln();
                let now = log - *first.get_or_insert(log);
                let ended = between.drain(..);
                match before.replace(now) {
                    Some(before) => found.extend(ended.map(|id| (id, [before, now]))),
                    None => drop(ended),
                }
            }
            _ => {}
        }
    }
    found.retain(|_, both| both.iter().all(|log| log.is_finite()));
    found
}

#[cfg(test)]
mod tests {
    use gpubench_record::{RunEvent, SpeedCheck};

    use super::{brackets, holders};

    #[test]
    fn processes_are_named_with_their_programs() {
        let own = std::process::id();
        let text = holders(&[own]);
        assert!(text.starts_with(&format!("other work: process {own} (")), "{text}");
        let many: Vec<u32> = (0..10).map(|at| u32::MAX - at).collect();
        let text = holders(&many);
        assert!(text.starts_with("other work: processes 4294967295, "), "{text}");
        assert!(text.ends_with(" and 2 more"), "{text}");
    }

    fn check(rate_per_s: f64) -> RunEvent {
        RunEvent::SpeedChecked {
            check: SpeedCheck { at_ns: 0, rate_per_s, sm_clock_mhz: None, temperature_c: None },
        }
    }

    fn ended(id: &str) -> RunEvent {
        RunEvent::CellEnded {
            id: id.to_owned(),
            tenants: Vec::new(),
            failure: None,
            other_processes: None,
            throttle_reasons: None,
            xids: None,
            xid_lines: None,
            cpu_steal_ratio: None,
            surroundings: Box::default(),
        }
    }

    #[test]
    fn a_measurement_of_another_start_is_no_bracket() {
        let resumed = || -> RunEvent {
            let text = r#"{"event": "resumed", "left": {"cells": [], "superseded": [],
                "trials_again": []}, "interruption": {"last_event_at": "", "blocks_before": 1,
                "blocks_after": 1, "superseded": 0, "boot_ids": [null, null], "provenance":
                {"gpubench": "", "started_at": "", "command": [], "clock": "wall"}}}"#;
            serde_json::from_str(text).expect("an event")
        };
        let events =
            [check(50.0), ended("cut"), resumed(), check(100.0), ended("whole"), check(100.0)];
        let found = brackets(&events);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("whole", [0.0; 2])]);
    }

    #[test]
    fn a_cell_lies_between_the_measurements_around_it() {
        let events = [
            ended("none before"),
            check(50.0),
            ended("a"),
            ended("b"),
            check(45.0),
            check(40.0),
            ended("c"),
            check(50.0),
            ended("none after"),
        ];
        let found = brackets(&events);
        let names: Vec<&str> = found.keys().copied().collect();
        assert_eq!(names, ["a", "b", "c"]);
        let near = |id: &str, want: [f64; 2]| {
            let both = found[id].iter().zip(want);
            assert!(both.into_iter().all(|(log, want)| (log - want.ln()).abs() < 1e-12), "{id}");
        };
        near("a", [1.0, 0.9]);
        near("b", [1.0, 0.9]);
        near("c", [0.8, 1.0]);
    }
}
