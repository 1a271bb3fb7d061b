//! Starting a tenant: this very binary under a hidden verb, in a process group of its own.
#![expect(
    unsafe_code,
    reason = "the parent-death signal is set between fork and exec"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gpubench_record::FromTenant;
use gpubench_record::user_victim::UserVictim;
use gpubench_record::wire::{PROTOCOL, Participants};
use gpubench_virtual_gpu::session::SAMPLE_ENV;
use tokio::net::UnixListener;
use tokio::process::Command;

use super::link::Link;
use super::stderr_capture::StderrCapture;
use super::{Tenant, TenantError};

/// First argument of a tenant process.
pub const TENANT_ARG: &str = "__tenant";

/// First argument of a tenant process that runs a program of the user's.
pub const USER_VICTIM_ARG: &str = "__user-victim";

/// Longest wait for a new process's first line.
const HELLO: Duration = Duration::from_secs(20);

/// Why a tenant could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The process could not be made.
    #[error("tenant {tenant} could not be started: {source}")]
    Start {
        /// The tenant.
        tenant: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It started and does not follow the protocol.
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
    /// Tenants are this binary, with these variables over the coordinator's own.
    ///
    /// # Errors
    /// When the system does not tell the path of this binary.
    pub fn new(environment: BTreeMap<OsString, OsString>) -> std::io::Result<Self> {
        // /proc/self/exe keeps naming the running binary when the file is replaced.
        let program = PathBuf::from("/proc/self/exe").canonicalize()?;
        Ok(Self {
            program,
            environment,
        })
    }

    /// Starts a tenant with further variables and waits for its hello.
    ///
    /// # Errors
    /// When it does not start, does not speak, or speaks another protocol.
    pub async fn spawn(
        &self,
        name: &str,
        participants: Participants,
        extra: &BTreeMap<OsString, OsString>,
    ) -> Result<Tenant, SpawnError> {
        let link = self.start(name, extra, &[TENANT_ARG.into()])?;
        greeted(name, participants, link).await
    }

    /// Starts a tenant that runs a program of the user's.
    ///
    /// # Errors
    /// As [`Spawner::spawn`]; the program itself is started when the tenant's device is opened.
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
        greeted(name, participants, link).await
    }

    /// Starts tenants that are threads of one process, and waits for the hello of each.
    ///
    /// # Errors
    /// As [`Spawner::spawn`].
    pub async fn spawn_together(
        &self,
        who: &[(String, Participants)],
        extra: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<Tenant>, SpawnError> {
        let Some((first, rest)) = who.split_first() else {
            return Ok(Vec::new());
        };
        let start = |source| SpawnError::Start {
            tenant: first.0.clone(),
            source,
        };
        let folder = private_folder().map_err(start)?;
        let path = folder.path().join("tenants");
        let listener = UnixListener::bind(&path).map_err(start)?;
        let count = rest.len().to_string();
        let arguments = [TENANT_ARG.into(), path.into_os_string(), count.into()];
        let link = self.start(&first.0, extra, &arguments)?;
        // The process connects for its threads before it says hello for itself.
        let mut tenants = vec![greeted(&first.0, first.1, link).await?];
        for (name, participants) in rest {
            let accepted = tokio::time::timeout(HELLO, listener.accept()).await;
            let (socket, _) = accepted
                .map_err(|_| start(std::io::Error::other("it does not connect")))?
                .map_err(start)?;
            let (output, input) = socket.into_split();
            let link = Link::beside(tenants[0].pid, input, output);
            tenants.push(greeted(name, *participants, link).await?);
        }
        Ok(tenants)
    }

    /// Starts a tenant process.
    fn start(
        &self,
        name: &str,
        extra: &BTreeMap<OsString, OsString>,
        arguments: &[OsString],
    ) -> Result<Link, SpawnError> {
        let start = |source| SpawnError::Start {
            tenant: name.to_owned(),
            source,
        };
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .envs(&self.environment)
            .envs(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if arguments
            .first()
            .is_some_and(|verb| verb == USER_VICTIM_ARG)
        {
            // The results of our own kernels are not read, so the interpreter may sample their
            // blocks. A user's program may read its results.
            command.env_remove(SAMPLE_ENV);
        }
        // SAFETY: between fork and exec only one plain system call is made.
        unsafe {
            command.pre_exec(|| {
                // A coordinator that is killed takes its tenants with it.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(start)?;
        let missing = || start(std::io::Error::other("it has no pipes"));
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let stderr = errors
            .into_owned_fd()
            .and_then(StderrCapture::keep)
            .map_err(start)?;
        let mut link = Link::new(child, input, output);
        link.capture_stderr(stderr);
        Ok(link)
    }
}

/// Waits for a tenant's hello.
async fn greeted(name: &str, participants: Participants, link: Link) -> Result<Tenant, SpawnError> {
    let mut tenant = Tenant {
        name: name.to_owned(),
        pid: link.pid().unwrap_or(0),
        participants,
        link,
        open: false,
    };
    match tenant.receive("starting", HELLO).await? {
        FromTenant::Hello {
            protocol: PROTOCOL, ..
        } => Ok(tenant),
        other => {
            tenant.kill().await;
            Err(tenant.unexpected(&other).into())
        }
    }
}

/// A folder for this user alone, removed when dropped.
fn private_folder() -> std::io::Result<Folder> {
    use std::os::unix::fs::DirBuilderExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("gpubench-tenants-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(Folder(path))
}

struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left in the temporary directory does not fail a run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
