//! Facts of the host that decide which mechanisms can run. They are gathered once, before planning.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::control_groups::ControlGroups;
use super::elf;
use super::host::command::on_path;
use super::host::mps_control;
use super::labels::{self, Label};
use crate::device::Nvml;
use crate::device::mig::{Instance, InstanceProfile};

/// Where HAMi puts its library (Project-HAMi/HAMi, `server.go`).
const HAMI_INSTALLED: &str = "/usr/local/vgpu/libvgpu.so";

/// What a library exports that goes by the virtual GPU's clock: the stand-in for HAMi's does.
const KEEPS_VIRTUAL_TIME: &str = "gpubench_vt_preloaded";

/// The host and its device, as far as mechanisms ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Major number of the driver's version.
    pub driver_major: Option<u32>,
    /// The CUDA version that the driver speaks, as cuda.h writes it (13010 is 13.1).
    pub cuda: i32,
    /// Major and minor number of the compute capability.
    pub compute_capability: (i32, i32),
    /// UUID of the device.
    pub uuid: String,
    /// Memory of the device.
    pub memory_mib: u64,
    /// Which processes may have a context, by the vendor's word.
    pub compute_mode: Option<String>,
    /// Whether MIG mode is on; absent where there is no MIG.
    pub mig: Option<bool>,
    /// Whether it will be on after a reset.
    pub mig_pending: Option<bool>,
    /// Sizes of MIG instance.
    pub mig_profiles: Vec<InstanceProfile>,
    /// MIG instances that are there.
    pub mig_instances: Vec<Instance>,
    /// Why MIG could not be queried, where the device has it.
    pub mig_problem: Option<String>,
    /// The MPS control command.
    pub mps_control: Option<PathBuf>,
    /// The command that sets the time slice.
    pub nvidia_smi: Option<PathBuf>,
    /// The tree of control groups; absent where there is none of the second version.
    pub control_groups: Option<ControlGroups>,
    /// HAMi's library, with its hash.
    pub hami: Option<HamiLibrary>,
    /// `--hami-lib`, whether it is there or not.
    pub hami_asked: Option<PathBuf>,
    /// Programs of the tenants that are static binaries, into which nothing can be preloaded.
    pub static_programs: Vec<PathBuf>,
    /// Whether the user allowed changes of device settings.
    pub allow_reconfigure: bool,
    /// Whether the driver would let this user change them.
    pub may_change_settings: bool,
    /// Processes that had a context on the device when the facts were gathered.
    pub holders: Vec<u32>,
    /// Circumstances of the host that a reader of figures must know.
    pub labels: Vec<Label>,
}

/// HAMi's library as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HamiLibrary {
    /// Where.
    pub path: PathBuf,
    /// BLAKE3 of it: its build flags change what tenants see, and it carries no version.
    pub hash: String,
    /// Why it would limit nothing, as far as its file tells.
    pub problem: Option<String>,
}

/// Inputs of the user and of the device that bear on the facts.
#[derive(Debug, Clone, Default)]
pub struct HostInputs {
    /// `--hami-lib`.
    pub hami_lib: Option<PathBuf>,
    /// The user's own program, as a shell reads it.
    pub program: Option<String>,
    /// `--allow-reconfigure`.
    pub allow_reconfigure: bool,
    /// Whether the driver would let this user change device settings.
    pub may_change_settings: bool,
    /// The tree of control groups that stands in for the host's.
    pub control_groups: Option<PathBuf>,
    /// Folders in which the virtual GPU offers what a host would have installed.
    pub virtual_folders: Vec<PathBuf>,
}

