//! Stand-ins for `nvidia-cuda-mps-control` and `nvidia-cuda-mps-server`.
//!
//! The model has the rules of MPS; this module has the processes. A control daemon serves a socket
//! in its pipe directory and starts a server process for a user's clients. The server's process
//! holds the context that the clients join. Both are processes of the device, so their deaths are
//! detected, and neither takes part in virtual time: they change the state at the present instant,
//! so a client can hold the clock while it waits for an answer.
//!
//! A daemon speaks version 2 of the protocol (`command`) or, on request and where the driver has
//! it, version 3 (`v3`). Two things differ from the vendor's: servers run as the user of the
//! daemon, and some modules of version 3 are missing.

mod client;
mod command;
mod daemon;
mod detach;
mod file;
mod listen;
mod log;
mod named;
mod options;
mod partition;
mod query;
mod rows;
mod serve;
mod socket;
mod v3;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::placement::{PIPE_DIRECTORY, ROOT_DIRECTORY};
use gpubench_virtual_gpu_driver::session;
use gpubench_virtual_gpu_model::simulation;
use gpubench_virtual_gpu_model::state::State;
use gpubench_virtual_gpu_model::virtual_time;

pub use client::send;
use options::{Mode, Options};

/// Name of the command for daemon and front end.
pub const CONTROL: &str = "nvidia-cuda-mps-control";
pub const SERVER: &str = "nvidia-cuda-mps-server";
const LOG_DIRECTORY: &str = "/var/log/nvidia-mps";

/// How this program starts itself under the two names.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// Starts the control command; options are appended.
    pub control: fn() -> Command,
    pub server: fn() -> Command,
}

/// Why a command of MPS fails. A refusal by a running daemon is an answer, not an error.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    #[error(
        "unknown option {0:?} (accepted: -a FILE, -d, -f, -v, -q, -p 2|3, -S, \
         --static-partitioning, -multiuser-server, or a command)"
    )]
    Option(String),
    #[error("protocol version {0:?} is not available (accepted: 2, and 3 from driver 615 on)")]
    Protocol(String),
    /// A refusal by a daemon of protocol version 3.
    #[error("{0}")]
    Command(String),
    /// The environment names no virtual GPU.
    #[error("no virtual GPU: {} is not set", session::ENV)]
    NoDevice,
    /// The machine's driver has no MPS.
    #[error("the driver of machine {0:?} has no MPS")]
    NoMps(String),
    /// The machine's driver has no static partitions.
    #[error("the MPS of machine {0:?} has no static partitions")]
    NoPartitions(String),
    /// `CUDA_VISIBLE_DEVICES` names no existing device.
    #[error("no device is visible: CUDA_VISIBLE_DEVICES names none that exists")]
    NotVisible,
    /// A folder or file of the daemon cannot be used.
    #[error("{path}: {source}")]
    Io {
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Another daemon serves the folder.
    #[error("An instance of this daemon is already running")]
    AlreadyRunning,
    /// No daemon answers.
    #[error("Cannot find MPS control daemon process")]
    Unreachable,
    #[error("starting {what}: {source}")]
    Start {
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A process of MPS failed to start, or refuses a command; the text says why.
    #[error("{0}")]
    Refused(String),
    #[error("the virtual GPU has no room for another MPS {0}")]
    Full(&'static str),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn refuse<T>(why: String) -> Result<T, MpsError> {
    Err(MpsError::Refused(why))
}

impl MpsError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        |source| Self::Io { path, source }
    }
}

/// Runs the control command with its whole argument vector, and returns its status.
pub fn control(argv: &[OsString], programs: &Programs) -> u8 {
    let done = options::parse(argv).and_then(|options| match &options.mode {
        Mode::Front => client::run(&Folders::from_environment(options.protocol).pipe),
        Mode::Command(words) => {
            client::once(&Folders::from_environment(options.protocol).pipe, words)
        }
        Mode::Background => detach::start(programs, &options),
        Mode::Foreground => listen::run(programs, &options),
        Mode::Version => print_version(),
    });
    finish(CONTROL, done)
}

/// Runs the server command, and returns its status.
pub fn server() -> u8 {
    finish(SERVER, serve::run())
}

fn finish(name: &str, done: Result<(), MpsError>) -> u8 {
    match done {
        Ok(()) => 0,
        // Text and stream are those of the vendor's command.
        Err(error @ MpsError::AlreadyRunning) if !detach::is_waited_for() => {
            client::print(&format!("{error}\n"));
            1
        }
        Err(error @ MpsError::Unreachable) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            1
        }
        Err(error) => {
            // If standard error is closed, the exit status remains.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            1
        }
    }
}

fn print_version() -> Result<(), MpsError> {
    let device = open_device()?;
    client::print(&format!("CUDA MPS {}\n", device.machine().gpu.driver));
    Ok(())
}

#[derive(Debug, Clone)]
struct Folders {
    pipe: PathBuf,
    log: PathBuf,
}

impl Folders {
    fn from_environment(protocol: u32) -> Self {
        let folder = if protocol >= 3 { ROOT_DIRECTORY } else { PIPE_DIRECTORY };
        let named = |name: &str, default: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        Self {
            pipe: named("CUDA_MPS_PIPE_DIRECTORY", folder),
            log: named("CUDA_MPS_LOG_DIRECTORY", LOG_DIRECTORY),
        }
    }
}

fn open_device() -> Result<Device, MpsError> {
    let dir = std::env::var_os(session::ENV).ok_or(MpsError::NoDevice)?;
    Ok(Device::open(Path::new(&dir))?)
}

fn set_process_name(name: &str) {
    let _ = std::fs::write("/proc/self/comm", name);
}

/// Changes the state at the present instant from outside virtual time, then grants the clock if
/// that meets a condition.
fn act<R>(device: &Device, body: impl FnOnce(&mut State) -> R) -> Result<R, DeviceError> {
    device.catch_up()?;
    let (out, granted) = device.shared().transact(|state, side| {
        let out = body(state);
        simulation::settle(state, side, device.rules());
        (out, virtual_time::advance(state, side, device.rules()))
    })?;
    if let Ok(participant) = granted {
        device.shared().wake(participant);
    }
    device.shared().notify_change();
    Ok(out)
}
