//! Starting a virtual GPU: its shared object on disk, its state, and the environment in which a
//! program finds it.
#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use gpubench_virtual_gpu::device::{Device, DeviceError};
use gpubench_virtual_gpu::host_process::own_uid;
use gpubench_virtual_gpu::machine::{Machine, MachineError};
use gpubench_virtual_gpu::nvidia_cuda_mps;
use gpubench_virtual_gpu::nvidia_smi;
use gpubench_virtual_gpu::session::{ENV, Session, SessionError, TimeMode};

/// The shared object, built with this binary.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/virtual_gpu.so"));

/// The stand-in for HAMi-core, built with this binary.
const HAMI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hami.so"));

/// Every name under which programs look for the driver's libraries: cudarc tries `libcuda.so`
/// first and `libcuda.so.1` last, nvml-wrapper asks for `libnvidia-ml.so`.
const NAMES: [&str; 4] = [
    "libcuda.so",
    "libcuda.so.1",
    "libnvidia-ml.so",
    "libnvidia-ml.so.1",
];

/// Commands of the vendor's that this program plays when called by a link of that name.
pub const COMMANDS: [&str; 3] = [
    nvidia_cuda_mps::CONTROL,
    nvidia_cuda_mps::SERVER,
    nvidia_smi::NAME,
];

/// Marks a folder that is to stay when its maker is gone.
const KEPT: &str = "kept";

/// Locked while the maker of a folder lives.
const ALIVE: &str = "alive";

/// A virtual GPU that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum VirtualGpuError {
    /// No folder takes the shared object and lets it be loaded.
    #[error("the virtual GPU cannot be loaded from any of {0}: each may forbid execution")]
    NoPlace(String),
    /// The machine is unknown or wrong.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its folder cannot be made.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its state cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A virtual GPU, there until dropped.
#[derive(Debug)]
pub struct VirtualGpu {
    root: PathBuf,
    machine: Machine,
    _alive: File,
}

impl VirtualGpu {
    /// Starts one.
    ///
    /// # Errors
    /// When the machine is unknown or no folder serves.
    pub fn start(machine: &str, time: TimeMode, seed: u64) -> Result<Self, VirtualGpuError> {
        let machine = Machine::load(machine)?;
        let (root, alive) = place()?;
        let gpu = Self {
            root,
            machine,
            _alive: alive,
        };
        let device = gpu.device_dir();
        std::fs::create_dir(&device).map_err(|source| SessionError::Io {
            path: device.display().to_string(),
            source,
        })?;
        let session = Session {
            privileged: gpu.machine.privileged,
            ..Session::new(time, seed)
        };
        session.create(&device, &gpu.machine)?;
        if gpu.machine.mps.is_none() {
            for name in [nvidia_cuda_mps::CONTROL, nvidia_cuda_mps::SERVER] {
                let link = gpu.command_dir().join(name);
                std::fs::remove_file(&link).map_err(|source| SessionError::Io {
                    path: link.display().to_string(),
                    source,
                })?;
            }
        }
        if let Some(library) = gpu.hami_library() {
            std::fs::write(&library, HAMI).map_err(|source| SessionError::Io {
                path: library.display().to_string(),
                source,
            })?;
        }
        Ok(gpu)
    }

    /// Where the stand-in for HAMi-core lies, on a machine that has it as if it were installed.
    #[must_use]
    pub fn hami_library(&self) -> Option<PathBuf> {
        self.machine.hami.then(|| self.root.join("libvgpu.so"))
    }

    /// What it is like.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The folder of its libraries.
    #[must_use]
    pub fn library_dir(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The folder of the commands that stand in for the vendor's.
    #[must_use]
    pub fn command_dir(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// The folder of its state.
    #[must_use]
    pub fn device_dir(&self) -> PathBuf {
        self.root.join("device")
    }

    /// A handle on its clock and state, for the coordinator.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub fn open(&self) -> Result<Device, VirtualGpuError> {
        Ok(Device::open(&self.device_dir())?)
    }

    /// The variables with which a program finds it, over those that are set already.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        let before = |folder: PathBuf, variable: &str| {
            let mut folders = OsString::from(folder);
            if let Some(others) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
                folders.push(":");
                folders.push(others);
            }
            (OsString::from(variable), folders)
        };
        BTreeMap::from([
            before(self.library_dir(), "LD_LIBRARY_PATH"),
            before(self.command_dir(), "PATH"),
            (OsString::from(ENV), OsString::from(self.device_dir())),
        ])
    }
}

