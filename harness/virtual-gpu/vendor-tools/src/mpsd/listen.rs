//! The control daemon's process: its place, its socket, and the answer to each connection.
//!
//! Every connection is one line and one answer, on a thread of its own, so that a client that
//! connects and sends nothing holds up no other. [`super::watch`] is the main thread.

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
use super::{CONTROL, Folders, MpsdError, Options, Programs};
use super::{act, command, detach, open_device, take_name, v3, watch};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process::own_uid;
use gpubench_virtual_gpu_driver::placement::{self, CONTROL_SOCKET};
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::MpsDaemon;

/// Longest line, and longest wait for one.
const LINE_MAX: u64 = 4096;

const LINE_WAIT: Duration = Duration::from_secs(5);

/// Runs a daemon until somebody tells it to quit.
pub fn run(programs: &Programs, options: &Options) -> Result<(), MpsdError> {
    detach::begin();
    let device = open_device()?;
    let machine = device.machine();
    let mps = machine.mps.as_ref();
    let mps = mps.ok_or_else(|| MpsdError::NoMps(machine.name.clone()))?;
    if options.static_partitions && mps.chunk_sms == 0 {
        return Err(MpsdError::NoPartitions(machine.name.clone()));
    }
    if options.protocol > mps.protocol {
        return Err(MpsdError::Protocol(options.protocol.to_string()));
    }
    let folders = Folders::from_environment();
    let place = Place::take(&folders.pipe)?;
    take_name(CONTROL);
    let row = enter(&device, &place.folder, options)?;
    let daemon = Arc::new(Daemon {
        row,
        static_partitions: options.static_partitions,
        multiuser: options.multiuser,
        uid: own_uid(),
        protocol: options.protocol,
        pipe: place.folder.clone(),
        programs: *programs,
        log: Log::open(&folders.log)?,
        inside: Mutex::default(),
        changed: Condvar::new(),
        device,
    });
    let listener = place.listen()?;
    daemon.note(
        Which::Control,
        &format!("listening on {}", place.folder.display()),
    );
    let accepting = Arc::clone(&daemon);
    std::thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || accept(&accepting, &listener))
        .map_err(MpsdError::place(&place.folder))?;
    detach::listening().map_err(MpsdError::place(&place.folder))?;
    let done = watch::watch(&daemon);
    // Their sockets go before that of the daemon.
    let named = std::mem::take(&mut daemon.inside().named);
    drop(named);
    daemon.note(Which::Control, "quit");
    done
}

/// Enters the daemon in the device's state.
fn enter(device: &Device, pipe: &Path, options: &Options) -> Result<u32, MpsdError> {
    let machine = device.machine();
    let process = device.process()?;
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let percentage = text("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    let limit = text("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    act(device, |state| {
        let engine = placement::visible(state, machine).ok_or(MpsdError::NotVisible)?;
        let daemon = MpsDaemon {
            live: true,
            static_partitions: options.static_partitions,
            process,
            pipe: mps::folder_key(pipe),
            engine,
            percentage: command::percentage(&percentage).unwrap_or(100),
            memory_limit: command::limit_of_device(&limit).unwrap_or(0),
            priority: 0,
        };
        mps::add_daemon(state, daemon).ok_or(MpsdError::Full("daemon"))
    })?
}

/// A pipe directory that is this daemon's as long as it lives.
struct Place {
    folder: PathBuf,
    /// Locked: its owner serves the folder.
    pid_file: File,
}

impl Place {
    fn take(folder: &Path) -> Result<Self, MpsdError> {
        std::fs::create_dir_all(folder).map_err(MpsdError::place(folder))?;
        let folder = folder.canonicalize().map_err(MpsdError::place(folder))?;
        // The name is documented: scripts find the daemon's process by it.
        let path = folder.join(format!("{CONTROL}.pid"));
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false);
        let mut file = opened.open(&path).map_err(MpsdError::place(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MpsdError::Taken),
            Err(TryLockError::Error(error)) => return Err(MpsdError::place(&path)(error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(MpsdError::place(&path))?;
        Ok(Self {
            folder,
            pid_file: file,
        })
    }

    fn listen(&self) -> Result<UnixListener, MpsdError> {
        bind(&self.folder.join(CONTROL_SOCKET))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Clients that find no socket run without MPS, and so they do if it stays with nobody
        // behind it.
        let _ = std::fs::remove_file(self.folder.join(CONTROL_SOCKET));
        // Its number may soon be another process's. The file itself stays: a process that waits for
        // its lock must not get another lock.
        let _ = self.pid_file.set_len(0);
    }
}

fn accept(daemon: &Arc<Daemon>, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        let serving = Arc::clone(daemon);
        let name = std::thread::Builder::new().name("answer".to_owned());
        // Without a thread for it the connection is closed unanswered.
        let _ = name.spawn(move || serve(&serving, stream, None));
    }
}

/// Answers one connection: at the daemon's own socket, or at that of a namespace.
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
        Some((pid, uid)) => daemon.welcome(pid, uid, namespace_id),
        None if daemon.protocol == 3 => v3::answer(daemon, &words),
        None => command::answer(daemon, &words),
    };
    // Whoever asked and left needs no answer.
    let _ = stream.write_all(answer.as_bytes());
}

/// What answers the connections at the socket of a namespace.
pub fn answering(
    daemon: &Arc<Daemon>,
    namespace_id: NamespaceId,
) -> impl Fn(UnixStream) + Send + Sync + 'static {
    let daemon = Arc::clone(daemon);
    move |stream| serve(&daemon, stream, Some(&namespace_id))
}

/// Process and user of a client that asks for its server; `None` for a command.
fn client_in(words: &[&str]) -> Option<(u32, u32)> {
    match words {
        ["client", pid, uid] => Some((pid.parse().ok()?, uid.parse().ok()?)),
        _ => None,
    }
}
