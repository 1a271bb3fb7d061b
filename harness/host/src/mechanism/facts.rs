//! Facts of the host that decide which mechanisms can run. They are gathered once, before planning.

use std::path::{Path, PathBuf};

use gpubench_record::regular_file;
use serde::Serialize;

use super::control_groups::ControlGroups;
use super::elf;
use super::fitness::{self, Finding};
use super::host::command::on_path;
use super::host::found_time_slice;
use super::host::mps_control;
use super::labels::{self, Label};
use crate::device::Driver;
use crate::device::mig::{Instance, InstanceProfile};
use crate::device::nvml::named;

/// The path at which HAMi installs its library (Project-HAMi/HAMi, `server.go`).
const HAMI_INSTALLED: &str = "/usr/local/vgpu/libvgpu.so";

/// A symbol of a preloaded library that uses the virtual GPU's clock, as the stand-in for HAMi
/// does.
const KEEPS_VIRTUAL_TIME: &str = "gpubench_vt_preloaded";

/// The compute mode that admits one process, by the vendor's name.
pub(super) const EXCLUSIVE_PROCESS: &str = "EXCLUSIVE_PROCESS";

/// The remedy for a compute mode.
pub(super) const DEFAULT_MODE: &str = "nvidia-smi -c DEFAULT";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    pub driver_major: Option<u32>,
    /// CUDA version of the driver, as in cuda.h (13010 is 13.1).
    pub cuda: i32,
    pub compute_capability: (i32, i32),
    pub uuid: String,
    pub memory_mib: u64,
    /// The part that the driver keeps for itself.
    pub reserved_mib: u64,
    /// The compute mode, by the vendor's name: which processes may have a context.
    pub compute_mode: Option<String>,
    /// Whether MIG mode is on; `None` if the device has no MIG.
    pub mig: Option<bool>,
    /// Whether MIG mode is on after a reset.
    pub mig_pending: Option<bool>,
    pub mig_profiles: Vec<InstanceProfile>,
    pub mig_instances: Vec<Instance>,
    /// Why MIG could not be queried, if the device has it.
    pub mig_problem: Option<String>,
    pub mps_control: Option<PathBuf>,
    /// The command that sets the time slice.
    pub no_nvidia_smi: Option<String>,
    /// The time slice that the GPU has, which a cluster may have set; `None` where nvidia-smi does
    /// not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_slice: Option<String>,
    /// The tree of control groups; `None` without version 2.
    pub control_groups: Option<ControlGroups>,
    pub hami: Option<HamiLibrary>,
    /// `--hami-lib`, also if the file does not exist.
    #[serde(rename = "hami_asked")]
    pub hami_requested: Option<PathBuf>,
    /// Programs of the tenants that are static binaries, into which no library can be preloaded.
    pub static_programs: Vec<PathBuf>,
    /// Whether the user allowed changes of device settings.
    pub allow_reconfigure: bool,
    /// Whether the driver would let this user change them.
    pub may_change_settings: bool,
    /// Processes that had a context on the device when the facts were gathered.
    pub holders: Vec<u32>,
    /// Why those processes are unknown, if NVML does not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holders_problem: Option<String>,
    /// Circumstances of the host that a reader of figures must know.
    pub labels: Vec<Label>,
    /// What stands between this host and verdicts, in the order of its effect.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HamiLibrary {
    pub path: PathBuf,
    /// Its BLAKE3 hash: build flags change its behaviour, and it has no version.
    pub hash: String,
    /// Why it would limit nothing, by the content of its file.
    pub problem: Option<String>,
}

/// Inputs of the user and of the device to the facts.
#[derive(Debug, Clone, Default)]
pub struct HostInputs {
    pub hami_lib: Option<PathBuf>,
    /// Shell command of the user's victim program.
    pub program: Option<String>,
    pub allow_reconfigure: bool,
    /// Whether the driver would let this user change device settings.
    pub may_change_settings: bool,
    /// The stand-in for the host's tree of control groups.
    pub control_groups: Option<PathBuf>,
    /// Folders of the virtual GPU with files that a host would have installed.
    pub virtual_folders: Vec<PathBuf>,
}