impl VirtualGpu {
    /// Whether the virtual GPU of this folder of state has gone with its maker.
    #[must_use]
    pub fn is_gone(device_dir: &Path) -> bool {
        let Some(root) = device_dir.parent().filter(|_| device_dir.is_dir()) else {
            return true;
        };
        let alive = File::open(root.join(ALIVE));
        !root.join(KEPT).exists() && alive.is_ok_and(|file| file.try_lock().is_ok())
    }

    /// Lets it stay when this process ends, and says in which folder.
    ///
    /// # Errors
    /// When its folder cannot be marked as staying.
    pub fn keep(mut self) -> Result<PathBuf, VirtualGpuError> {
        let root = std::mem::take(&mut self.root);
        std::fs::write(root.join(KEPT), b"").map_err(|source| SessionError::Io {
            path: root.display().to_string(),
            source,
        })?;
        Ok(root)
    }
}

impl Drop for VirtualGpu {
    fn drop(&mut self) {
        if self.root.as_os_str().is_empty() {
            return;
        }
        // A folder that cannot be removed is litter in a temporary place, not a failed run.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Makes the private folder in the first place that lets its library be loaded.
fn place() -> Result<(PathBuf, File), VirtualGpuError> {
    let mut tried = Vec::new();
    for parent in places() {
        tried.push(parent.display().to_string());
        if let Some(made) = try_place(&parent) {
            return Ok(made);
        }
    }
    Err(VirtualGpuError::NoPlace(tried.join(", ")))
}

/// Folders of ours in the cache, the runtime, then the temporary folder: any of them may forbid
/// execution. The last is everybody's, so that each user needs a name of their own there.
fn places() -> Vec<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache
        .into_iter()
        .chain(variable("XDG_RUNTIME_DIR"))
        .map(|folder| folder.join("gpubench"))
        .chain([std::env::temp_dir().join(format!("gpubench-{}", own_uid()))])
        .collect()
}

fn try_place(parent: &Path) -> Option<(PathBuf, File)> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(parent).ok()?;
    sweep(parent);
    let root = parent.join(format!("virtual-gpu-{}-{}", std::process::id(), nonce()));
    let lib = root.join("lib");
    // The lock comes first: a folder without one is a dead run's to whoever sweeps.
    let made = builder.create(&root).and_then(|()| {
        // Under its name only once it is locked: an unlocked one belongs to a dead run.
        let unnamed = root.join("alive.new");
        let alive = File::create(&unnamed)?;
        alive.lock()?;
        std::fs::rename(&unnamed, root.join(ALIVE))?;
        builder.create(&lib)?;
        let object = lib.join("virtual_gpu.so");
        std::fs::write(&object, OBJECT)?;
        for name in NAMES {
            symlink("virtual_gpu.so", lib.join(name))?;
        }
        let bin = root.join("bin");
        builder.create(&bin)?;
        let program = std::env::current_exe()?;
        for name in COMMANDS {
            symlink(&program, bin.join(name))?;
        }
        Ok((object, alive))
    });
    match made {
        Ok((object, alive)) if loads(&object) => Some((root, alive)),
        _ => {
            // Nothing of use is in it.
            let _ = std::fs::remove_dir_all(&root);
            None
        }
    }
}

/// Distinguishes several devices of one process.
fn nonce() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Removes what killed runs left behind: folders whose process is no more.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("virtual-gpu-") || entry.path().join(KEPT).exists() {
            continue;
        }
        // Process numbers mean nothing across containers that share the folder; a lock does.
        let alive = std::fs::File::open(entry.path().join(ALIVE));
        if alive.is_ok_and(|file| file.try_lock().is_ok()) {
            // Another run may sweep at the same time; whoever is second finds nothing.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn loads(object: &Path) -> bool {
    // SAFETY: our own library, whose initialisers are those of Rust's standard library.
    unsafe { libloading::Library::new(object) }.is_ok()
}
