//! Machine files: the description of a virtual device, one TOML file each in `profiles/machines/`.

mod chip;
mod circumstances;
mod error;
pub mod faults;
mod hosts;
mod mig;
mod names;
mod ranges;
mod sharing;

use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::simulation::Rules;
pub use chip::{Gpu, Memory, Resident};
pub use circumstances::{Asker, Circumstances, PlantedAnswer, Sharing, Virtualization};
pub use error::MachineError;
use error::{read, wrong};
use faults::Faults;
pub use hosts::{Host, hosts};
pub use mig::{Mig, Profile};
pub use sharing::{Defects, Mps, SliceLevels, granularity};

/// The machines embedded in the binary: name and text.
pub const BUILT_IN: &[(&str, &str)] = gpubench_profiles::MACHINES;

/// The machine that `--device virtual` selects.
pub const DEFAULT: &str = "h100-80";

/// One virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the file format.
    pub version: u32,
    /// Name, as in `--device virtual:NAME`.
    pub name: String,
    /// One line for lists.
    pub summary: String,
    /// HAMi-core counts as installed; the stand-in plays it.
    #[serde(default)]
    pub hami: bool,
    /// Programs can change device settings, like root on a real host.
    #[serde(default = "yes")]
    pub privileged: bool,
    /// Constants that neither a document nor a measurement gives, as `table.key`. Reports name
    /// those on which their figures rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<String>,
    /// The chip.
    pub gpu: Gpu,
    /// Device memory and caches.
    pub memory: Memory,
    /// The host link.
    pub pcie: Pcie,
    /// Time-slicing between contexts.
    pub scheduler: Scheduler,
    /// Host time of driver calls.
    pub host: HostCosts,
    /// Power.
    pub power: Power,
    /// Planted noise.
    pub noise: Noise,
    /// MPS; absent where the driver lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps: Option<Mps>,
    /// MIG; absent where the chip lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// Hypervisor, fixed clocks and other conditions.
    #[serde(default)]
    pub circumstances: Circumstances,
    /// Planted answers of the driver and of vendor commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<PlantedAnswer>,
    /// What the driver answers to faults.
    #[serde(default)]
    pub faults: Faults,
    /// Planted defects.
    #[serde(default)]
    pub defects: Defects,
}

/// By default device settings can be changed.
const fn yes() -> bool {
    true
}

/// The host link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Generation.
    pub generation: u32,
    /// Lanes.
    pub width: u32,
    /// Bandwidth towards the device, from pinned memory.
    pub to_device_gb_per_s: f64,
    /// Bandwidth towards the host, into pinned memory.
    pub to_host_gb_per_s: f64,
    /// Fixed time of every copy.
    pub copy_latency_us: f64,
    /// Bandwidth of pageable memory relative to pinned.
    pub pageable_factor: f64,
    /// BAR1 aperture through which the host can map device memory; absent: that of a board without
    /// resizable BAR1.
    #[serde(default = "plain_bar1", skip_serializing_if = "is_plain_bar1")]
    pub bar1_mib: u64,
}

/// The BAR1 aperture of a board without resizable BAR1.
const fn plain_bar1() -> u64 {
    256
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
const fn is_plain_bar1(mib: &u64) -> bool {
    *mib == plain_bar1()
}

/// Longest time slice and gap: sums of instants and slices stay far below the range of the clock.
const SLICE_US_MAX: u64 = 3_600_000_000;

/// Time-slicing between contexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Length of a time slice while another context waits.
    pub slice_us: u64,
    /// Gap between two time slices.
    pub switch_gap_us: u64,
    /// Time slices of the levels that an administrator can set; absent where the driver has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<SliceLevels>,
    /// Plants perfect isolation: every kernel runs as if it had the device to itself.
    #[serde(default)]
    pub isolated: bool,
}

/// Power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Power when idle.
    pub idle_w: f64,
    /// Power at full load.
    pub max_w: f64,
    /// The enforced limit.
    pub cap_w: f64,
    /// Lowest limit that an administrator can set on the real board; absent: the enforced one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_w: Option<f64>,
    /// Power above idle of the busiest pipe at the highest clock, which a capped board cannot hold;
    /// absent: half of the range up to `max_w`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipes_w: Option<f64>,
}

