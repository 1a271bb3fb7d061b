//! Starts a tenant: this same binary under a hidden verb, in a process group of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::device::virtual_gpu::SAMPLE_ENV;
use gpubench_record::FromTenant;
use gpubench_record::user_victim::UserVictim;
use gpubench_record::wire::{PROTOCOL, Participants};
use gpubench_workloads::command::{Inherits, NO_MPS, command};
use tokio::net::UnixListener;
use tokio::process::Command;

use super::link::Link;
use super::{Tenant, TenantError};
use crate::device::PrivateFolder;
use crate::mechanism::LIBRARY_FAULTS;

/// First argument of a tenant process.
pub const TENANT_ARG: &str = "__tenant";

/// First argument of a tenant process that runs a user's program.
pub const USER_VICTIM_ARG: &str = "__user-victim";

/// Longest wait for a new process's first line.
const HELLO: Duration = Duration::from_secs(20);

/// Why a tenant could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The process could not be started.
    #[error("tenant {tenant} could not be started: {source}")]
    Start { tenant: String, source: std::io::Error },
    /// It started and did not complete the hello.
    #[error(transparent)]
    Tenant(#[from] TenantError),
}

/// How tenants are started in this run.
#[derive(Debug, Clone)]
pub struct Spawner {
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl Spawner {
    /// Starts tenants with these variables over the inherited ones.
    pub fn new(environment: BTreeMap<OsString, OsString>) -> std::io::Result<Self> {
        // /proc/self/exe names the running binary even after its file was replaced.
        let program = PathBuf::from("/proc/self/exe").canonicalize()?;
        Ok(Self { program, environment })
    }

    /// Starts a tenant with further variables and waits for its hello.
    pub async fn spawn(
        &self,
        name: &str,
        participants: Participants,
        extra: &BTreeMap<OsString, OsString>,
    ) -> Result<Tenant, SpawnError> {
        let link = self.start(name, extra, &[TENANT_ARG.into()])?;
        await_hello(name, participants, link).await
    }

    /// Starts a tenant that runs a user's program.
    /// Fails as [`Spawner::spawn`]; the program itself is started when the tenant's device is
    /// opened.
    pub async fn spawn_user_victim(
        &self,
        name: &str,
        participants: Participants,
        extra: &BTreeMap<OsString, OsString>,
        victim: &UserVictim,
    ) -> Result<Tenant, SpawnError> {
        let (reports, ready_ns) = (victim.reports.as_str(), victim.ready_ns.to_string());
        let arguments = [USER_VICTIM_ARG, reports, &ready_ns, &victim.command].map(OsString::from);
        let link = self.start(name, extra, &arguments)?;
        await_hello(name, participants, link).await
    }

    /// Starts tenants that are threads of one process, and waits for the hello of each.
    pub async fn spawn_together(
        &self,
        tenants: &[(String, Participants)],
        extra: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<Tenant>, SpawnError> {
        let Some((first, rest)) = tenants.split_first() else {
            return Ok(Vec::new());
        };
        let start = |source| SpawnError::Start { tenant: first.0.clone(), source };
        let folder = PrivateFolder::temporary().map_err(start)?;
        let path = folder.path().join("tenants");
        let listener = UnixListener::bind(&path).map_err(start)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(start)?;
        let count = rest.len().to_string();
        let arguments = [TENANT_ARG.into(), path.into_os_string(), count.into()];
        let link = self.start(&first.0, extra, &arguments)?;
        // The process connects its threads before it sends its own hello.
        let mut started = vec![await_hello(&first.0, first.1, link).await?];
        for (name, participants) in rest {
            let accepted = tokio::time::timeout(HELLO, listener.accept()).await;
            let (socket, _) = accepted
                .map_err(|_| start(std::io::Error::other("it did not connect")))?
                .map_err(start)?;
            let (output, input) = socket.into_split();
            let link = Link::beside(started[0].pid, input, output);
            started.push(await_hello(name, *participants, link).await?);
        }
        Ok(started)
    }

    /// Starts a tenant process.
    fn start(
        &self,
        name: &str,
        extra: &BTreeMap<OsString, OsString>,
        arguments: &[OsString],
    ) -> Result<Link, SpawnError> {
        let start = |source| SpawnError::Start { tenant: name.to_owned(), source };
        let is_user_victim = arguments.first().is_some_and(|verb| verb == USER_VICTIM_ARG);
        // The tenant of a user's program opens no device itself and passes its environment on.
        let inherits = if is_user_victim { Inherits::All } else { Inherits::Listed };
        let mut command = Command::from(command(&self.program, inherits));
        command
            .args(arguments)
            .env("CUDA_MPS_PIPE_DIRECTORY", NO_MPS)
            .envs(&self.environment)
            .envs(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if is_user_victim {
            // The virtual GPU may execute a sample of the blocks of our own kernels, because their
            // results are not read. A user's program may read its results.
            command.env_remove(SAMPLE_ENV);
        }
        let mut child = command.spawn().map_err(start)?;
        let missing = || start(std::io::Error::other("it has no pipes"));
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let stderr = errors.into_owned_fd().and_then(StderrCapture::keep).map_err(start)?;
        let mut link = Link::new(child, input, output);
        link.capture_stderr(stderr);
        Ok(link)
    }
}

/// Waits for a tenant's hello.
async fn await_hello(
    name: &str,
    participants: Participants,
    link: Link,
) -> Result<Tenant, SpawnError> {
    let mut tenant = Tenant {
        name: name.to_owned(),
        pid: link.pid().unwrap_or(0),
        participants,
        link,
        open: false,
    };
    match tenant.receive("starting", HELLO).await? {
        FromTenant::Hello { protocol: PROTOCOL, .. } => Ok(tenant),
        other => {
            tenant.kill().await;
            Err(tenant.unexpected(&other).into())
        }
    }
}

// The standard error of a tenant's process: copied to the coordinator's, and searched for reports
// of a preloaded library that a limit is off. Some libraries report that nowhere else.

/// Reports that are kept of one process. The first one decides.
const KEPT: usize = 16;
/// Longest piece that is read at once.
const PIECE_BYTES: u64 = 4096;
/// Prefixes of lines of HAMi-core and of its stand-in. Such lines are numerous and not copied.
const MARKS: [&str; 3] = ["[HAMI-core ", "[4pdvGPU ", "[vgpu stand-in "];
/// The kernel whose assertion a fault trial makes fail: the driver prints that, and the trial has
/// the error.
const ASSERTS: &str = "fault_assert";

#[derive(Debug, Clone)]
pub struct StderrCapture(Arc<Mutex<Vec<String>>>);

impl StderrCapture {
    /// Reads the other end of a process's standard error until it is closed.
    pub fn keep(pipe: OwnedFd) -> std::io::Result<Self> {
        let kept = Self(Arc::default());
        let into = kept.clone();
        let named = std::thread::Builder::new().name("tenant stderr".to_owned());
        named.spawn(move || into.read(BufReader::new(File::from(pipe)), &mut std::io::stderr()))?;
        Ok(kept)
    }

    /// The lines that report a limit as off.
    pub fn library_faults(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read(&self, mut from: impl BufRead, copy_to: &mut impl Write) {
        // A line that is longer than one piece is read in several, and a report can be cut in two.
        let (mut line, mut is_marked) = (Vec::new(), false);
        loop {
            let begins = line.is_empty();
            let old = line.len();
            let read = from.by_ref().take(PIECE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let text = String::from_utf8_lossy(&line);
            if begins {
                is_marked =
                    MARKS.iter().any(|mark| text.starts_with(mark)) || text.contains(ASSERTS);
            }
            if !is_marked {
                // Our own standard error may be closed.
                let _ = copy_to.write_all(&line[old..]);
            }
            if LIBRARY_FAULTS.iter().any(|report| text.contains(report)) {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < KEPT {
                    kept.push(text.trim().to_owned());
                }
                line.clear();
            } else if line.ends_with(b"\n") {
                line.clear();
            } else {
                let longest = LIBRARY_FAULTS.iter().map(|report| report.len()).max();
                let keep = longest.unwrap_or(0).min(line.len());
                line.drain(..line.len() - keep);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StderrCapture;
    use std::sync::Arc;

    fn captured(text: &str) -> (Vec<String>, String) {
        let (capture, mut copied) = (StderrCapture(Arc::default()), Vec::new());
        capture.read(text.as_bytes(), &mut copied);
        (capture.library_faults(), String::from_utf8_lossy(&copied).into_owned())
    }

    #[test]
    fn finds_a_report_after_a_megabyte_of_output() {
        let line = format!("[HAMI-core {}\n", "x".repeat(1000));
        let report = "[HAMI-core ERROR (7:1:utils.c:9)]: host pid is error!";
        let (faults, copied) = captured(&format!("{}{report}\nlast\n", line.repeat(1000)));
        assert_eq!(faults, [report]);
        assert_eq!(copied, "last\n", "lines of the library are not copied");
        let (faults, _) = captured("x\n[vgpu stand-in 7] SET_TASK_PID FAILED.\n");
        assert_eq!(faults.len(), 1);
        let printed = "fault_assert.cu:62: block: [0,0,0] Assertion `armed == 0` failed.\nx\n";
        assert_eq!(captured(printed).1, "x\n", "a fault trial is no error of a tenant");
        let (faults, copied) = captured("[HAMI-core Warn(7:1:utils.c:9)]: other\nx\n");
        assert_eq!((faults.len(), copied.as_str()), (0, "x\n"));
    }

    #[test]
    fn finds_a_report_that_the_end_of_a_piece_cuts() {
        for before in 4_070..4_110 {
            let text = format!("{}host pid is error!{}", "y".repeat(before), "z".repeat(9_000));
            let (faults, copied) = captured(&text);
            assert_eq!((faults.len(), copied == text), (1, true), "{before}");
        }
    }
}
