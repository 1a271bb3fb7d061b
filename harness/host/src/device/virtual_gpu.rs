//! Starts a virtual GPU: its shared object and its state in a private folder, and the environment
//! with which a program finds it.
#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;
use gpubench_virtual_gpu::device::DeviceError;
use gpubench_virtual_gpu::host_process::own_uid;
use gpubench_virtual_gpu::machine::{BUILT_IN, MachineError};
use gpubench_virtual_gpu::session::{MEMORY_FILE, SessionError, memory_bytes};
use gpubench_virtual_gpu::{NAMES as COMMANDS, nvidia_cuda_mps};
use procfs::{Current, Meminfo};
use rustix::fs::{MemfdFlags, memfd_create, statfs};
use rustix::process::{DumpableBehavior, dumpable_behavior};

use super::limits::{self, LimitError};
use super::private_folder::{PrivateFolder, is_dead, make_own, remove_dead};

// `absent.rs` has the same names for builds without the virtual GPU.
pub use gpubench_virtual_gpu::cgroup::TREE;
pub use gpubench_virtual_gpu::device::Device;
pub use gpubench_virtual_gpu::kernel_log::path as kernel_log;
pub use gpubench_virtual_gpu::machine::{DEFAULT, Machine};
pub use gpubench_virtual_gpu::session::{ENV, MACHINE_FILE, SAMPLE_ENV, Session, TimeMode};

/// The shared object, built with this binary and compressed, as it is a tenth of it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/virtual_gpu.so.zlib"));

/// The stand-in for HAMi-core, built with this binary.
const HAMI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hami.so.zlib"));

/// The commands that stand in for the vendor's, one program that is built with this binary.
const TOOLS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vendor_tools.zlib"));

/// The names with which programs load the driver's libraries: cudarc tries `libcuda.so` first and
/// `libcuda.so.1` last, nvml-wrapper loads `libnvidia-ml.so`.
const NAMES: [&str; 4] = ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1"];

/// The built-in machine with this UUID.
pub fn machine_of(uuid: &str) -> Option<&'static str> {
    // Parsed once: a fleet has thousands of records.
    static UUIDS: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| {
        let names = BUILT_IN.iter().map(|(name, _)| *name);
        names.filter_map(|name| Some((Machine::load(name).ok()?.uuid(), name))).collect()
    });
    UUIDS.iter().find(|(known, _)| known == uuid).map(|(_, name)| *name)
}

/// Beginning of the names of the folders.
const PREFIX: &str = "virtual-gpu-";

/// Why a virtual GPU cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum VirtualGpuError {
    /// No folder accepts the shared object and allows loading it.
    #[error(
        "the virtual GPU cannot be loaded from any of {0}: each may forbid execution or be full \
         (XDG_CACHE_HOME names another)"
    )]
    NoFolder(String),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A running virtual GPU. Its folder is removed when it is dropped.
#[derive(Debug)]
pub struct VirtualGpu {
    root: PrivateFolder,
    machine: Machine,
    /// The contents of device memory, where the folder does not hold them; a link in the folder
    /// names them.
    memory: Option<InMemory>,
}

/// Where contents of device memory are in memory. Programs in a namespace of their own, such as a
/// container, reach a folder and no descriptor of another process.
#[derive(Debug)]
enum InMemory {
    Folder(InShared),
    Descriptor(OwnedFd),
}

/// A folder in that of this user, which goes with the last one in it.
#[derive(Debug)]
struct InShared(Option<PrivateFolder>);

impl Drop for InShared {
    fn drop(&mut self) {
        drop(self.0.take());
        // One that is not empty stays.
        let _ = std::fs::remove_dir(shared_memory());
    }
}

impl InMemory {
    fn path(&self) -> PathBuf {
        match self {
            Self::Folder(InShared(folder)) => {
                folder.as_ref().map_or_else(PathBuf::new, |one| one.path().join(MEMORY_FILE))
            }
            Self::Descriptor(memory) => {
                let own = Path::new("/proc").join(std::process::id().to_string());
                own.join("fd").join(memory.as_raw_fd().to_string())
            }
        }
    }
}

impl VirtualGpu {
    pub fn start(machine: &str, time: TimeMode, seed: u64) -> Result<Self, VirtualGpuError> {
        let machine = Machine::load(machine)?;
        limits::of_memory(memory_bytes(&machine), true)?;
        let mut gpu = Self { root: private_folder()?, machine, memory: None };
        let device = gpu.device_dir();
        let io = |source| SessionError::Io { path: device.display().to_string(), source };
        std::fs::create_dir(&device).map_err(io)?;
        if !is_in_memory(&device) || !has_room(&device) {
            gpu.memory = memory_folder().or_else(memory_file);
        }
        if let Some(memory) = &gpu.memory {
            symlink(memory.path(), device.join(MEMORY_FILE)).map_err(io)?;
        }
        let session = Session { privileged: gpu.machine.privileged, ..Session::new(time, seed) };
        session.create(&device, &gpu.machine)?;
        gpu.take_away().map_err(|source| SessionError::Io {
            path: gpu.root.path().display().to_string(),
            source,
        })?;
        if let Some(library) = gpu.hami_library() {
            unpack(&library, HAMI).map_err(|source| SessionError::Io {
                path: library.display().to_string(),
                source,
            })?;
        }
        Ok(gpu)
    }