/// Relative standard deviations of planted noise. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Noise of device work, drawn for every operation.
    pub request: f64,
    /// Noise of device work, drawn for every epoch.
    pub epoch: f64,
    /// Length of an epoch.
    pub epoch_ms: u64,
    /// Noise of device work, drawn once.
    pub session: f64,
    /// Noise of the host time of driver calls (`host`), drawn for every call.
    #[serde(default)]
    pub call: f64,
    /// Noise of time slices and gaps (`scheduler`), drawn for each.
    #[serde(default)]
    pub turn: f64,
    /// Noise of the recovery time of an MPS server (`mps.recovery_ms`), drawn for each recovery.
    #[serde(default)]
    pub recovery: f64,
    /// How much longer device work takes when the device starts, as a part of its time. It falls to
    /// nothing over `warm_up_s`.
    #[serde(default)]
    pub warm_up: f64,
    /// Time over which the device reaches its full speed.
    #[serde(default)]
    pub warm_up_s: u32,
}

/// Host time of driver calls, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Reading the clock.
    pub clock_ns: u64,
    /// Launching a kernel.
    pub launch_ns: u64,
    /// From submission until the device starts the work.
    pub launch_latency_ns: u64,
    /// Return from a wait after the work is done.
    pub sync_ns: u64,
    /// Recording an event.
    pub event_ns: u64,
    /// Query whether work is done.
    pub query_ns: u64,
    /// Submitting a copy.
    pub copy_ns: u64,
    /// Allocating device memory.
    pub alloc_ns: u64,
    /// Freeing device memory.
    pub free_ns: u64,
    /// Creating or destroying a stream.
    pub stream_ns: u64,
    /// Loading a module.
    pub module_ns: u64,
    /// Creating a context.
    pub context_ns: u64,
    /// Every other call.
    pub other_ns: u64,
    /// Refusing a launch, an allocation or a release.
    #[serde(default)]
    pub refused_ns: u64,
    /// Refusing a release, where that takes another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_free_ns: Option<u64>,
    /// Share of the time of an allocation, a free, a module load or a context creation during which
    /// the driver's lock excludes other processes from these calls.
    pub lock_share: f64,
}

