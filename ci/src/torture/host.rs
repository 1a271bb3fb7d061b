//! A virtual device with folders of its own, on which runs are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tree::CiError;

const STEP: Duration = Duration::from_millis(20);

/// A device and the folders of its runs. All are removed when it is dropped.
pub struct Host {
    binary: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    /// The plan of every mechanism, which names the state of each setting.
    plan: String,
}

impl Host {
    pub fn start(binary: &Path, root: &Path) -> Result<Self, CiError> {
        let written = |path: &Path, result: std::io::Result<()>| {
            result.map_err(|source| CiError::Write { path: path.display().to_string(), source })
        };
        let thread = format!("{:?}", std::thread::current().id());
        let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
        let name = format!("gpubench-torture-{}-{digits}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for part in ["state", "cache", "run", "tmp"] {
            let path = folder.join(part);
            written(&path, std::fs::create_dir_all(&path))?;
        }
        let profile = folder.join("short.toml");
        written(&profile, std::fs::copy(root.join(super::PROFILE), &profile).map(|_| ()))?;
        let mut host = Self {
            binary: binary.to_path_buf(),
            folder,
            environment: Vec::new(),
            plan: String::new(),
        };
        let exports =
            host.output(&["virtual-gpu", "env", "--machine", "hopper"]).map_err(CiError::Found)?;
        let variable = |line: &str| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        };
        host.environment = exports.lines().filter_map(variable).collect();
        // The folder of the device stays in the cache, which is watched from here on.
        let cache = host.folder.join("device-cache");
        let moved = std::fs::create_dir(&cache);
        written(&cache, moved)?;
        host.plan = host.settings().map_err(CiError::Found)?;
        Ok(host)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        let folder = |name: &str| self.folder.join(name);
        let cache =
            if self.environment.is_empty() { folder("cache") } else { folder("device-cache") };
        command
            .args(arguments)
            .current_dir(&self.folder)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("XDG_STATE_HOME", folder("state"))
            .env("XDG_CACHE_HOME", cache)
            .env("XDG_RUNTIME_DIR", folder("run"))
            .env("TMPDIR", folder("tmp"))
            .stdin(Stdio::null());
        command
    }

    /// The output of a command that must succeed.
    fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(arguments).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout) + &text(&output.stderr));
        }
        let (status, errors) = (output.status, text(&output.stderr));
        Err(format!("{}: {status}: {errors}", arguments.join(" ")))
    }

    fn plan(&self, more: &[&str]) -> Result<String, String> {
        let args = ["plan", "--allow-reconfigure", "--profile", "short.toml"];
        self.output(&[&args[..], more].concat())
    }

    fn settings(&self) -> Result<String, String> {
        self.plan(&["--format", "json"])
    }

    pub fn matrix(&self, mechanism: &str) -> Result<Child, String> {
        use std::os::unix::process::CommandExt;
        let args = ["matrix", "--allow-reconfigure", "--profile", "short.toml"];
        let more = ["--out", "out", "--mechanism", mechanism];
        let mut command = self.command(&[&args[..], &more].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.process_group(0).spawn();
        started.map_err(|error| error.to_string())
    }

    /// Sets a mechanism up and undoes it. Returns what it printed.
    pub fn next(&self, mechanism: &str) -> Result<String, String> {
        self.plan(&["--rehearse", "--mechanism", mechanism])
    }

    /// As [`Self::next`], after a run that died with its guard process. One that died between an
    /// instance and its UUID leaves the instance to the user, who destroys it.
    pub fn next_after_journal(&self, mechanism: &str) -> Result<(), String> {
        let Err(error) = self.next(mechanism) else { return Ok(()) };
        let id = error.split_once("before it recorded its UUID, so instance ");
        let Some((id, _)) = id.and_then(|(_, rest)| rest.split_once(' ')) else {
            return Err(error);
        };
        for what in ["-dci", "-dgi"] {
            let mut destroy = self.command(&[]);
            let wanted = ["virtual-gpu", "exec", "--", "nvidia-smi", "mig", what, "-gi", id];
            let done = destroy.args(wanted).output().map_err(|error| error.to_string())?;
            if !done.status.success() {
                return Err(format!(
                    "{error}, and {what}: {}",
                    String::from_utf8_lossy(&done.stdout)
                ));
            }
        }
        self.next(mechanism).map(|_| ())
    }

    /// Renders the record of the last run, if it began, and removes it.
    pub fn record_renders(&self) -> Result<(), String> {
        let out = self.folder.join("out");
        // A record begins with its first whole event.
        let events = std::fs::read(out.join("events.jsonl")).unwrap_or_default();
        let rendered = if events.contains(&b'\n') {
            self.output(&["report", "out"]).map(|_| ())
        } else {
            Ok(())
        };
        match std::fs::remove_dir_all(&out) {
            Err(error) if out.exists() => Err(error.to_string()),
            _ => rendered,
        }
    }

    /// An error unless nothing of a run is left within the limit.
    pub fn is_clean(&self, limit: Duration) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            if begin.elapsed() > limit {
                return Err(format!("left after {limit:?}: {}", left.join("; ")));
            }
            std::thread::sleep(STEP);
        }
        let now = self.settings()?;
        if now == self.plan {
            return Ok(());
        }
        Err("a setting is changed: the plan differs from the first".to_owned())
    }

    fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = self.processes("").iter().map(u32::to_string).collect();
        for name in ["state/gpubench", "run", "tmp", "device-cache/gpubench"] {
            let entries = std::fs::read_dir(self.folder.join(name));
            let paths = entries.into_iter().flatten().flatten();
            let paths = paths.map(|entry| entry.path());
            let paths = paths.filter(|path| !path.ends_with("calibrations"));
            left.extend(paths.map(|path| path.display().to_string()));
        }
        left
    }

    /// The processes of this host's runs whose command line contains a text.
    pub fn processes(&self, wanted: &str) -> Vec<u32> {
        let folder = self.folder.join("state").display().to_string();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let read = |pid: u32, file: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let is_wanted = |pid: &u32| {
            read(*pid, "environ").contains(&folder) && read(*pid, "cmdline").contains(wanted)
        };
        pids.filter(is_wanted).collect()
    }

    /// The guard process of a run.
    pub fn guard_of(&self, coordinator: u32) -> Vec<u32> {
        let run = format!(":{coordinator}:");
        let is_its = |pid: &u32| {
            let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(&run)
        };
        let mut guards = self.processes("__guard");
        guards.retain(is_its);
        guards
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A folder in the temporary folder that stays does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Sends a signal; a process that has ended gets none.
pub fn signal(pid: u32, name: &str) {
    send(name, &pid.to_string());
}

pub fn signal_group(leader: u32, name: &str) {
    send(name, &format!("-{leader}"));
}

fn send(name: &str, target: &str) {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, "--", target]);
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Kills a run that is still alive and waits for its end.
pub fn end(run: &mut Child, limit: Duration) -> Result<(), String> {
    run.kill().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if run.try_wait().map_err(|error| error.to_string())?.is_some() {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    Err(format!("the run does not end within {limit:?} of SIGKILL"))
}
