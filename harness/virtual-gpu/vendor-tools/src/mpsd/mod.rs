//! The programs of MPS as users meet them: `nvidia-cuda-mps-control` and `nvidia-cuda-mps-server`.
//!
//! The rules of MPS are those of `crate::mps`; here are the processes around them. A control daemon
//! answers on a socket in its pipe directory and starts a server process for a user's clients; the
//! server's process holds the context that the clients join. Both are processes of the device, so
//! that their deaths are noticed like anybody's, and neither takes part in virtual time: what they
//! change, they change at the standing instant, so a client that waits for an answer may hold the
//! clock meanwhile.
//!
//! A daemon speaks the second version of the interface (`command`) or, where the driver has it and
//! it is asked for, the third (`v3`). Two things differ from the vendor's: servers keep the user of
//! the daemon (a model needs no rights), and of the third version some modules are missing.

mod client;
mod command;
mod daemon;
mod detach;
mod listen;
mod log;
mod named;
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
use gpubench_virtual_gpu_driver::placement::PIPE_DIRECTORY;
use gpubench_virtual_gpu_driver::session;
use gpubench_virtual_gpu_model::pump;
use gpubench_virtual_gpu_model::simulation;
use gpubench_virtual_gpu_model::state::State;

pub use client::ask;

/// Name of the command that is daemon and front end.
pub const CONTROL: &str = "nvidia-cuda-mps-control";
/// Name of the server's command.
pub const SERVER: &str = "nvidia-cuda-mps-server";
/// Where the daemon writes its logs if nothing else is said (MPS documentation).
const LOG_DIRECTORY: &str = "/var/log/nvidia-mps";

/// How this program starts itself again under the two names.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// Starts the control command; options are added behind.
    pub control: fn() -> Command,
    /// Starts a server.
    pub server: fn() -> Command,
}

/// Why a command of MPS ends with a failure. What a running daemon refuses is an answer and none of
/// these.
#[derive(Debug, thiserror::Error)]
pub enum MpsdError {
    /// An option that does not exist.
    #[error(
        "unknown option {0:?} (accepted: -d, -f, -v, -q, -p 2|3, -S, --static-partitioning, \
         -multiuser-server, or a command)"
    )]
    Option(String),
    /// A version of the interface that is not there.
    #[error("protocol version {0:?} is not available (accepted: 2, and 3 from driver 615 on)")]
    Protocol(String),
    /// A daemon of the third version refused a command.
    #[error("{0}")]
    Command(String),
    /// There is no virtual GPU in the environment.
    #[error("no virtual GPU: {} is not set", session::ENV)]
    NoDevice,
    /// The machine's driver has no MPS.
    #[error("the driver of machine {0:?} has no MPS")]
    NoMps(String),
    /// The machine's driver has no static partitions.
    #[error("the MPS of machine {0:?} has no static partitions")]
    NoPartitions(String),
    /// `CUDA_VISIBLE_DEVICES` names nothing that is there.
    #[error("no device is visible: CUDA_VISIBLE_DEVICES names none that exists")]
    NotVisible,
    /// A folder or file of the daemon cannot be used.
    #[error("{path}: {source}")]
    Place {
        /// Which one.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another daemon has the folder.
    #[error("An instance of this daemon is already running")]
    Taken,
    /// Nobody answers.
    #[error("Cannot find MPS control daemon process")]
    Unreachable,
    /// The program could not be started again.
    #[error("starting {what}: {source}")]
    Start {
        /// What was to be started.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A process of MPS did not come up, and said why.
    #[error("{0}")]
    Refused(String),
    /// The state file is full.
    #[error("the virtual GPU has no room for another MPS {0}")]
    Full(&'static str),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl MpsdError {
    fn place(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        |source| Self::Place { path, source }
    }
}

/// What the control command is asked to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    /// A front end to a daemon.
    Front,
    /// A front end that asks one thing.
    Ask(String),
    /// A daemon that goes on in the background.
    Background,
    /// A daemon.
    Foreground,
    /// Something that tells its version.
    Version,
}

/// The options of the control command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    mode: Mode,
    static_partitions: bool,
    multiuser: bool,
    /// Version of the interface.
    protocol: u32,
}

/// Runs the control command with its whole argument vector, and returns its status.
#[must_use]
pub fn control(argv: &[OsString], programs: &Programs) -> u8 {
    let done = options(argv).and_then(|options| match &options.mode {
        Mode::Front => client::run(&Folders::from_environment().pipe),
        Mode::Ask(words) => client::once(&Folders::from_environment().pipe, words),
        Mode::Background => detach::start(programs, &options),
        Mode::Foreground => listen::run(programs, &options),
        Mode::Version => say_version(),
    });
    finish(CONTROL, done)
}

/// Runs the server command, and returns its status.
#[must_use]
pub fn server() -> u8 {
    finish(SERVER, serve::run())
}

fn finish(name: &str, done: Result<(), MpsdError>) -> u8 {
    match done {
        Ok(()) => 0,
        // Word for word and where the vendor's command says it (as in `command`).
        Err(error @ MpsdError::Taken) if !detach::is_waited_for() => {
            client::print(&format!("{error}\n"));
            1
        }
        Err(error @ MpsdError::Unreachable) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            1
        }
        Err(error) => {
            // With nobody left to read it, the status has to do.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            1
        }
    }
}