impl Machine {
    /// The built-in machine with this name, or the machine in the file at this path.
    /// Fails when there is neither, or the text is not a valid machine file.
    pub fn load(name: &str) -> Result<Self, MachineError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Self::parse(name, text);
        }
        if let Some(host) = hosts()?.into_iter().find(|host| host.name == name) {
            return host.machine();
        }
        let path = Path::new(name);
        if !name.contains('/') && path.extension().is_none() {
            let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            return Err(MachineError::Unknown { name: name.to_owned(), known: known.join(", ") });
        }
        let text = read_text(path)
            .map_err(|source| MachineError::Read { path: name.to_owned(), source })?;
        Self::parse(name, &text)
    }

    /// Parses a machine file; `path` is for messages.
    /// Fails when the text is not a valid machine file.
    pub fn parse(path: &str, text: &str) -> Result<Self, MachineError> {
        let mut machine: Self = read(path, text)?;
        machine.check(path)?;
        machine.inherit_faults()?;
        Ok(machine)
    }

    fn check(&self, path: &str) -> Result<(), MachineError> {
        if self.version != 1 {
            return wrong(path, "version", self.version, "1");
        }
        self.check_names(path)?;
        self.check_ranges(path)?;
        if !self.gpu.product.starts_with("Virtual") {
            let accepted = "a name that begins with Virtual";
            return wrong(path, "gpu.product", &self.gpu.product, accepted);
        }
        if !self.gpu.driver.contains("virtual") {
            let accepted = "a version that contains virtual";
            return wrong(path, "gpu.driver", &self.gpu.driver, accepted);
        }
        if self.gpu.l1_per_sm_kib < self.gpu.shared_per_sm_kib {
            let accepted = "gpu.shared_per_sm_kib or more";
            return wrong(path, "gpu.l1_per_sm_kib", self.gpu.l1_per_sm_kib, accepted);
        }
        let (slice_us, gap_us) = (self.scheduler.slice_us, self.scheduler.switch_gap_us);
        if !(1..=SLICE_US_MAX).contains(&slice_us) {
            let accepted = "1 to 3600000000, an hour";
            return wrong(path, "scheduler.slice_us", slice_us, accepted);
        }
        if gap_us > SLICE_US_MAX {
            let accepted = "0 to 3600000000, an hour";
            return wrong(path, "scheduler.switch_gap_us", gap_us, accepted);
        }
        self.check_memory(path)?;
        self.check_mig(path)?;
        self.check_circumstances(path)?;
        self.check_faults(path)?;
        self.check_sharing(path)
    }

    pub fn rules(&self) -> Rules {
        Rules {
            slice_ns: self.scheduler.slice_us * 1_000,
            switch_gap_ns: self.scheduler.switch_gap_us * 1_000,
            slice_noise_ppm: ppm(self.noise.turn),
            isolated: self.scheduler.isolated,
            run_time_limit_ns: self.circumstances.kernel_run_time_limit_ms * 1_000_000,
            mig_dram_leak: sharing::fixed_point(self.defects.mig_dram_leak),
            mig_l2_leak: sharing::fixed_point(self.defects.mig_l2_leak),
            neighbour_slows: [
                self.defects.neighbour_slows_compute,
                self.defects.neighbour_slows_dram,
                self.defects.neighbour_slows_l2,
                self.defects.neighbour_slows_copies,
            ]
            .map(sharing::fixed_point),
            faults: self.fault_rules(),
            idle_power_mw: milli(self.power.idle_w),
            power_cap_mw: milli(self.power.cap_w),
            // NVML's own window is between 1/6 s and 1 s (nvml.h).
            utilisation_window_ns: 1_000_000_000 / 6,
        }
    }

    /// Compute capability as two numbers; 0.0 if the text is not `major.minor`.
    pub fn compute_capability(&self) -> (u32, u32) {
        let mut parts = self.gpu.compute_capability.split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
            _ => (0, 0),
        }
    }

    /// CUDA version as the driver reports it: 1000 * major + 10 * minor.
    pub fn cuda_version(&self) -> i32 {
        let mut parts = self.gpu.cuda.split('.').map(str::parse::<i32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => major * 1000 + minor * 10,
            _ => 0,
        }
    }

    /// Whether the driver is newer than CUDA 13.0 and supports attributes, fields and profiles
    /// added since.
    pub fn is_after_cuda_13_0(&self) -> bool {
        self.cuda_version() > 13_000
    }

    /// The device's UUID in NVML's format, derived from the machine's name.
    pub fn uuid(&self) -> String {
        format!("GPU-{}", uuid_of(self.name.as_bytes()))
    }
}

/// Longest machine file. A longer file is none.
const FILE_BYTES: u64 = 1 << 20;

/// The text of a regular file, up to a limit: a device has no end, and opening a pipe waits.
fn read_text(path: &Path) -> std::io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is a folder, a pipe or a device (accepted: a file)"));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES {
        let accepted = format!("it is too long (accepted: at most {FILE_BYTES} bytes)");
        return Err(std::io::Error::other(accepted));
    }
    Ok(text)
}

/// A UUID in NVML's format without its prefix, derived from a name.
pub fn uuid_of(name: &[u8]) -> String {
    let hash = blake3::hash(name).to_hex();
    format!(
        "{}-{}-{}-{}-{}",
        &hash[0..8],
        &hash[8..12],
        &hash[12..16],
        &hash[16..20],
        &hash[20..32]
    )
}

/// A share in parts per million: `Rules` holds integers only.
fn ppm(share: f64) -> u32 {
    (share * 1e6).round() as u32
}

fn milli(watts: f64) -> u64 {
    (watts * 1000.0).round().max(0.0) as u64
}

#[cfg(test)]
mod tests;
