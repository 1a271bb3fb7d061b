//! A stage for tests with several processes: a device, MPS daemons, and clients with scripts. All
//! of them are this test program, with a role in an environment variable.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod blocks;
pub mod client;
pub mod mechanisms;
mod peaks;
mod processes;
pub mod recreate;
mod seeds;
pub mod sharing;
mod work;

use std::ffi::OsString;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::faults::{FaultRow, Under};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};
use gpubench_virtual_gpu_vendor_tools::nvidia_cuda_mps::{self, Programs};

pub use processes::{Client, Daemon, Killed};

pub type Error = Box<dyn std::error::Error + Send + Sync>;

const ROLE: &str = "MPS_TEST_ROLE";
const TEST: &str = "MPS_TEST_NAME";
const FLAGS: &str = "MPS_TEST_FLAGS";

const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Time limit of a process, far beyond the longest one.
const PROCESS_LIMIT: Duration = Duration::from_secs(300);

const PROGRAMS: Programs = Programs {
    control: || process_in_role(&std::env::var(TEST).unwrap_or_default(), "daemon"),
    server: || process_in_role(&std::env::var(TEST).unwrap_or_default(), "server"),
};

/// Runs a scene on a new device, or the role of this process in it.
pub fn scene(
    test: &str,
    time: TimeMode,
    machine: &Machine,
    play: impl Fn(&Stage) -> Result<(), Error>,
) -> Result<(), Error> {
    scenes(test, time, std::slice::from_ref(machine), |stage, _| play(stage))
}

/// Runs a scene on a new device of each machine, or the role of this process in it.
pub fn scenes(
    test: &str,
    time: TimeMode,
    machines: &[Machine],
    play: impl Fn(&Stage, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let flags = std::env::var(FLAGS).unwrap_or_default();
    let role = std::env::var(ROLE);
    if role.is_ok() {
        client::live_at_most(PROCESS_LIMIT);
    }
    match role.as_deref() {
        Ok("daemon") => {
            let argv = ["nvidia-cuda-mps-control", "-f"].into_iter();
            let argv: Vec<OsString> =
                argv.chain(flags.split_whitespace()).map(Into::into).collect();
            ended(nvidia_cuda_mps::control(&argv, &PROGRAMS))
        }
        Ok("server") => {
            // Ends a line that the test program may have started.
            writeln!(std::io::stdout())?;
            ended(nvidia_cuda_mps::server())
        }
        Ok(_) => client::follow(),
        Err(_) => {
            for (index, machine) in machines.iter().enumerate() {
                let folder = tempfile::tempdir()?;
                let dir = folder.path().join("device");
                std::fs::create_dir(&dir)?;
                Session::new(time, 1).create(&dir, machine)?;
                let stage = Stage { test: test.to_owned(), device: Device::open(&dir)?, folder };
                play(&stage, index)?;
            }
            Ok(())
        }
    }
}

/// A machine without noise.
pub fn quiet(name: &str) -> Result<Machine, Error> {
    let mut machine = Machine::load(name)?;
    machine.noise = Noise::default();
    Ok(machine)
}

/// A machine without noise on which the end of an MPS client harms no other client. The documented
/// table assumes the worst there.
pub fn sparing(name: &str) -> Result<Machine, Error> {
    let mut machine = quiet(name)?;
    let is_end = |row: &FaultRow| row.faults.iter().any(|fault| fault == "sigkill");
    let rows = &mut machine.faults.rows;
    rows.retain(|row| row.under != Some(Under::Mps) || !is_end(row));
    Ok(machine)
}

fn ended(status: u8) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(format!("status {status}").into()) }
}

fn process_in_role(test: &str, role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([crate::filter_of(test), "--exact", "--nocapture", "--test-threads=1"])
        .env(TEST, test)
        .env(ROLE, role);
    command
}

pub struct Stage {
    test: String,
    pub device: Device,
    folder: tempfile::TempDir,
}

impl Stage {
    pub fn pipe(&self) -> PathBuf {
        self.folder.path().join("pipe")
    }

