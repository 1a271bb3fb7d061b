//! The two pipes to a tenant, and the process that it is or is a thread of.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use gpubench_record::wire::{LINE_BYTES_MAX, WireError, from_line, to_line};
use gpubench_record::{FromTenant, ToTenant};
use gpubench_workloads::user_victim::process_tree;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Child;

use super::stderr_capture::StderrCapture;
use crate::device::{BlockingCall, NoAnswer};

/// How long a process may take to end after SIGTERM.
const KILL_GRACE: Duration = Duration::from_millis(300);

/// Longest pre-kill hook. A daemon answers in milliseconds; on a busy host its commands take longer
/// to start.
const HOOK: Duration = Duration::from_secs(10);

/// How long a process may take to end after SIGKILL: one in an uninterruptible call of the driver
/// does not end.
const UNKILLABLE: Duration = Duration::from_secs(10);

/// The connection to a tenant is broken.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end closed it.
    #[error("closed")]
    Closed,
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The line that came is not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Work that precedes the kill of a tenant, for the sake of others: an MPS daemon ends its client
/// first. It may block, so it runs on a thread of its own.
pub struct PreKillHook(Arc<dyn Fn(u32) + Send + Sync>);

impl PreKillHook {
    /// Calls `work` with the process id.
    pub fn new(work: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self(Arc::new(work))
    }

    /// Runs the work, at most [`HOOK`]. The tenant is killed whatever came of it.
    async fn run(self, pid: u32) -> Result<(), NoAnswer> {
        let doing = format!("the pre-kill hook of process {pid}");
        BlockingCall::start(doing, move || (self.0)(pid))?
            .within(HOOK)
            .await
    }
}

impl std::fmt::Debug for PreKillHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PreKillHook")
    }
}

/// Where a tenant's answers come from.
type Output = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// Where its messages go.
type Input = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// The process behind a tenant.
#[derive(Debug)]
enum Holder {
    /// A child of ours, which is this tenant.
    Own(Child),
    /// The process of another tenant, of which this one is a thread.
    Other(u32),
}

impl Holder {
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Own(child) => child.id(),
            Self::Other(pid) => Some(*pid),
        }
    }
}

/// Pipes and process.
pub struct Link {
    holder: Holder,
    input: Option<Input>,
    output: BufReader<Output>,
    ended: Option<String>,
    /// The part of a line that had arrived when a wait was abandoned.
    partial: Vec<u8>,
    hook: Option<PreKillHook>,
    /// A program that the tenant started, in a process group of its own.
    program: Option<u32>,
    stderr: Option<StderrCapture>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("holder", &self.holder)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// To a process that is a tenant.
    pub fn new(
        child: Child,
        input: impl AsyncWrite + Send + Sync + Unpin + 'static,
        output: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> Self {
        Self::with(Holder::Own(child), Box::new(input), Box::new(output))
    }

    /// To a thread of another tenant's process.
    pub fn beside(
        pid: u32,
        input: impl AsyncWrite + Send + Sync + Unpin + 'static,
        output: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> Self {
        Self::with(Holder::Other(pid), Box::new(input), Box::new(output))
    }

    fn with(holder: Holder, input: Input, output: Output) -> Self {
        let output = BufReader::new(output);
        Self {
            holder,
            input: Some(input),
            output,
            ended: None,
            partial: Vec::new(),
            hook: None,
            program: None,
            stderr: None,
        }
    }

    /// Attaches the capture of the process's standard error.
    pub fn capture_stderr(&mut self, stderr: StderrCapture) {
        self.stderr = Some(stderr);
    }

    /// Its standard error so far; empty for a thread of another tenant's process.
    pub fn stderr(&self) -> String {
        self.stderr
            .as_ref()
            .map_or_else(String::new, StderrCapture::text)
    }

    pub fn pid(&self) -> Option<u32> {
        self.holder.pid()
    }

    /// Sets the program that the tenant started; the tenant ends it itself, unless it is killed.
    pub fn set_program(&mut self, program: Option<u32>) {
        self.program = program;
    }

    pub const fn program(&self) -> Option<u32> {
        self.program
    }

    pub fn set_pre_kill_hook(&mut self, hook: PreKillHook) {
        self.hook = Some(hook);
    }

    pub async fn send(&mut self, message: &ToTenant) -> Result<(), LinkError> {
        let input = self.input.as_mut().ok_or(LinkError::Closed)?;
        let line = to_line(message).map_err(std::io::Error::other)?;
        input.write_all(line.as_bytes()).await?;
        input.flush().await?;
        Ok(())
    }

    pub async fn receive(&mut self) -> Result<FromTenant, LinkError> {
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.partial.len());
        let mut limited = (&mut self.output).take(room as u64);
        limited.read_until(b'\n', &mut self.partial).await?;
        if self.partial.is_empty() {
            return Err(LinkError::Closed);
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned();
        Ok(from_line(&line)?)
    }

    /// Waits for the tenant to end by itself, then kills it.
    pub async fn end(&mut self, grace: Duration) -> String {
        self.input = None;
        if self.ended.is_none()
            && let Ok(how) = tokio::time::timeout(grace, self.wait()).await
        {
            self.ended = Some(how);
        }
        match &self.ended {
            Some(how) => how.clone(),
            None => self.kill().await,
        }
    }

    /// SIGTERM, then SIGKILL to the whole process group, which ends every tenant in it.
    pub async fn kill(&mut self) -> String {
        self.input = None;
        if let Some(how) = &self.ended {
            return how.clone();
        }
        let mut late = None;
        if let Some(pid) = self.holder.pid() {
            let program = self.program.take();
            if let Some(hook) = self.hook.take() {
                late = hook.run(program.unwrap_or(pid)).await.err();
            }
            if let Some(program) = program {
                end_program(pid, program).await;
            }
            super::signal::signal_group(pid, libc::SIGTERM);
            if tokio::time::timeout(KILL_GRACE, self.wait()).await.is_err() {
                super::signal::signal_group(pid, libc::SIGKILL);
            }
        }
        let ended = tokio::time::timeout(UNKILLABLE, self.wait()).await;
        let ended = ended.unwrap_or_else(|_| {
            let seconds = UNKILLABLE.as_secs();
            format!("still there {seconds} s after SIGKILL")
        });
        let late = late.map_or_else(String::new, |late| format!(" ({late})"));
        let how = format!("stopped by the coordinator, {ended}{late}");
        self.ended = Some(how.clone());
        how
    }

    /// Waits until the tenant is gone, and says how it went. A thread is gone when its connection
    /// is; how its process ended is told by the tenant that owns it.
    async fn wait(&mut self) -> String {
        match &mut self.holder {
            Holder::Own(child) => match child.wait().await {
                Ok(status) => describe(&status),
                Err(error) => format!("status unknown: {error}"),
            },
            Holder::Other(_) => {
                let mut rest = Vec::new();
                // Its last output answers nothing, and a broken connection ends it too.
                let _ = self.output.read_to_end(&mut rest).await;
                "its connection closed".to_owned()
            }
        }
    }
}

/// Ends a program and all that it started, before the tenant ends: the tenant adopts orphans, so
/// until then all of them descend from it, whatever group or session they are in.
async fn end_program(tenant: u32, program: u32) {
    super::signal::signal_group(program, libc::SIGTERM);
    let gone = async {
        while !process_tree::descendants(tenant).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // A process that takes longer is killed below.
    let _late = tokio::time::timeout(KILL_GRACE, gone).await;
    // A process that survives this sleeps in the kernel, and ends when it leaves it.
    let _stays = process_tree::end_descendants(tenant);
}

/// How a process ended, in words.
fn describe(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}
