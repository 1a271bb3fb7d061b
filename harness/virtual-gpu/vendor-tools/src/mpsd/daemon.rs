//! The control daemon: its place, its socket, its row in the device's state, and its servers.
//!
//! Every connection is one line and one answer, on a thread of its own, so that nobody who connects
//! and says nothing holds up the others. [`super::watch`] is the main thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log::{Log, Which};
use super::named::{Named, Seat};
use super::serve::from_outside::Process;
use super::{CONTROL, Folders, MpsdError, Options, Programs};
use super::{act, command, detach, open_device, take_name, v3, watch};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process::{monotonic_ns, own_uid};
use gpubench_virtual_gpu_driver::placement::{self, CONTROL_SOCKET};
use gpubench_virtual_gpu_model::mps::{self, Wish};
use gpubench_virtual_gpu_model::state::MpsDaemon;

/// Longest line, and longest wait for one.
const LINE_MAX: u64 = 4096;
const LINE_WAIT: Duration = Duration::from_secs(5);
/// How long a client waits for another user's server to become free. Its own patience is longer.
const BUSY_NS: u64 = 8_000_000_000;
/// How often a waiting client looks again.
const PACE: Duration = Duration::from_millis(20);

/// A running daemon.
pub struct Daemon {
    /// The device.
    pub device: Device,
    /// Its row.
    pub row: u32,
    /// Static partitions instead of percentages.
    pub static_partitions: bool,
    /// One server for all users.
    multiuser: bool,
    /// User that it runs as.
    pub uid: u32,
    /// Version of the interface that it speaks.
    protocol: u32,
    /// Its pipe directory.
    pub pipe: PathBuf,
    programs: Programs,
    log: Log,
    inside: Mutex<Inside>,
    /// Told when a command wants the main thread to look.
    pub changed: Condvar,
}

/// What the threads of a daemon share.
#[derive(Default)]
pub struct Inside {
    /// Its servers' processes.
    pub servers: Vec<Running>,
    /// Those of the servers that have names.
    pub named: Vec<Named>,
    /// Everybody who ever asked for a server, for the log.
    pub clients: BTreeSet<u32>,
    /// Where those stand who asked for one with a name, by process id.
    pub seats: BTreeMap<u32, Seat>,
    /// When set, the daemon ends with its servers, by force at that instant.
    pub quit_ns: Option<u64>,
}

/// One server.
pub struct Running {
    /// Its process.
    pub process: Process,
    /// It takes no clients any more and ends when they have left.
    pub ending: bool,
}

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

