//! Starts a virtual GPU: its shared object and its state in a private folder, and the environment
//! with which a program finds it.
#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use gpubench_virtual_gpu::device::{Device, DeviceError};
use gpubench_virtual_gpu::host_process::own_uid;
use gpubench_virtual_gpu::machine::{Machine, MachineError};
use gpubench_virtual_gpu::nvidia_cuda_mps;
use gpubench_virtual_gpu::nvidia_smi;
use gpubench_virtual_gpu::session::{ENV, Session, SessionError, TimeMode};
use tempfile::TempDir;

/// The shared object, built with this binary and compressed, as it is a tenth of it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/virtual_gpu.so.zlib"));

/// The stand-in for HAMi-core, built with this binary.
const HAMI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hami.so.zlib"));

/// The names with which programs load the driver's libraries: cudarc tries `libcuda.so` first and
/// `libcuda.so.1` last, nvml-wrapper loads `libnvidia-ml.so`.
const NAMES: [&str; 4] = [
    "libcuda.so",
    "libcuda.so.1",
    "libnvidia-ml.so",
    "libnvidia-ml.so.1",
];

/// Vendor commands that this program stands in for when a link of that name starts it.
pub const COMMANDS: [&str; 3] = [
    nvidia_cuda_mps::CONTROL,
    nvidia_cuda_mps::SERVER,
    nvidia_smi::NAME,
];

/// A file that marks a folder to keep when the process that made it ends.
const KEPT: &str = "kept";

/// A file that the process that made a folder keeps locked until it ends.
const ALIVE: &str = "alive";

/// Beginning of the names of the folders.
const PREFIX: &str = "virtual-gpu-";

/// Why a virtual GPU cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum VirtualGpuError {
    /// No folder accepts the shared object and allows loading it.
    #[error("the virtual GPU cannot be loaded from any of {0}: each may forbid execution")]
    NoFolder(String),
    /// The machine is unknown or invalid.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its folder cannot be made.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its state cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A running virtual GPU. Its folder is removed when it is dropped.
#[derive(Debug)]
pub struct VirtualGpu {
    root: TempDir,
    machine: Machine,
    _alive: File,
}

impl VirtualGpu {
    /// Starts a virtual GPU.
    ///
    /// # Errors
    /// When the machine is unknown or no folder can be used.
    pub fn start(machine: &str, time: TimeMode, seed: u64) -> Result<Self, VirtualGpuError> {
        let machine = Machine::load(machine)?;
        let (root, alive) = private_folder()?;
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
            write_library(&library, HAMI).map_err(|source| SessionError::Io {
                path: library.display().to_string(),
                source,
            })?;
        }
        Ok(gpu)
    }

    /// Path of the stand-in for HAMi-core; `None` on a machine without it.
    #[must_use]
    pub fn hami_library(&self) -> Option<PathBuf> {
        self.machine
            .hami
            .then(|| self.root.path().join("libvgpu.so"))
    }

    /// The machine that it models.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The folder of its libraries.
    #[must_use]
    pub fn library_dir(&self) -> PathBuf {
        self.root.path().join("lib")
    }

    /// The folder of the commands that stand in for the vendor's.
    #[must_use]
    pub fn command_dir(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// The folder of its state.
    #[must_use]
    pub fn device_dir(&self) -> PathBuf {
        self.root.path().join("device")
    }

    /// A handle on its clock and state, for the coordinator.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub fn open(&self) -> Result<Device, VirtualGpuError> {
        Ok(Device::open(&self.device_dir())?)
    }

    /// The variables with which a program finds it. Search paths extend those of this process.
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
    /// Whether the process that made the virtual GPU of this state folder has ended without keeping
    /// it.
    #[must_use]
    pub fn is_gone(device_dir: &Path) -> bool {
        let Some(root) = device_dir.parent().filter(|_| device_dir.is_dir()) else {
            return true;
        };
        let alive = File::open(root.join(ALIVE));
        !root.join(KEPT).exists() && alive.is_ok_and(|file| file.try_lock().is_ok())
    }

    /// Keeps it when this process ends. Returns its folder.
    ///
    /// # Errors
    /// When its folder cannot be marked.
    pub fn keep(self) -> Result<PathBuf, VirtualGpuError> {
        let root = self.root.keep();
        std::fs::write(root.join(KEPT), b"").map_err(|source| SessionError::Io {
            path: root.display().to_string(),
            source,
        })?;
        Ok(root)
    }
}

/// Makes the private folder in the first parent folder that allows loading its library.
fn private_folder() -> Result<(TempDir, File), VirtualGpuError> {
    let mut tried = Vec::new();
    for parent in parents() {
        tried.push(parent.display().to_string());
        if let Some(made) = make_in(&parent) {
            return Ok(made);
        }
    }
    Err(VirtualGpuError::NoFolder(tried.join(", ")))
}

/// The cache folder, the runtime folder, then the temporary folder: any of them may forbid
/// execution. All users share the last, so its name holds the user's id.
fn parents() -> Vec<PathBuf> {
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

/// Makes the private folder in a parent folder; `None` if that is not possible, or if the library
/// cannot be loaded from there.
fn make_in(parent: &Path) -> Option<(TempDir, File)> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(parent).ok()?;
    remove_leftovers(parent);
    let root = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .ok()?;
    let (object, alive) = fill(root.path()).ok()?;
    loads(&object).then_some((root, alive))
}

/// Writes the libraries and the commands. Returns the shared object and the locked file.
fn fill(root: &Path) -> std::io::Result<(PathBuf, File)> {
    // The lock file gets its name once it is locked: an unlocked one belongs to a dead run.
    let unnamed = root.join("alive.new");
    let alive = File::create(&unnamed)?;
    alive.lock()?;
    std::fs::rename(&unnamed, root.join(ALIVE))?;
    let (lib, bin) = (root.join("lib"), root.join("bin"));
    std::fs::create_dir(&lib)?;
    let object = lib.join("virtual_gpu.so");
    write_library(&object, OBJECT)?;
    for name in NAMES {
        symlink("virtual_gpu.so", lib.join(name))?;
    }
    std::fs::create_dir(&bin)?;
    let program = std::env::current_exe()?;
    for name in COMMANDS {
        symlink(&program, bin.join(name))?;
    }
    Ok((object, alive))
}

/// Writes an embedded library.
fn write_library(path: &Path, packed: &[u8]) -> std::io::Result<()> {
    std::io::copy(&mut ZlibDecoder::new(packed), &mut File::create(path)?).map(|_| ())
}

/// Removes the folders of runs that were killed.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(PREFIX) || entry.path().join(KEPT).exists() {
            continue;
        }
        // Containers that share the folder have process ids of their own, so only a lock decides.
        let alive = File::open(entry.path().join(ALIVE));
        if alive.is_ok_and(|file| file.try_lock().is_ok()) {
            // Another run may remove the same folder at this time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn loads(object: &Path) -> bool {
    // SAFETY: our own library, whose initialisers are those of Rust's standard library.
    unsafe { libloading::Library::new(object) }.is_ok()
}