    pub fn log(&self, name: &str) -> Result<String, Error> {
        Ok(std::fs::read_to_string(self.folder.path().join("log").join(name))?)
    }

    pub fn kernel_log(&self) -> Result<Vec<String>, Error> {
        let text = std::fs::read_to_string(kernel_log::path(self.device.dir()))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn process_in_role(&self, role: &str, env: &[(&str, &str)]) -> Command {
        let mut command = process_in_role(&self.test, role);
        command
            .env(ENV, self.device.dir())
            .env("CUDA_MPS_PIPE_DIRECTORY", self.pipe())
            .env("CUDA_MPS_LOG_DIRECTORY", self.folder.path().join("log"))
            .envs(env.iter().copied());
        command
    }

    /// Starts a daemon and waits until it answers.
    pub fn daemon(&self, flags: &str, env: &[(&str, &str)]) -> Result<Daemon, Error> {
        let child = self
            .process_in_role("daemon", env)
            .env(FLAGS, flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut daemon = Daemon { child: Killed(child), pipe: self.pipe() };
        eventually("the daemon answers", || {
            let over = daemon.child.0.try_wait()?;
            if let Some(status) = over {
                return Err(format!("the daemon ended: {status}").into());
            }
            // Another daemon's answer does not count.
            let pid = daemon.pipe.join("nvidia-cuda-mps-control.pid");
            let pid = std::fs::read_to_string(pid).unwrap_or_default();
            let ours = pid.trim() == daemon.child.0.id().to_string();
            Ok(ours && nvidia_cuda_mps::send(&daemon.pipe, "get_server_list").is_ok())
        })?;
        Ok(daemon)
    }

    /// Starts one client per script. In virtual time they are participants 0, 1 and so on.
    pub fn clients(&self, cast: &[(&[(&str, &str)], &str)]) -> Result<Vec<Client>, Error> {
        // All are announced before any starts, so that the clock waits for them.
        if self.device.is_virtual_time() {
            for id in 0..cast.len() {
                self.device.expect(id as u32)?;
            }
        }
        let cast = cast.iter().enumerate();
        cast.map(|(id, (env, script))| self.client(id as u32, env, script)).collect()
    }

    /// Starts a client; in virtual time its participant `id` must be announced.
    pub fn client(&self, id: u32, env: &[(&str, &str)], script: &str) -> Result<Client, Error> {
        let mut child = self
            .process_in_role("client", env)
            .env(client::ID, id.to_string())
            .env(client::SCRIPT, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        Ok(Client { id, child: Killed(child), out: BufReader::new(out) })
    }

    /// Starts one client with this id, and returns its output.
    pub fn play_as(&self, id: u32, script: &str) -> Result<Vec<String>, Error> {
        if self.device.is_virtual_time() {
            self.device.expect(id)?;
        }
        self.client(id, &[], script)?.finish()
    }

    /// Starts clients without extra environment, and returns their output.
    pub fn play(&self, scripts: &[&str]) -> Result<Vec<Vec<String>>, Error> {
        let cast: Vec<(&[(&str, &str)], &str)> =
            scripts.iter().map(|script| (&[][..], *script)).collect();
        let clients = self.clients(&cast)?;
        clients.into_iter().map(Client::finish).collect()
    }
}

/// Waits until the closure returns true; fails after the time limit.
pub fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    let began = Instant::now();
    while !holds()? {
        if began.elapsed() > WAIT_LIMIT {
            return Err(format!("never happened: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub fn kill(pid: u32) -> Result<(), Error> {
    signal("KILL", pid)
}

/// A signal by its name without `SIG`.
pub fn signal(name: &str, pid: u32) -> Result<(), Error> {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill -s {name} {pid}: {status}").into()) }
}

/// The first number of an output line.
pub fn number(text: &str) -> Result<f64, Error> {
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// Checks that a value lies within a percent of the expected one.
pub fn near(found: f64, want: f64, what: &str) {
    assert!((found / want - 1.0).abs() < 0.01, "{what}: {found} is not {want}");
}