    /// Removes commands that the machine does not have, and exports that it plants as missing.
    fn take_away(&self) -> std::io::Result<()> {
        let missing = self.machine.answers.iter().filter(|planted| planted.missing);
        let missing: Vec<&str> = missing.map(|planted| planted.call.as_str()).collect();
        for name in COMMANDS {
            let is_of_mps = [nvidia_cuda_mps::CONTROL, nvidia_cuda_mps::SERVER].contains(&name);
            if missing.contains(&name) || is_of_mps && self.machine.mps.is_none() {
                std::fs::remove_file(self.command_dir().join(name))?;
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let object = self.library_dir().join("virtual_gpu.so");
        let mut bytes = std::fs::read(&object)?;
        for call in missing {
            // The name in the table of exports gets another first letter.
            let name = [b"\0", call.as_bytes(), b"\0"].concat();
            let found = memmem(&bytes, &name);
            found.into_iter().for_each(|at| bytes[at + 1] = b'_');
        }
        // The file that is loaded already is not written to.
        std::fs::remove_file(&object)?;
        std::fs::write(&object, bytes)
    }

    /// Path of the stand-in for HAMi-core; `None` on a machine without it.
    pub fn hami_library(&self) -> Option<PathBuf> {
        self.machine.hami.then(|| self.root.path().join("libvgpu.so"))
    }

    /// The file on disk that holds the contents of device memory; `None` where they are in memory.
    pub fn memory_on_disk(&self) -> Option<PathBuf> {
        let on_disk = self.memory.is_none() && !is_in_memory(self.root.path());
        on_disk.then(|| self.device_dir().join(MEMORY_FILE))
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn library_dir(&self) -> PathBuf {
        self.root.path().join("lib")
    }

    /// The folder of the commands that stand in for the vendor's.
    pub fn command_dir(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    pub fn device_dir(&self) -> PathBuf {
        self.root.path().join("device")
    }

    /// A handle on its clock and state, for the coordinator.
    pub fn open(&self) -> Result<Device, VirtualGpuError> {
        Ok(Device::open(&self.device_dir())?)
    }

    /// The variables with which a program finds it. Search paths extend those of this process.
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
    pub fn is_gone(device_dir: &Path) -> bool {
        device_dir.parent().filter(|_| device_dir.is_dir()).is_none_or(is_dead)
    }

    /// Keeps it when this process ends, before a program has used it. Returns its folder.
    pub fn keep(self) -> Result<PathBuf, VirtualGpuError> {
        let path = self.root.path().display().to_string();
        let contents = self.device_dir().join(MEMORY_FILE);
        let in_folder = || {
            if let Some(memory) = self.memory {
                let bytes = std::fs::metadata(memory.path())?.len();
                std::fs::remove_file(&contents)?;
                File::create_new(&contents)?.set_len(bytes)?;
            }
            self.root.keep()
        };
        in_folder().map_err(|source| SessionError::Io { path, source }.into())
    }
}

/// Makes the private folder in the first parent folder that allows loading its library.
fn private_folder() -> Result<PrivateFolder, VirtualGpuError> {
    let mut tried = Vec::new();
    for parent in parents() {
        tried.push(parent.display().to_string());
        if let Some(made) = make_in(&parent) {
            return Ok(made);
        }
    }
    Err(VirtualGpuError::NoFolder(tried.join(", ")))
}

/// What the buffers of a run take: a smoke run 420 MiB. Device memory is a sparse file, and SIGBUS
/// kills a tenant that writes to it while the disk is full.
const ROOM_BYTES: u64 = 1 << 30;

/// The cache folder, the runtime folder, then one in the temporary folder with the user's id in its
/// name, and the temporary folder itself, where another user has taken that name: any of them may
/// forbid execution. Those in memory come first, and those on a full disk last.
fn parents() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let mut parents: Vec<PathBuf> = cache
        .into_iter()
        .chain(variable("XDG_RUNTIME_DIR"))
        .map(|folder| folder.join("gpubench"))
        .chain([std::env::temp_dir().join(format!("gpubench-{}", own_uid())), std::env::temp_dir()])
        .collect();
    // The sort is stable: equal ones stay in their order.
    parents.sort_by_key(|parent| (!has_room(parent), !is_in_memory(parent)));
    parents
}

/// The folder itself, or the nearest one above it that exists.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(folder)
}

/// Whether the file system of a folder, which may not exist yet, has room for a run.
fn has_room(folder: &Path) -> bool {
    let found = rustix::fs::statvfs(existing(folder)).ok();
    // What cannot be asked is tried in its turn.
    let has_blocks = found.is_none_or(|f| f.f_bavail.saturating_mul(f.f_frsize) >= ROOM_BYTES);
    has_blocks && (!is_in_memory(folder) || free_memory() >= ROOM_BYTES)
}

/// Whether a folder, which may not exist yet, is in a tmpfs.
fn is_in_memory(folder: &Path) -> bool {
    statfs(existing(folder)).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

/// The folder of this user in the memory that processes share (shm_overview(7)).
fn shared_memory() -> PathBuf {
    Path::new("/dev/shm").join(format!("gpubench-{}", own_uid()))
}

/// A folder there with an empty file; `None` where it is not in memory, or has no room for a run.
fn memory_folder() -> Option<InMemory> {
    let parent = shared_memory();
    if !is_in_memory(&parent) || !has_room(&parent) {
        return None;
    }
    make_own(&parent).ok()?;
    remove_dead(&parent, PREFIX);
    let folder = PrivateFolder::make_in(&parent, PREFIX).ok()?;
    File::create_new(folder.path().join(MEMORY_FILE)).ok()?;
    Some(InMemory::Folder(InShared(Some(folder))))
}

/// A file in memory that ends with this process; `None` where memory has no room for a run, or
/// where other processes of this user cannot open the descriptors of this one.
fn memory_file() -> Option<InMemory> {
    let opens = dumpable_behavior().is_ok_and(|found| found == DumpableBehavior::Dumpable);
    if !opens || free_memory() < ROOM_BYTES {
        return None;
    }
    let made = memfd_create("gpubench device memory", MemfdFlags::CLOEXEC);
    made.ok().map(InMemory::Descriptor)
}

/// The memory that this process can still take, under the limits of its control groups.
fn free_memory() -> u64 {
    const GROUPS: &str = "/sys/fs/cgroup";
    let free = Meminfo::current().ok().and_then(|found| found.mem_available).unwrap_or(0);
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = Path::new(GROUPS).join(own);
    let groups = own.ancestors().take_while(|group| group.starts_with(GROUPS));
    let bytes = |group: &Path, file: &str| -> Option<u64> {
        std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
    };
    // A group without a limit has the word "max".
    let left = groups.filter_map(|group| {
        Some(bytes(group, "memory.max")?.saturating_sub(bytes(group, "memory.current")?))
    });
    left.fold(free, u64::min)
}

/// Makes the private folder in a parent folder; `None` if that is not possible, or if the library
/// cannot be loaded from there.
fn make_in(parent: &Path) -> Option<PrivateFolder> {
    // All users share the temporary folder; what is made in it is of this user.
    if parent != std::env::temp_dir() {
        make_own(parent).ok()?;
    }
    remove_dead(parent, PREFIX);
    let root = PrivateFolder::make_in(parent, PREFIX).ok()?;
    let object = fill(root.path()).ok()?;
    loads(&object).then_some(root)
}

/// Writes the libraries and the commands. Returns the shared object.
fn fill(root: &Path) -> std::io::Result<PathBuf> {
    let (lib, bin) = (root.join("lib"), root.join("bin"));
    std::fs::create_dir(&lib)?;
    let object = lib.join("virtual_gpu.so");
    unpack(&object, OBJECT)?;
    for name in NAMES {
        symlink("virtual_gpu.so", lib.join(name))?;
    }
    std::fs::create_dir(&bin)?;
    let tools = bin.join("vendor-tools");
    unpack(&tools, TOOLS)?;
    std::fs::set_permissions(&tools, Permissions::from_mode(0o755))?;
    for name in COMMANDS {
        symlink("vendor-tools", bin.join(name))?;
    }
    Ok(object)
}

/// Where a text occurs.
fn memmem(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(text.len()).enumerate();
    windows.filter(|(_, window)| *window == text).map(|(at, _)| at).collect()
}

/// Writes an embedded file.
fn unpack(path: &Path, packed: &[u8]) -> std::io::Result<()> {
    std::io::copy(&mut ZlibDecoder::new(packed), &mut File::create(path)?).map(|_| ())
}

/// Removes the folders of virtual GPUs whose processes were killed. Returns their paths.
pub fn remove_leftovers() -> Vec<PathBuf> {
    let parents = parents().into_iter().chain([shared_memory()]);
    parents.flat_map(|parent| remove_dead(&parent, PREFIX)).collect()
}

/// Removes the parent folders that hold nothing any more.
pub fn remove_empty_parents() {
    let temporary = std::env::temp_dir();
    let own = parents().into_iter().filter(|parent| *parent != temporary);
    for parent in own.chain([shared_memory()]) {
        // One that is not empty, or does not exist, stays as it is.
        let _ = std::fs::remove_dir(parent);
    }
}

fn loads(object: &Path) -> bool {
    // SAFETY: our own library, whose initialisers are those of Rust's standard library.
    unsafe { libloading::Library::new(object) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::{fill, loads};

    /// Rust's standard library runs destructors at the end of a thread. In a library that is gone
    /// by then they end the process: the thread that listens to Xids may be the last to close it.
    #[test]
    fn a_closed_library_stays_mapped() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let object = fill(dir.path())?;
        let is_mapped = || -> std::io::Result<bool> {
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            Ok(maps.lines().any(|line| object.to_str().is_some_and(|path| line.ends_with(path))))
        };
        assert!(!is_mapped()?);
        assert!(loads(&object));
        assert!(is_mapped()?);
        Ok(())
    }
}
