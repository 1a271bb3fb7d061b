//! The device that a verb works on: the virtual GPU, started for it, or a real one, found.
#![expect(
    unsafe_code,
    reason = "the loaded library reads its device's folder from the environment"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use gpubench_record::{DeviceIdentity, DeviceKind, Provenance};
use gpubench_virtual_gpu::launch::SAMPLE_ENV;
use gpubench_virtual_gpu::machine;
use gpubench_virtual_gpu::session::{ENV, MACHINE_FILE, TimeMode};

use super::device::DeviceSelector;
use super::timer;
use crate::device::lock::{GpuLock, LockError};
use crate::device::nvml::{self, AskError, Which};
use crate::device::{Nvml, VirtualGpu, identity, virtual_gpu::VirtualGpuError};
use crate::error::ExpectedError;
use crate::run::{RunClock, rfc3339_now};
use crate::score::MACHINE_HASH;

/// A device, held until dropped.
pub struct Bench {
    nvml: Arc<Nvml>,
    identity: DeviceIdentity,
    clock: RunClock,
    environment: BTreeMap<OsString, OsString>,
    // Dropped last: the device goes when nobody uses it any more.
    _lock: Option<GpuLock>,
    virtual_gpu: Option<VirtualGpu>,
}

impl Bench {
    /// What a virtual device plants beside the ordinary, one line each; nothing on a real one.
    #[must_use]
    pub fn planted(&self) -> Vec<String> {
        let machine = self.virtual_gpu.as_ref().map(VirtualGpu::machine);
        machine.map_or_else(Vec::new, machine::Machine::planted)
    }

    /// The noise that a virtual device plants, one line each; nothing on a real one.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        let machine = self.virtual_gpu.as_ref().map(VirtualGpu::machine);
        machine.map_or_else(Vec::new, machine::Machine::noise_lines)
    }

    /// Starts or finds the device, and takes its lock. `time` is that of a virtual one; a real one
    /// has the wall clock alone.
    ///
    /// # Errors
    /// When there is none, or somebody else has it.
    pub fn open(
        device: Option<&DeviceSelector>,
        seed: u64,
        time: TimeMode,
    ) -> Result<Self, ExpectedError> {
        match device {
            Some(DeviceSelector::Virtual(name)) => Self::start_virtual(name.as_deref(), seed, time),
            other => Self::find_real(other),
        }
    }

    fn start_virtual(name: Option<&str>, seed: u64, time: TimeMode) -> Result<Self, ExpectedError> {
        let name = name.unwrap_or(machine::DEFAULT);
        let gpu = VirtualGpu::start(name, time, seed).map_err(virtual_error)?;
        let mut environment = gpu.environment();
        for (name, value) in &environment {
            set_variable(name, value);
        }
        let nvml = Nvml::open(Some(&gpu.library_dir()), &Which::Index(0)).map_err(ask_error)?;
        let mut identity = identity::identify(&nvml).map_err(ask_error)?;
        name_machine(&mut identity, environment.get(&OsString::from(ENV)));
        let clock = if time == TimeMode::Virtual {
            let device = gpu.open().map_err(virtual_error)?;
            RunClock::Virtual(Arc::new(device))
        } else {
            environment.extend(wall_environment(&nvml, identity.kind));
            RunClock::Wall
        };
        Ok(Self {
            nvml: Arc::new(nvml),
            identity,
            clock,
            environment,
            _lock: None,
            virtual_gpu: Some(gpu),
        })
    }

    fn find_real(device: Option<&DeviceSelector>) -> Result<Self, ExpectedError> {
        let nvml = look(device)?;
        let mut identity = identity::identify(&nvml).map_err(ask_error)?;
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
            nvml: Arc::new(nvml),
            identity,
            clock: RunClock::Wall,
            environment,
            _lock: Some(lock),
            virtual_gpu: None,
        })
    }

    /// Its counters.
    #[must_use]
    pub fn nvml(&self) -> Arc<Nvml> {
        Arc::clone(&self.nvml)
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    /// The clock of its tenants.
    #[must_use]
    pub fn clock(&self) -> RunClock {
        self.clock.clone()
    }

    /// The variables with which tenants find it.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.environment.clone()
    }
}