/// Listens at a path in the daemon's own folder: a socket that is there is a dead daemon's.
pub fn bind(path: &Path) -> Result<UnixListener, MpsdError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(MpsdError::place(path)(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(MpsdError::place(path))?;
    // Which users are served is the daemon's to say.
    let for_all = Permissions::from_mode(0o666);
    std::fs::set_permissions(path, for_all).map_err(MpsdError::place(path))?;
    Ok(listener)
}

impl Drop for Place {
    fn drop(&mut self) {
        // Clients that find no socket run without MPS, and so they do if it stays with nobody
        // behind it.
        let _ = std::fs::remove_file(self.folder.join(CONTROL_SOCKET));
        // Its number may soon be somebody else's. The file itself stays: whoever waits for its lock
        // must not get that of another.
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
pub fn serve(daemon: &Arc<Daemon>, mut stream: UnixStream, seat: Option<&Seat>) {
    if stream.set_read_timeout(Some(LINE_WAIT)).is_err() {
        return;
    }
    let mut line = String::new();
    let mut reader = BufReader::new((&stream).take(LINE_MAX));
    if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
        return;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = match newcomer(&words) {
        Some((pid, uid)) => daemon.welcome(pid, uid, seat),
        None if daemon.protocol == 3 => v3::answer(daemon, &words),
        None => command::answer(daemon, &words),
    };
    // Whoever asked and left needs no answer.
    let _ = stream.write_all(answer.as_bytes());
}

/// Process and user of somebody who wants to be a client; nothing for a command.
fn newcomer(words: &[&str]) -> Option<(u32, u32)> {
    match words {
        ["client", pid, uid] => Some((pid.parse().ok()?, uid.parse().ok()?)),
        _ => None,
    }
}

impl Daemon {
    /// What the threads share.
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        // Between statements it is whole, whatever became of a thread.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a line in a log.
    pub fn note(&self, which: Which, text: &str) {
        self.log.write(which, self.device.now_ns(), text);
    }

    /// The answer to a client: its server, or that it is refused.
    fn welcome(&self, pid: u32, uid: u32, seat: Option<&Seat>) -> String {
        let found = match seat {
            Some(seat) => self.named(uid, seat),
            None => self.server(uid).map(|row| (row, Wish::default())),
        };
        match found {
            Ok((row, bounds)) => {
                let mut inside = self.inside();
                inside.clients.insert(pid);
                match seat {
                    Some(seat) => _ = inside.seats.insert(pid, seat.clone()),
                    None => _ = inside.seats.remove(&pid),
                }
                drop(inside);
                self.note(
                    Which::Control,
                    &format!("client {pid} of user {uid}: server row {row}"),
                );
                placement::admitted(row, &bounds)
            }
            Err(error) => {
                self.note(
                    Which::Control,
                    &format!("client {pid} of user {uid} refused: {error}"),
                );
                format!("refused {error}\n")
            }
        }
    }

    /// The row of a server with a name, and what clients of the namespace may have at most.
    fn named(&self, uid: u32, seat: &Seat) -> Result<(u32, Wish), MpsdError> {
        let refused = |text: String| MpsdError::Refused(text);
        let mut inside = self.inside();
        self.forget_dead(&mut inside)?;
        let mut all = inside.named.iter();
        let server = all.find(|server| server.name == seat.server);
        let running = |row: u32| inside.servers.iter().any(|s| s.process.row == row);
        let server = server.filter(|server| running(server.row));
        let server = server.ok_or_else(|| refused(format!("server {} is gone", seat.server)))?;
        if !self.multiuser && server.uid != uid {
            let of = server.uid;
            return Err(refused(format!("server {} is for user {of}", seat.server)));
        }
        let mut namespaces = server.namespaces.iter();
        let namespace = namespaces.find(|known| known.name == seat.namespace);
        let gone = || refused(format!("namespace {} is gone", seat.namespace));
        Ok((server.row, namespace.ok_or_else(gone)?.bounds))
    }

    /// The row of the server for a user's clients, started if there is none. While another user's
    /// server has clients, that takes until they have left: one user is served at a time.
    pub fn server(&self, uid: u32) -> Result<u32, MpsdError> {
        let refused = |text: &str| Err(MpsdError::Refused(text.to_owned()));
        let uid = if self.multiuser { self.uid } else { uid };
        if self.uid != 0 && uid != self.uid {
            return refused("this daemon serves its own user only");
        }
        let until = monotonic_ns() + BUSY_NS;
        let mut inside = self.inside();
        loop {
            if inside.quit_ns.is_some() {
                return refused("this daemon is quitting");
            }
            self.forget_dead(&mut inside)?;
            let named: Vec<u32> = inside.named.iter().map(|server| server.row).collect();
            let unnamed = |server: &&Running| !named.contains(&server.process.row);
            let taken = self.device.transact(|state, _| {
                let mut servers = inside.servers.iter().filter(unnamed);
                let found = servers.find(|server| {
                    let row = &state.servers.rows[server.process.row as usize];
                    !server.ending && row.uid == uid
                });
                found.map(|server| server.process.row)
            })?;
            if let Some(row) = taken {
                return Ok(row);
            }
            if !inside.servers.iter().any(|server| unnamed(&server)) {
                return self.start(&mut inside, uid);
            }
            if monotonic_ns() >= until {
                return refused("the server of another user is busy");
            }
            for server in &mut inside.servers {
                server.ending |= !named.contains(&server.process.row);
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(inside, PACE);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts a server for a user's clients.
    pub fn start(&self, inside: &mut Inside, uid: u32) -> Result<u32, MpsdError> {
        let process = Process::start((self.programs.server)(), self.row, uid)?;
        let (row, pid) = (process.row, process.pid());
        inside.servers.push(Running {
            process,
            ending: false,
        });
        let text = format!("server {pid} started for user {uid}");
        self.note(Which::Control, &text);
        self.note(Which::Server, &text);
        Ok(row)
    }

    /// Takes back what ended servers held.
    pub fn forget_dead(&self, inside: &mut Inside) -> Result<(), MpsdError> {
        let before = inside.servers.len();
        inside.servers.retain_mut(|server| {
            let over = server.process.is_over();
            if over {
                let pid = server.process.pid();
                self.note(Which::Server, &format!("server {pid} ended unasked"));
            }
            !over
        });
        if inside.servers.len() < before {
            self.device.bury_the_dead()?;
        }
        Ok(())
    }
}
