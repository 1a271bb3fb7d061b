//! A virtual device's folder. The process that starts the device creates it; every process that
//! uses the device opens it.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::shm::Shared;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::machine::{Machine, MachineError};
use gpubench_virtual_gpu_model::state::State;

/// Environment variable that names the folder.
pub const ENV: &str = "GPUBENCH_VIRTUAL_GPU";

/// Environment variable of a process that reads no results of large launches: in wall time too, all
/// are then sampled that are in virtual time, and not only those that the host cannot execute.
pub const SAMPLE_ENV: &str = "GPUBENCH_VIRTUAL_GPU_SAMPLE";

pub const STATE_FILE: &str = "state";

/// The contents of device memory, sparse.
pub const MEMORY_FILE: &str = "memory";
const SESSION_FILE: &str = "session.toml";

pub const MACHINE_FILE: &str = "machine.toml";

/// While the folder has this file, NVML's lists of processes do not return: an injected hang of the
/// driver. A call that waits creates a file with the extension `entered`.
pub const NVML_HANGS: &str = "nvml-hangs";

/// While the folder has this file, NVML's lists of processes fail: an injected error of the driver.
pub const NVML_FAILS: &str = "nvml-fails";

/// How time passes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeMode {
    /// From event to event, when every participant waits.
    Virtual,
    /// With `CLOCK_MONOTONIC`.
    Wall,
}

/// How one virtual device was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// How its time passes.
    pub time: TimeMode,
    pub seed: u64,
    /// `CLOCK_MONOTONIC` at the start of its wall time.
    pub wall_epoch_ns: u64,
    /// Core on which participants run in virtual time.
    pub core: Option<u32>,
    /// How long virtual time may stand still before a stall is reported.
    pub stall: Duration,
    /// Whether programs may change the device's settings, as root may on a real device.
    #[serde(default = "yes")]
    pub privileged: bool,
}

/// Without the key, programs may change the settings.
const fn yes() -> bool {
    true
}

/// A folder that is not a usable virtual device.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Reading or writing failed.
    #[error("virtual GPU folder {path}: {source}")]
    Io {
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The description is not readable.
    #[error("virtual GPU folder {path}: {message}")]
    Parse { path: String, message: String },
    /// The machine is not usable.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl Session {
    /// A session that begins now.
    pub fn new(time: TimeMode, seed: u64) -> Self {
        let core = std::thread::available_parallelism().ok().map(|cores| {
            // Spread concurrent devices over the cores by process id.
            std::process::id() % u32::try_from(cores.get()).unwrap_or(1)
        });
        Self {
            time,
            seed,
            wall_epoch_ns: monotonic_ns(),
            core,
            stall: Duration::from_secs(10),
            privileged: true,
        }
    }

    /// Makes a device in `dir`, which must exist and be empty.
    pub fn create(&self, dir: &Path, machine: &Machine) -> Result<(), SessionError> {
        let io = |source| SessionError::Io { path: dir.display().to_string(), source };
        let parse = |error: toml::ser::Error| SessionError::Parse {
            path: dir.display().to_string(),
            message: error.to_string(),
        };
        let text = toml::to_string(machine).map_err(parse)?;
        std::fs::write(dir.join(MACHINE_FILE), text).map_err(io)?;
        let text = toml::to_string(self).map_err(parse)?;
        std::fs::write(dir.join(SESSION_FILE), text).map_err(io)?;
        gpubench_virtual_gpu_model::cgroup::make(dir, machine).map_err(io)?;
        // The starter may have made it, as a link to a file elsewhere.
        let memory = std::fs::File::create(dir.join(MEMORY_FILE)).map_err(io)?;
        memory.set_len(memory_bytes(machine)).map_err(io)?;
        let mut state = State::new(self.seed, machine.rules().idle_power_mw);
        gpubench_virtual_gpu_model::mig::undivided(&mut state, machine);
        let mode = ComputeMode::of_number(machine.circumstances.compute_mode as u32);
        state.compute_mode = mode.unwrap_or_default();
        Shared::create(&dir.join(STATE_FILE), &state).map_err(io)?;
        Ok(())
    }

    pub fn read(dir: &Path) -> Result<(Self, Machine), SessionError> {
        let read = |file: &str| {
            std::fs::read_to_string(dir.join(file))
                .map_err(|source| SessionError::Io { path: dir.display().to_string(), source })
        };
        let session =
            toml::from_str(&read(SESSION_FILE)?).map_err(|error| SessionError::Parse {
                path: dir.display().to_string(),
                message: error.message().to_owned(),
            })?;
        let machine = Machine::parse(MACHINE_FILE, &read(MACHINE_FILE)?)?;
        Ok((session, machine))
    }

    /// Wall time of the device.
    pub fn wall_now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.wall_epoch_ns)
    }
}

/// Length of the file of device memory.
pub fn memory_bytes(machine: &Machine) -> u64 {
    gpubench_virtual_gpu_model::memory::SPANS * (machine.memory.total_mib << 20)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    // `Instant` is CLOCK_MONOTONIC on Linux but does not show its value; every process must agree
    // on it, so it is read from the kernel.
    crate::host_process::monotonic_ns()
}
