//! The server's process: adds its row, reports that it is ready, and runs until its daemon stops it
//! or dies.
//!
//! The daemon holds the other end of standard input. Its end means that the daemon has died: the
//! kernel closes it even after SIGKILL.

use std::io::{BufRead, Write};
use std::process::Command;
use std::time::Duration;

use super::{MpsError, SERVER, act, open_device, set_process_name};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::compute_mode;
use gpubench_virtual_gpu_model::mps;

/// Passes the daemon's row and the user id to a server.
const ENV: &str = "GPUBENCH_MPS_SERVER";
/// First word of a server's line when its row exists; the row's number follows.
const READY: &str = "ready ";
/// First word of a server's line when it fails; the reason follows.
const FAILED: &str = "failed ";
/// The daemon's line that stops a server.
const STOP: &str = "stop";
/// How often, and at which interval, a server checks whether its daemon is dead.
const CHECKS: u32 = 100;
const INTERVAL: Duration = Duration::from_millis(10);

pub fn run() -> Result<(), MpsError> {
    let settings = std::env::var(ENV).unwrap_or_default();
    let mut numbers = settings.split(' ').map(str::parse::<u32>);
    let (Some(Ok(daemon)), Some(Ok(uid))) = (numbers.next(), numbers.next()) else {
        let why = format!("{SERVER} is started by its control daemon, not by hand");
        return Err(MpsError::Refused(why));
    };
    set_process_name(SERVER);
    let (device, row) = match enter(daemon, uid) {
        Ok(entered) => entered,
        Err(error) => {
            report(&format!("{FAILED}{error}"));
            return Err(error);
        }
    };
    report(&format!("{READY}{row}"));
    let mut word = String::new();
    // A read error counts as the end of the input.
    let _ = std::io::stdin().lock().read_line(&mut word);
    act(&device, |state| {
        mps::remove_server(state, device.rules(), row);
    })?;
    if word.trim() != STOP {
        reap_daemon(&device, daemon)?;
    }
    Ok(())
}

fn enter(daemon: u32, uid: u32) -> Result<(Device, u32), MpsError> {
    let device = open_device()?;
    let process = device.process()?;
    // A dead process must not count for the compute mode.
    device.reap_dead_processes()?;
    if !act(&device, |state| compute_mode::admits(state, process, None))? {
        let why = "the compute mode of the device refuses the server".to_owned();
        return Err(MpsError::Refused(why));
    }
    let row = act(&device, |state| mps::add_server(state, device.machine(), daemon, process, uid))?;
    Ok((device, row.ok_or(MpsError::Full("server"))?))
}

/// Waits until the kernel has released the locks of the dead daemon, then removes its row.
fn reap_daemon(device: &Device, daemon: u32) -> Result<(), MpsError> {
    for _ in 0..CHECKS {
        device.reap_dead_processes()?;
        let live = device.shared().read(|state| state.daemons.rows[daemon as usize].live);
        if !live.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)? {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

fn report(line: &str) {
    // If the daemon is dead, the next read detects it.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The daemon's side: starts and stops a server's process.
pub mod supervisor {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, Stdio};
    use std::time::Duration;

    use super::{Command, ENV, FAILED, MpsError, READY, STOP};

    /// How often, and at which interval, a stopping server is checked.
    const CHECKS: u32 = 400;
    const INTERVAL: Duration = Duration::from_millis(5);

    /// A server's process, killed when dropped.
    #[derive(Debug)]
    pub struct Process {
        child: Child,
        stdin: Option<ChildStdin>,
        pub row: u32,
    }

    impl Process {
        /// Starts a server and waits until its row exists.
        pub fn start(mut program: Command, daemon: u32, uid: u32) -> Result<Self, MpsError> {
            let start = |source| MpsError::Start { what: "an MPS server", source };
            let mut child = program
                .env(ENV, format!("{daemon} {uid}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(start)?;
            let stdin = child.stdin.take();
            let stdout = child.stdout.take();
            let mut process = Self { child, stdin, row: 0 };
            let mut lines = stdout.map(|pipe| BufReader::new(pipe).lines()).into_iter().flatten();
            // Other lines come from the program that runs the server.
            while let Some(Ok(line)) = lines.next() {
                if let Some(row) = line.strip_prefix(READY).and_then(|row| row.parse().ok()) {
                    process.row = row;
                    return Ok(process);
                }
                if let Some(why) = line.strip_prefix(FAILED) {
                    return Err(MpsError::Refused(why.to_owned()));
                }
            }
            let status = process.child.wait().map_err(start)?;
            let code = status.code().map_or_else(|| status.to_string(), |code| code.to_string());
            Err(MpsError::Refused(format!("Server {} exited with status {code}", process.pid())))
        }

        pub fn pid(&self) -> u32 {
            self.child.id()
        }

        pub fn is_over(&mut self) -> bool {
            // A process that cannot be waited for counts as ended.
            !matches!(self.child.try_wait(), Ok(None))
        }

        /// Stops the server, by force if it does not end.
        pub fn stop(mut self) {
            if let Some(mut stdin) = self.stdin.take() {
                // An error means that it has ended.
                let _ = writeln!(stdin, "{STOP}");
            }
            for _ in 0..CHECKS {
                if self.is_over() {
                    return;
                }
                std::thread::sleep(INTERVAL);
            }
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            // Both fail only if it has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
