//! The server's process: enters its row, says so, and lives until its daemon ends it or dies.
//!
//! The daemon holds the other end of standard input. The end of it is the daemon's death, however
//! that came; the kernel closes it even after SIGKILL.

use std::io::{BufRead, Write};
use std::process::Command;
use std::time::Duration;

use super::{MpsdError, SERVER, act, open_device, take_name};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::compute_mode;
use gpubench_virtual_gpu_model::mps;

/// Tells a server its daemon's row and its user.
const ENV: &str = "GPUBENCH_MPS_SERVER";
/// What a server says when its row is there, before the row's number.
const READY: &str = "ready ";
/// What a server says when it cannot serve, before the reason.
const FAILED: &str = "failed ";
/// What the daemon says to end a server in order.
const STOP: &str = "stop";
/// How often and at what pace a server looks whether its daemon is really gone.
const LOOKS: u32 = 100;
const PACE: Duration = Duration::from_millis(10);

/// Runs a server to its end.
pub fn run() -> Result<(), MpsdError> {
    let told = std::env::var(ENV).unwrap_or_default();
    let mut numbers = told.split(' ').map(str::parse::<u32>);
    let (Some(Ok(daemon)), Some(Ok(uid))) = (numbers.next(), numbers.next()) else {
        let why = format!("{SERVER} is started by its control daemon, not by hand");
        return Err(MpsdError::Refused(why));
    };
    take_name(SERVER);
    let (device, row) = match enter(daemon, uid) {
        Ok(entered) => entered,
        Err(error) => {
            say(&format!("{FAILED}{error}"));
            return Err(error);
        }
    };
    say(&format!("{READY}{row}"));
    let mut word = String::new();
    // An unreadable input is as good as a closed one.
    let _ = std::io::stdin().lock().read_line(&mut word);
    act(&device, |state| {
        mps::remove_server(state, row, mps::SERVER_DIED);
    })?;
    if word.trim() != STOP {
        reap_daemon(&device, daemon)?;
    }
    Ok(())
}

fn enter(daemon: u32, uid: u32) -> Result<(Device, u32), MpsdError> {
    let device = open_device()?;
    let process = device.process()?;
    // A process that is no more keeps nobody out.
    device.reap_dead_processes()?;
    if !act(&device, |state| compute_mode::admits(state, process, None))? {
        let why = "the compute mode of the device keeps the server out".to_owned();
        return Err(MpsdError::Refused(why));
    }
    let row = act(&device, |state| {
        mps::add_server(state, device.machine(), daemon, process, uid)
    })?;
    Ok((device, row.ok_or(MpsdError::Full("server"))?))
}

/// The daemon died: its row goes as soon as the kernel has taken its locks back.
fn reap_daemon(device: &Device, daemon: u32) -> Result<(), MpsdError> {
    for _ in 0..LOOKS {
        device.reap_dead_processes()?;
        let live = device
            .shared()
            .read(|state| state.daemons.rows[daemon as usize].live);
        if !live.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)? {
            return Ok(());
        }
        std::thread::sleep(PACE);
    }
    Ok(())
}

fn say(line: &str) {
    // The daemon that does not hear it is gone, which the next read tells.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The daemon's side of a server's life.
pub mod from_outside {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, Stdio};
    use std::time::Duration;

    use super::{Command, ENV, FAILED, MpsdError, READY, STOP};

    /// How often a server that was told to end is asked whether it has, and at what pace.
    const LOOKS: u32 = 400;
    const PACE: Duration = Duration::from_millis(5);

    /// A server's process, ended when dropped.
    #[derive(Debug)]
    pub struct Process {
        child: Child,
        stdin: Option<ChildStdin>,
        /// Its row.
        pub row: u32,
    }

    impl Process {
        /// Starts a server and waits until its row is there.
        pub fn start(mut program: Command, daemon: u32, uid: u32) -> Result<Self, MpsdError> {
            let start = |source| MpsdError::Start {
                what: "an MPS server",
                source,
            };
            let mut child = program
                .env(ENV, format!("{daemon} {uid}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(start)?;
            let stdin = child.stdin.take();
            let stdout = child.stdout.take();
            let mut process = Self {
                child,
                stdin,
                row: 0,
            };
            let silent = || MpsdError::Refused("the MPS server ended before it served".to_owned());
            let mut lines = BufReader::new(stdout.ok_or_else(silent)?).lines();
            // Lines that are neither answer are those of the program around a server.
            while let Some(Ok(line)) = lines.next() {
                if let Some(row) = line.strip_prefix(READY).and_then(|row| row.parse().ok()) {
                    process.row = row;
                    return Ok(process);
                }
                if let Some(why) = line.strip_prefix(FAILED) {
                    return Err(MpsdError::Refused(why.to_owned()));
                }
            }
            Err(silent())
        }

        /// Its process id.
        pub fn pid(&self) -> u32 {
            self.child.id()
        }

        /// Whether it has ended by itself or by another process.
        pub fn is_over(&mut self) -> bool {
            // One that cannot be asked is none that can be used.
            !matches!(self.child.try_wait(), Ok(None))
        }

        /// Ends it in order, or by force when it does not listen.
        pub fn stop(mut self) {
            if let Some(mut stdin) = self.stdin.take() {
                // One that is gone already needs no word.
                let _ = writeln!(stdin, "{STOP}");
            }
            for _ in 0..LOOKS {
                if self.is_over() {
                    return;
                }
                std::thread::sleep(PACE);
            }
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            // Both fail only for one that is gone, which is what is wanted.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
