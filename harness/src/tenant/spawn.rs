//! Starting a tenant: this very binary under its hidden verb, in a process group of its own.
#![expect(
    unsafe_code,
    reason = "the parent-death signal is set between fork and exec"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use gpubench_record::FromTenant;
use gpubench_record::wire::{PROTOCOL, Participants};
use tokio::process::Command;

use super::link::Link;
use super::{Tenant, TenantError};

/// Longest wait for a new process's first line.
const HELLO: Duration = Duration::from_secs(20);

/// A tenant that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The process could not be made.
    #[error("tenant {tenant} could not be started: {source}")]
    Start {
        /// Who.
        tenant: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It came up and does not do.
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
    /// When the system does not say which binary this is.
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
        let start = |source| SpawnError::Start {
            tenant: name.to_owned(),
            source,
        };
        let mut command = Command::new(&self.program);
        command
            .arg("__tenant")
            .envs(&self.environment)
            .envs(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .kill_on_drop(true);
        // SAFETY: between fork and exec only one plain system call is made.
        unsafe {
            command.pre_exec(|| {
                // A coordinator that is killed takes its tenants with it.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(start)?;
        let pid = child.id().unwrap_or(0);
        let missing = || start(std::io::Error::other("it has no pipes"));
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let link = Link::new(child, input, output);
        let mut tenant = Tenant {
            name: name.to_owned(),
            pid,
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
}
