//! The control daemon's process: its pipe directory, its socket, and its connections.
//!
//! Every connection carries one line and one answer and has its own thread, so that an idle client
//! delays no other. [`super::watch`] is the main thread.

use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::daemon::Daemon;
use super::log::{Log, Which};
use super::named::NamespaceId;
use super::socket::bind;
use super::{CONTROL, Folders, MpsError, Options, Programs};
use super::{act, command, detach, file, open_device, set_process_name, v3, watch};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process::own_uid;
use gpubench_virtual_gpu_driver::placement::{self, CONTROL_SOCKET};
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::MpsDaemon;

const LINE_MAX: u64 = 4096;

const LINE_WAIT: Duration = Duration::from_secs(5);

pub fn run(programs: &Programs, options: &Options) -> Result<(), MpsError> {
    detach::begin();
    let device = open_device()?;
    let machine = device.machine();
    let mps = machine.mps.as_ref();
    let mps = mps.ok_or_else(|| MpsError::NoMps(machine.name.clone()))?;
    if options.static_partitions && mps.chunk_sms == 0 {
        return Err(MpsError::NoPartitions(machine.name.clone()));
    }
    if options.protocol > mps.protocol {
        return Err(MpsError::Protocol(options.protocol.to_string()));
    }
    let folders = Folders::from_environment(options.protocol);
    let directory = PipeDirectory::lock(&folders.pipe)?;
    set_process_name(CONTROL);
    let row = enter(&device, &directory.folder, options)?;
    let daemon = Arc::new(Daemon {
        row,
        static_partitions: options.static_partitions,
        multiuser: options.multiuser,
        uid: own_uid(),
        protocol: options.protocol,
        pipe: directory.folder.clone(),
        programs: *programs,
        log: Log::open(&folders.log)?,
        shared: Mutex::default(),
        changed: Condvar::new(),
        device,
    });
    if let Some(path) = &options.apply {
        file::apply(&daemon, Path::new(path))?;
    }
    let listener = directory.listen()?;
    daemon.note(Which::Control, &starting(&directory.folder));
    let accepting = Arc::clone(&daemon);
    std::thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || accept(&accepting, &listener))
        .map_err(MpsError::io(&directory.folder))?;
    detach::listening().map_err(MpsError::io(&directory.folder))?;
    let done = watch::watch(&daemon);
    // Sockets of namespaces are removed before that of the daemon.
    let named = std::mem::take(&mut daemon.shared().named);
    drop(named);
    daemon.note(Which::Control, "Exit with status 0");
    done
}

fn starting(folder: &Path) -> String {
    format!("Starting control daemon using socket {}/{CONTROL_SOCKET}", folder.display())
}

fn enter(device: &Device, pipe: &Path, options: &Options) -> Result<u32, MpsError> {
    let machine = device.machine();
    let process = device.process()?;
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let percentage = text("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    let limit = text("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    act(device, |state| {
        let engine = placement::visible(state, machine).ok_or(MpsError::NotVisible)?;
        let daemon = MpsDaemon {
            live: true,
            static_partitions: options.static_partitions,
            process,
            pipe: mps::folder_key(pipe),
            engine,
            percentage: command::percentage(&percentage).unwrap_or(100),
            memory_limit: placement::limit_of(machine, &limit).unwrap_or(0),
            priority: 0,
        };
        mps::add_daemon(state, daemon).ok_or(MpsError::Full("daemon"))
    })?
}

/// The daemon's pipe directory, locked for its lifetime.
struct PipeDirectory {
    folder: PathBuf,
    /// Locked by the daemon that serves the folder.
    pid_file: File,
}

impl PipeDirectory {
    fn lock(folder: &Path) -> Result<Self, MpsError> {
        std::fs::create_dir_all(folder).map_err(MpsError::io(folder))?;
        let folder = folder.canonicalize().map_err(MpsError::io(folder))?;
        // The name is documented: scripts find the daemon's process through it.
        let path = folder.join(format!("{CONTROL}.pid"));
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false);
        let mut file = opened.open(&path).map_err(MpsError::io(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MpsError::AlreadyRunning),
            Err(TryLockError::Error(error)) => return Err(MpsError::io(&path)(error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(MpsError::io(&path))?;
        Ok(Self { folder, pid_file: file })
    }

    fn listen(&self) -> Result<UnixListener, MpsError> {
        bind(&self.folder.join(CONTROL_SOCKET))
    }
}

impl Drop for PipeDirectory {
    fn drop(&mut self) {
        // Clients run without MPS if there is no socket, or no daemon behind it.
        let _ = std::fs::remove_file(self.folder.join(CONTROL_SOCKET));
        // The process id can be reused. The file itself stays: a process that waits for its lock
        // must get the same lock.
        let _ = self.pid_file.set_len(0);
    }
}

fn accept(daemon: &Arc<Daemon>, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        let serving = Arc::clone(daemon);
        let name = std::thread::Builder::new().name("answer".to_owned());
        // If the thread cannot be started, the connection closes without an answer.
        let _ = name.spawn(move || serve(&serving, stream, None));
    }
}

/// Answers one connection, at the daemon's socket or at that of a namespace.
pub fn serve(daemon: &Arc<Daemon>, mut stream: UnixStream, namespace_id: Option<&NamespaceId>) {
    if stream.set_read_timeout(Some(LINE_WAIT)).is_err() {
        return;
    }
    let mut line = String::new();
    let mut reader = BufReader::new((&stream).take(LINE_MAX));
    if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
        return;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = match client_in(&words) {
        Some((pid, uid)) => daemon.admit(pid, uid, namespace_id),
        None if daemon.protocol == 3 => v3::answer(daemon, &words),
        None => command::answer(daemon, &words),
    };
    // A client that has disconnected needs no answer.
    let _ = stream.write_all(answer.as_bytes());
}

pub fn handler(
    daemon: &Arc<Daemon>,
    namespace_id: NamespaceId,
) -> impl Fn(UnixStream) + Send + Sync + 'static {
    let daemon = Arc::clone(daemon);
    move |stream| serve(&daemon, stream, Some(&namespace_id))
}

/// Process and user of a client that connects; `None` for a command.
fn client_in(words: &[&str]) -> Option<(u32, u32)> {
    match words {
        ["client", pid, uid] => Some((pid.parse().ok()?, uid.parse().ok()?)),
        _ => None,
    }
}