impl HostFacts {
    /// Queries NVML, PATH and the file system. Unobserved values are `None`.
    pub fn gather(nvml: &Driver, inputs: &HostInputs) -> Self {
        // A run has refused a device without driver version, capability and memory size
        // (`device::identity`). In a plan, mechanisms are waived for what they need of them.
        let driver = nvml.library().sys_driver_version().unwrap_or_default();
        let whole = nvml.whole().ok();
        let capability = whole.as_ref().and_then(|device| device.cuda_compute_capability().ok());
        let memory_bytes = nvml.memory_bytes().map_or(0, |(bytes, _)| bytes);
        let memory = whole.as_ref().and_then(|device| device.memory_info().ok());
        let reserved_bytes = memory.map_or(0, |memory| memory.reserved);
        let (mut mig_profiles, mut mig_instances, mut mig_problem) = (Vec::new(), Vec::new(), None);
        let mig_mode = nvml.mig_mode().unwrap_or_else(|error| {
            mig_problem = Some(named(&error));
            None
        });
        let mig = mig_mode.map(|mode| mode.current);
        let (holders, holders_problem) = match nvml.compute_pids() {
            Ok(holders) => (holders, None),
            Err(error) => (Vec::new(), Some(named(&error))),
        };
        if mig.is_some() {
            match nvml.mig_profiles() {
                Ok(profiles) => mig_profiles = profiles,
                Err(error) => mig_problem = Some(named(&error)),
            }
        }
        if mig == Some(true) {
            match nvml.mig_instances() {
                Ok(instances) => mig_instances = instances,
                Err(error) => mig_problem = Some(named(&error)),
            }
        }
        let mut findings = fitness::of(nvml);
        let (time_slice, no_nvidia_smi) = match found_time_slice(nvml.uuid()) {
            Some(Ok(time_slice)) => (time_slice, None),
            Some(Err(error)) => {
                findings.push(fitness::Finding {
                    what: format!("{error}: the time slice is unknown and cannot be set"),
                    remedy: Some("nvidia-smi must work by itself first".to_owned()),
                    ..fitness::Finding::default()
                });
                (None, Some(format!("it does not work: {}", error.what)))
            }
            None => (None, Some("it is not on PATH".to_owned())),
        };
        Self {
            driver_major: driver.split('.').next().and_then(|text| text.parse().ok()),
            cuda: nvml.library().sys_cuda_driver_version().unwrap_or(0),
            compute_capability: capability.map_or((0, 0), |cc| (cc.major, cc.minor)),
            uuid: nvml.uuid().to_owned(),
            memory_mib: memory_bytes >> 20,
            reserved_mib: reserved_bytes >> 20,
            // Some hypervisors do not report it. A mode that refuses tenants then waives the
            // mechanism when they open their contexts.
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
            mig,
            mig_pending: mig_mode.map(|mode| mode.pending),
            mig_profiles,
            mig_instances,
            mig_problem,
            mps_control: on_path(mps_control::PROGRAM),
            no_nvidia_smi,
            time_slice,
            control_groups: ControlGroups::find(inputs.control_groups.as_deref()),
            hami: find_hami(inputs),
            hami_requested: inputs.hami_lib.clone(),
            static_programs: static_programs(inputs),
            allow_reconfigure: inputs.allow_reconfigure,
            may_change_settings: inputs.may_change_settings,
            holders,
            holders_problem,
            labels: labels::of(nvml),
            findings,
        }
    }
}

/// The static binaries among this program, which tenants run, and the user's program.
fn static_programs(inputs: &HostInputs) -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let users = inputs.program.as_deref().and_then(elf::program_of);
    let all = own.into_iter().chain(users);
    // A file that cannot be read is left out; the proof in the tenant decides.
    all.filter(|path| elf::is_static(path) == Some(true)).collect()
}

fn find_hami(inputs: &HostInputs) -> Option<HamiLibrary> {
    // A library that the user names has no substitute: another one must not be measured.
    let candidates = match &inputs.hami_lib {
        Some(path) => vec![path.clone()],
        None => inputs
            .virtual_folders
            .iter()
            .map(|folder| folder.join("libvgpu.so"))
            .chain([PathBuf::from(HAMI_INSTALLED)])
            .collect(),
    };
    candidates.iter().find_map(|path| {
        let path = path.canonicalize().ok()?;
        let bytes = regular_file::read(&path, LIBRARY_BYTES_MAX).ok()?;
        Some(HamiLibrary {
            hash: blake3::hash(&bytes).to_hex().to_string(),
            problem: limits_nothing(&path, &bytes),
            path,
        })
    })
}

/// Whether the library that `hami` would preload uses the wall clock, as every library but the
/// stand-in of a virtual machine does. `users` is the user's library; `stands_in` says whether the
/// machine has a stand-in. A library that cannot be read counts as none.
pub fn hami_needs_wall_clock(users: Option<&Path>, stands_in: bool) -> bool {
    let library = match users {
        Some(path) => path,
        None if stands_in => return false,
        None => Path::new(HAMI_INSTALLED),
    };
    let Ok(bytes) = regular_file::read(library, LIBRARY_BYTES_MAX) else {
        return false;
    };
    elf::exports(&bytes).is_ok_and(|names| !names.contains(KEEPS_VIRTUAL_TIME))
}

/// Of HAMi-core it has less than 1 MB.
const LIBRARY_BYTES_MAX: u64 = 256 << 20;

/// Functions that HAMi-core replaces: symbol lookup, and calls that it counts and delays
/// (HAMi-core, `libvgpu.c`, `memory.c`).
const HOOKS: [&str; 3] = ["dlsym", "cuMemAlloc_v2", "cuLaunchKernel"];

/// Why a preloaded library would limit nothing; `None` if it can.
fn limits_nothing(path: &Path, bytes: &[u8]) -> Option<String> {
    let separates = |c: char| c == ':' || c.is_whitespace();
    if path.to_string_lossy().contains(separates) {
        return Some("its path has a space or a colon, where LD_PRELOAD ends a name".to_owned());
    }
    let names = match elf::exports(bytes) {
        Ok(names) => names,
        Err(error) => return Some(error.to_string()),
    };
    let missing: Vec<&str> = HOOKS.into_iter().filter(|hook| !names.contains(*hook)).collect();
    (!missing.is_empty()).then(|| format!("it does not hook {}", missing.join(", ")))
}