impl HostFacts {
    /// Asks NVML, PATH and the file system. Unobserved values are `None`.
    #[must_use]
    pub fn gather(nvml: &Nvml, inputs: &HostInputs) -> Self {
        let driver = nvml.library().sys_driver_version().unwrap_or_default();
        let device = nvml.device().ok();
        let capability = device
            .as_ref()
            .and_then(|device| device.cuda_compute_capability().ok());
        let memory = device.as_ref().and_then(|device| device.memory_info().ok());
        let mig_mode = nvml.mig_mode().ok().flatten();
        let mig = mig_mode.map(|mode| mode.current);
        let (mut mig_profiles, mut mig_instances, mut mig_problem) = (Vec::new(), Vec::new(), None);
        if mig.is_some() {
            match nvml.mig_profiles() {
                Ok(profiles) => mig_profiles = profiles,
                Err(error) => mig_problem = Some(error.to_string()),
            }
        }
        if mig == Some(true) {
            match nvml.mig_instances() {
                Ok(instances) => mig_instances = instances,
                Err(error) => mig_problem = Some(error.to_string()),
            }
        }
        Self {
            driver_major: driver.split('.').next().and_then(|text| text.parse().ok()),
            cuda: nvml.library().sys_cuda_driver_version().unwrap_or(0),
            compute_capability: capability.map_or((0, 0), |cc| (cc.major, cc.minor)),
            uuid: nvml.uuid().to_owned(),
            memory_mib: memory.map_or(0, |memory| memory.total >> 20),
            compute_mode: nvml.compute_mode().ok().map(str::to_owned),
            mig,
            mig_pending: mig_mode.map(|mode| mode.pending),
            mig_profiles,
            mig_instances,
            mig_problem,
            mps_control: on_path(mps_control::PROGRAM),
            nvidia_smi: on_path("nvidia-smi"),
            control_groups: ControlGroups::find(inputs.control_groups.as_deref()),
            hami: find_hami(inputs),
            hami_asked: inputs.hami_lib.clone(),
            static_programs: static_programs(inputs),
            allow_reconfigure: inputs.allow_reconfigure,
            may_change_settings: inputs.may_change_settings,
            holders: nvml.compute_pids().unwrap_or_default(),
            labels: labels::of(nvml),
        }
    }
}

/// This very program, which tenants are, and the user's own, as far as they are static binaries.
fn static_programs(inputs: &HostInputs) -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let users = inputs.program.as_deref().and_then(elf::program_of);
    let all = own.into_iter().chain(users);
    // What cannot be read or is no such file says nothing; the proof in the tenant decides.
    all.filter(|path| elf::is_static(path) == Some(true))
        .collect()
}

fn find_hami(inputs: &HostInputs) -> Option<HamiLibrary> {
    // What the user names is taken or nothing is: another one would be measured in its place.
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
        let bytes = std::fs::read(&path).ok()?;
        Some(HamiLibrary {
            hash: blake3::hash(&bytes).to_hex().to_string(),
            problem: limits_nothing(&path, &bytes),
            path,
        })
    })
}

/// Whether the library that `hami` would preload goes by the wall clock: any but the stand-in of a
/// virtual machine does, since its threads know no other. `brought` is the user's, and `stands_in`
/// says that the machine has one of its own. A library that cannot be read is none.
#[must_use]
pub fn hami_needs_wall_clock(brought: Option<&Path>, stands_in: bool) -> bool {
    let library = match brought {
        Some(path) => path,
        None if stands_in => return false,
        None => Path::new(HAMI_INSTALLED),
    };
    let Ok(bytes) = std::fs::read(library) else {
        return false;
    };
    elf::exports(&bytes).is_ok_and(|names| !names.contains(KEEPS_VIRTUAL_TIME))
}

/// Names that HAMi-core answers for: the way in for programs that look symbols up, and the first
/// calls that it counts and holds back (HAMi-core, `libvgpu.c`, `memory.c`).
const HOOKS: [&str; 3] = ["dlsym", "cuMemAlloc_v2", "cuLaunchKernel"];

/// Why a library would limit nothing if it were preloaded.
fn limits_nothing(path: &Path, bytes: &[u8]) -> Option<String> {
    let separates = |c: char| c == ':' || c.is_whitespace();
    if path.to_string_lossy().contains(separates) {
        return Some("its path has a space or a colon, where LD_PRELOAD ends a name".to_owned());
    }
    let names = match elf::exports(bytes) {
        Ok(names) => names,
        Err(error) => return Some(error.to_string()),
    };
    let missing: Vec<&str> = HOOKS
        .into_iter()
        .filter(|hook| !names.contains(*hook))
        .collect();
    (!missing.is_empty()).then(|| format!("it does not hook {}", missing.join(", ")))
}
