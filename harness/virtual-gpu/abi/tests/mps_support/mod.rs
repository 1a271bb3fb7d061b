//! A stage for tests with several processes: a device, MPS daemons, and clients with scripts. All
//! of them are this test program, with a role in an environment variable.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod blocks;
pub mod client;
pub mod mechanisms;
mod peaks;
mod recreate;
mod seeds;
pub mod sharing;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};
use gpubench_virtual_gpu_vendor_tools::nvidia_cuda_mps::{self, Programs};

pub type Error = Box<dyn std::error::Error + Send + Sync>;

const ROLE: &str = "MPS_TEST_ROLE";
const TEST: &str = "MPS_TEST_NAME";
const FLAGS: &str = "MPS_TEST_FLAGS";

/// Time limit of every wait.
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
    scenes(test, time, std::slice::from_ref(machine), |stage, _| {
        play(stage)
    })
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
            let argv: Vec<OsString> = argv
                .chain(flags.split_whitespace())
                .map(Into::into)
                .collect();
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
                let stage = Stage {
                    test: test.to_owned(),
                    device: Device::open(&dir)?,
                    folder,
                };
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

fn ended(status: u8) -> Result<(), Error> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("status {status}").into())
    }
}

fn process_in_role(test: &str, role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(TEST, test)
        .env(ROLE, role);
    command
}

/// One device and its processes.
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
        Ok(std::fs::read_to_string(
            self.folder.path().join("log").join(name),
        )?)
    }

    /// The lines of the kernel log, one per Xid.
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
        let mut daemon = Daemon {
            child: Killed(child),
            pipe: self.pipe(),
        };
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
        cast.map(|(id, (env, script))| self.client(id as u32, env, script))
            .collect()
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
        Ok(Client {
            id,
            child: Killed(child),
            out: BufReader::new(out),
        })
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

/// A process that is killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control daemon's process.
pub struct Daemon {
    pub child: Killed,
    pipe: PathBuf,
}

impl Daemon {
    pub fn command(&self, command: &str) -> Result<String, Error> {
        let (answer, answered) = std::sync::mpsc::channel();
        let (pipe, line) = (self.pipe.clone(), command.to_owned());
        // A daemon that never answers must fail the test, not hang it.
        std::thread::spawn(move || answer.send(nvidia_cuda_mps::send(&pipe, &line)));
        let answered = answered.recv_timeout(WAIT_LIMIT);
        Ok(answered.map_err(|_| format!("no answer to {command}"))??)
    }

    /// The process ids in an answer.
    pub fn pids(&self, command: &str) -> Result<Vec<u32>, Error> {
        let answer = self.command(command)?;
        let pids = answer.lines().map(str::parse).collect::<Result<_, _>>();
        pids.map_err(|_| format!("{command}: {answer}").into())
    }

    /// The process id of the only server.
    pub fn server(&self) -> Result<u32, Error> {
        match self.pids("get_server_list")?[..] {
            [pid] => Ok(pid),
            ref pids => Err(format!("servers {pids:?}").into()),
        }
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Result<(), Error> {
        let status = self.child.0.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the daemon failed: {status}").into())
        }
    }
}

/// A client's process.
pub struct Client {
    id: u32,
    pub child: Killed,
    out: BufReader<ChildStdout>,
}

impl Client {
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Its next line; `None` at its end.
    pub fn next_line(&mut self) -> Result<Option<String>, Error> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 {
            if let Some(text) = line.trim_end().split_once(client::MARK) {
                return Ok(Some(text.1.to_owned()));
            }
            line.clear();
        }
        Ok(None)
    }

    /// Waits for its `hold` step, and returns the lines before it.
    pub fn until_hold(&mut self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        loop {
            match self.next_line()? {
                Some(word) if word == client::HOLDING => return Ok(lines),
                Some(word) => lines.push(word),
                None => return Err(format!("ended after {lines:?}").into()),
            }
        }
    }

    /// Lets it continue after its `hold`.
    pub fn go(&mut self, stage: &Stage) -> Result<(), Error> {
        self.announce(stage)?;
        self.resume()
    }

    /// Announces it on the clock, which then stands until it continues.
    pub fn announce(&self, stage: &Stage) -> Result<(), Error> {
        if stage.device.is_virtual_time() {
            stage.device.expect(self.id)?;
        }
        Ok(())
    }

    /// Lets it continue, once announced.
    pub fn resume(&mut self) -> Result<(), Error> {
        let stdin = self.child.0.stdin.as_mut().ok_or("no input")?;
        writeln!(stdin, "go")?;
        Ok(())
    }

    /// Waits for its end and discards its output.
    pub fn ends(mut self) -> Result<ExitStatus, Error> {
        while self.next_line()?.is_some() {}
        Ok(self.child.0.wait()?)
    }

    /// Waits for its end and returns its output.
    pub fn finish(mut self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        while let Some(word) = self.next_line()? {
            lines.push(word);
        }
        let status = self.child.0.wait()?;
        if status.success() {
            Ok(lines)
        } else {
            Err(format!("a client failed ({status}) after {lines:?}").into())
        }
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

/// SIGKILL.
pub fn kill(pid: u32) -> Result<(), Error> {
    signal("KILL", pid)
}

/// A signal by its name without `SIG`.
pub fn signal(name: &str, pid: u32) -> Result<(), Error> {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("kill -s {name} {pid}: {status}").into())
    }
}