/// The variables of tenants on the wall clock.
fn wall_environment(nvml: &Nvml, kind: DeviceKind) -> BTreeMap<OsString, OsString> {
    // Tenants see this one device and no other, whatever its number.
    let visible = OsString::from(nvml.uuid());
    let mut environment = BTreeMap::from([(OsString::from("CUDA_VISIBLE_DEVICES"), visible)]);
    if kind == DeviceKind::Virtual {
        // Tenants read no results of what they are timed with.
        environment.insert(OsString::from(SAMPLE_ENV), OsString::from("1"));
    }
    environment
}

/// Finds a real device without taking its lock: for verbs that only look.
///
/// # Errors
/// When it is not there.
pub fn look(device: Option<&DeviceSelector>) -> Result<Nvml, ExpectedError> {
    let which = match device {
        Some(DeviceSelector::Gpu(uuid) | DeviceSelector::Mig(uuid)) => Which::Uuid(uuid.clone()),
        Some(DeviceSelector::Index(index)) => Which::Index(*index),
        Some(DeviceSelector::Virtual(_)) | None => Which::Index(0),
    };
    Nvml::open(None, &which).map_err(ask_error)
}

/// Puts the hash of a virtual device's machine file among its facts: its UUID follows from the
/// seed, and so does not tell two machines apart.
fn name_machine(identity: &mut DeviceIdentity, folder: Option<&OsString>) {
    let file = folder.map(|folder| Path::new(folder).join(MACHINE_FILE));
    // Without the file nothing is said, and the record's trials are not counted with others'.
    if let Some(text) = file.and_then(|file| std::fs::read(file).ok()) {
        let hash = blake3::hash(&text).to_hex().to_string();
        identity.facts.insert(MACHINE_HASH.to_owned(), hash);
    }
}

fn set_variable(name: &OsString, value: &OsString) {
    // SAFETY: called before the event loop and any thread of this process is started.
    unsafe { std::env::set_var(name, value) };
}

/// What a virtual GPU that does not start means to the user.
#[must_use]
pub fn virtual_error(error: VirtualGpuError) -> ExpectedError {
    match error {
        VirtualGpuError::Machine(error) => ExpectedError::Usage {
            problem: error.to_string(),
            remedy: None,
        },
        other => ExpectedError::NothingRan {
            reason: other.to_string(),
        },
    }
}

fn ask_error(error: AskError) -> ExpectedError {
    match error {
        AskError::Device { which, .. } => ExpectedError::NoDevice {
            wanted: which,
            // What is found serves the message alone; without it the message is still true.
            found: nvml::devices().unwrap_or_default(),
        },
        other => devices_error(other),
    }
}

/// What a driver that lists no device means to the user.
#[must_use]
pub fn devices_error(error: AskError) -> ExpectedError {
    match error {
        AskError::Load(source) => ExpectedError::NoDriver {
            reason: source.to_string(),
        },
        AskError::NoneListed | AskError::Device { .. } | AskError::Fact { .. } => {
            ExpectedError::NothingRan {
                reason: error.to_string(),
            }
        }
    }
}

/// The circumstances of a run that begins now. On the wall clock they include the floor of the
/// host's timers, which takes a few seconds to measure.
#[must_use]
pub fn provenance(clock: &RunClock) -> Provenance {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let mut host = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        host.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("hostname", read("/proc/sys/kernel/hostname"));
    let cpu = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(": ").map(|(_, model)| model.to_owned())
    });
    put("cpu", cpu);
    let cores = std::thread::available_parallelism()
        .ok()
        .map(|n| n.to_string());
    put("cores", cores);
    put(
        "governor",
        read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    );
    put("cgroup_cpu_max", read("/sys/fs/cgroup/cpu.max"));
    let mut timer_floor_ns = BTreeMap::new();
    if !clock.is_virtual() {
        let (floor_ns, class) = timer::floor();
        timer_floor_ns = floor_ns;
        put("timer_self_test", Some(class));
    }
    Provenance {
        gpubench: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: rfc3339_now(),
        ended_at: None,
        command: std::env::args().collect(),
        host,
        clock: clock.name().to_owned(),
        timer_floor_ns,
    }
}
