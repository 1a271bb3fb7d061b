//! A stage for tests of MPS: a device, daemons, and clients that follow a script each. All of them
//! are this very test program again, told apart by an environment variable.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod blocks;
mod churn;
pub mod client;
pub mod mechanisms;
mod peaks;
mod seeds;
pub mod ways;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};
use gpubench_virtual_gpu_vendor_tools::mpsd::{self, Programs};

pub type Error = Box<dyn std::error::Error + Send + Sync>;

const ROLE: &str = "MPS_TEST_ROLE";
const TEST: &str = "MPS_TEST_NAME";
const FLAGS: &str = "MPS_TEST_FLAGS";

/// How long anything here is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a part may last: many times what the longest one takes.
const LIFE: Duration = Duration::from_secs(300);

const PROGRAMS: Programs = Programs {
    control: || part(&std::env::var(TEST).unwrap_or_default(), "daemon"),
    server: || part(&std::env::var(TEST).unwrap_or_default(), "server"),
};

/// Plays a scene on a fresh device, or the part that this process has in it.
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

/// Plays a scene on a fresh device of each machine, or the part that this process has in it.
pub fn scenes(
    test: &str,
    time: TimeMode,
    machines: &[Machine],
    play: impl Fn(&Stage, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let flags = std::env::var(FLAGS).unwrap_or_default();
    let role = std::env::var(ROLE);
    if role.is_ok() {
        client::live_at_most(LIFE);
    }
    match role.as_deref() {
        Ok("daemon") => {
            let argv = ["nvidia-cuda-mps-control", "-f"].into_iter();
            let argv: Vec<OsString> = argv
                .chain(flags.split_whitespace())
                .map(Into::into)
                .collect();
            ended(mpsd::control(&argv, &PROGRAMS))
        }
        Ok("server") => {
            // Whatever stands on the line already is the test program's, not the server's.
            writeln!(std::io::stdout())?;
            ended(mpsd::server())
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

fn part(test: &str, role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(TEST, test)
        .env(ROLE, role);
    command
}

/// One device and what is around it.
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

    /// The lines that the kernel's log has by now, one for each Xid.
    pub fn kernel_log(&self) -> Result<Vec<String>, Error> {
        let text = std::fs::read_to_string(kernel_log::path(self.device.dir()))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn part(&self, role: &str, env: &[(&str, &str)]) -> Command {
        let mut command = part(&self.test, role);
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
            .part("daemon", env)
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
            // The answer of another daemon does not count.
            let pid = daemon.pipe.join("nvidia-cuda-mps-control.pid");
            let pid = std::fs::read_to_string(pid).unwrap_or_default();
            let ours = pid.trim() == daemon.child.0.id().to_string();
            Ok(ours && mpsd::ask(&daemon.pipe, "get_server_list").is_ok())
        })?;
        Ok(daemon)
    }

    /// Starts one client for each script. In virtual time they are participants 0, 1 and so on.
    pub fn clients(&self, cast: &[(&[(&str, &str)], &str)]) -> Result<Vec<Client>, Error> {
        // All are announced before any starts: the clock waits for them.
        if self.device.is_virtual_time() {
            for id in 0..cast.len() {
                self.device.expect(id as u32)?;
            }
        }
        let cast = cast.iter().enumerate();
        cast.map(|(id, (env, script))| self.client(id as u32, env, script))
            .collect()
    }

    /// Starts a client that is, in virtual time, an announced participant of this number.
    pub fn client(&self, id: u32, env: &[(&str, &str)], script: &str) -> Result<Client, Error> {
        let mut child = self
            .part("client", env)
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

    /// Starts one client under a number of its own, and returns what it says to its end.
    pub fn play_as(&self, id: u32, script: &str) -> Result<Vec<String>, Error> {
        if self.device.is_virtual_time() {
            self.device.expect(id)?;
        }
        self.client(id, &[], script)?.finish()
    }

    /// Starts clients with no variables of their own, and returns what they say to their ends.
    pub fn play(&self, scripts: &[&str]) -> Result<Vec<Vec<String>>, Error> {
        let cast: Vec<(&[(&str, &str)], &str)> =
            scripts.iter().map(|script| (&[][..], *script)).collect();
        let clients = self.clients(&cast)?;
        clients.into_iter().map(Client::finish).collect()
    }
}

/// A process that does not outlive its test.
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
    pub fn ask(&self, command: &str) -> Result<String, Error> {
        let (answer, answered) = std::sync::mpsc::channel();
        let (pipe, asked) = (self.pipe.clone(), command.to_owned());
        // A daemon that never answers must fail the test, not hang it.
        std::thread::spawn(move || answer.send(mpsd::ask(&pipe, &asked)));
        let answered = answered.recv_timeout(PATIENCE);
        Ok(answered.map_err(|_| format!("no answer to {command}"))??)
    }

    /// The process ids that a command answers with.
    pub fn pids(&self, command: &str) -> Result<Vec<u32>, Error> {
        let answer = self.ask(command)?;
        let pids = answer.lines().map(str::parse).collect::<Result<_, _>>();
        pids.map_err(|_| format!("{command}: {answer}").into())
    }

    /// The only server.
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

    /// The next thing that it says; `None` when it has ended.
    pub fn says(&mut self) -> Result<Option<String>, Error> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 {
            if let Some(said) = line.trim_end().split_once(client::MARK) {
                return Ok(Some(said.1.to_owned()));
            }
            line.clear();
        }
        Ok(None)
    }

    /// Waits until it stands at its `hold`, and returns what it said before.
    pub fn until_hold(&mut self) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        loop {
            match self.says()? {
                Some(word) if word == client::HOLDING => return Ok(said),
                Some(word) => said.push(word),
                None => return Err(format!("ended after {said:?}").into()),
            }
        }
    }

    /// Lets it go on from its `hold`.
    pub fn go(&mut self, stage: &Stage) -> Result<(), Error> {
        self.announce(stage)?;
        self.tell()
    }

    /// Announces it on the clock, which then stands until it was told to go on.
    pub fn announce(&self, stage: &Stage) -> Result<(), Error> {
        if stage.device.is_virtual_time() {
            stage.device.expect(self.id)?;
        }
        Ok(())
    }

    /// Tells it to go on, once it has been announced.
    pub fn tell(&mut self) -> Result<(), Error> {
        let stdin = self.child.0.stdin.as_mut().ok_or("no input")?;
        writeln!(stdin, "go")?;
        Ok(())
    }

    /// Waits for its end, whatever it said.
    pub fn ends(mut self) -> Result<ExitStatus, Error> {
        while self.says()?.is_some() {}
        Ok(self.child.0.wait()?)
    }

    /// Waits for its end and returns what it said.
    pub fn finish(mut self) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        while let Some(word) = self.says()? {
            said.push(word);
        }
        let status = self.child.0.wait()?;
        if status.success() {
            Ok(said)
        } else {
            Err(format!("a client failed ({status}) after {said:?}").into())
        }
    }
}

/// Runs the closure until it holds, and fails when it does not within the patience of a test.
pub fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    let began = Instant::now();
    while !holds()? {
        if began.elapsed() > PATIENCE {
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