fn options(argv: &[OsString]) -> Result<Options, MpsdError> {
    let mut options = Options {
        mode: Mode::Front,
        static_partitions: false,
        multiuser: false,
        protocol: 2,
    };
    let mut protocol = std::env::var("CUDA_MPS_PROTOCOL_VERSION").ok();
    let mut words = argv.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match &*word {
            "-d" => options.mode = Mode::Background,
            "-f" => options.mode = Mode::Foreground,
            "-v" => options.mode = Mode::Version,
            "-S" | "--static-partitioning" => options.static_partitions = true,
            "-m" | "--multiuser" | "-multiuser-server" | "--multiuser-server" => {
                options.multiuser = true;
            }
            "-q" | "--quit" => options.mode = Mode::Ask("quit".to_owned()),
            module if !module.starts_with('-') => {
                let rest: Vec<_> = words.by_ref().collect();
                let all = [module].into_iter().chain(rest.iter().map(AsRef::as_ref));
                options.mode = Mode::Ask(all.collect::<Vec<&str>>().join(" "));
            }
            // The environment wins over the option (MPS documentation, release 615).
            "-p" | "--protocol" => {
                let asked = words.next().unwrap_or_default().into_owned();
                protocol = protocol.or(Some(asked));
            }
            other => return Err(MpsdError::Option(other.to_owned())),
        }
    }
    options.protocol = match protocol.as_deref() {
        None | Some("2") => 2,
        Some("3") => 3,
        Some(other) => return Err(MpsdError::Protocol(other.to_owned())),
    };
    Ok(options)
}

fn say_version() -> Result<(), MpsdError> {
    let device = open_device()?;
    client::print(&format!("CUDA MPS {}\n", device.machine().gpu.driver));
    Ok(())
}

/// Where a daemon is found and where it writes.
#[derive(Debug, Clone)]
struct Folders {
    pipe: PathBuf,
    log: PathBuf,
}

impl Folders {
    fn from_environment() -> Self {
        let named = |name: &str, default: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        Self {
            pipe: named("CUDA_MPS_PIPE_DIRECTORY", PIPE_DIRECTORY),
            log: named("CUDA_MPS_LOG_DIRECTORY", LOG_DIRECTORY),
        }
    }
}

fn open_device() -> Result<Device, MpsdError> {
    let dir = std::env::var_os(session::ENV).ok_or(MpsdError::NoDevice)?;
    Ok(Device::open(Path::new(&dir))?)
}

/// Names the process, as far as the system shows names, after the command that it plays.
fn take_name(name: &str) {
    // Only lists of processes show it; the system cuts it to fit.
    let _ = std::fs::write("/proc/self/comm", name);
}

/// Changes the state at the present instant from beside the clock: whoever can go on because of it
/// does.
fn act<R>(device: &Device, body: impl FnOnce(&mut State) -> R) -> Result<R, DeviceError> {
    device.catch_up()?;
    let (out, granted) = device.shared().transact(|state, side| {
        let out = body(state);
        simulation::settle(state, side, device.rules());
        (out, pump::pump(state, side, device.rules()))
    })?;
    if let Ok(participant) = granted {
        device.shared().wake(participant);
    }
    device.shared().notify_change();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Mode, Options, options};

    fn of(line: &str) -> Result<Options, String> {
        let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        options(&argv).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_the_manual_and_no_others() {
        let plain = Options {
            mode: Mode::Front,
            static_partitions: false,
            multiuser: false,
            protocol: 2,
        };
        let cases = [
            ("control", plain.clone()),
            (
                "control server list --format=csv,noheader",
                Options {
                    mode: Mode::Ask("server list --format=csv,noheader".to_owned()),
                    ..plain.clone()
                },
            ),
            (
                "control -q",
                Options {
                    mode: Mode::Ask("quit".to_owned()),
                    ..plain.clone()
                },
            ),
            (
                "control -d -p 3",
                Options {
                    mode: Mode::Background,
                    protocol: 3,
                    ..plain.clone()
                },
            ),
            (
                "control -d",
                Options {
                    mode: Mode::Background,
                    ..plain.clone()
                },
            ),
            (
                "control -f -p 2",
                Options {
                    mode: Mode::Foreground,
                    ..plain.clone()
                },
            ),
            (
                "control -v",
                Options {
                    mode: Mode::Version,
                    ..plain.clone()
                },
            ),
            (
                "control -d -S -multiuser-server",
                Options {
                    mode: Mode::Background,
                    static_partitions: true,
                    multiuser: true,
                    protocol: 2,
                },
            ),
            (
                "control --static-partitioning -f",
                Options {
                    mode: Mode::Foreground,
                    static_partitions: true,
                    ..plain.clone()
                },
            ),
        ];
        for (line, want) in cases {
            assert_eq!(of(line), Ok(want), "{line}");
        }
        assert!(of("control -x").is_err_and(|said| said.contains("\"-x\"")));
        assert!(of("control -d -p 4").is_err_and(|said| said.contains("\"4\"")));
    }
}
