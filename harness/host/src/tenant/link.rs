//! The two pipes to a tenant, and its process. Several tenants can be threads of one process.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use gpubench_record::wire::{LINE_BYTES_MAX, WireError, from_line, to_line};
use gpubench_record::{FromTenant, ToTenant};
use gpubench_workloads::user_victim::process_tree;
use gpubench_workloads::user_victim::process_tree::signal_group;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Child;

use super::PANICKED;
use super::spawn::StderrCapture;
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
    #[error("closed")]
    Closed,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The received line is not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Work before a tenant is killed: an MPS daemon first disconnects the client, so that other
/// clients are unaffected. The work may block, so it runs on a thread of its own.
pub struct PreKillHook(Arc<dyn Fn(u32) + Send + Sync>);

impl PreKillHook {
    /// Calls `work` with the process id.
    pub fn new(work: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self(Arc::new(work))
    }

    /// Runs the work within [`HOOK`]. The tenant is killed in any case.
    async fn run(self, pid: u32) -> Result<(), NoAnswer> {
        let doing = format!("the pre-kill hook of process {pid}");
        BlockingCall::start(doing, move || (self.0)(pid))?.within(HOOK).await
    }
}

impl std::fmt::Debug for PreKillHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PreKillHook")
    }
}

/// The pipe or socket on which a tenant's answers arrive.
type Output = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// The pipe or socket to a tenant.
type Input = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// The process behind a tenant.
#[derive(Debug)]
enum Holder {
    Own(Child),
    /// The process of another tenant. This tenant is a thread of it.
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

pub struct Link {
    holder: Holder,
    input: Option<Input>,
    output: BufReader<Output>,
    ended: Option<String>,
    panicked: bool,
    /// The bytes of a line that had arrived when a wait ended at its limit.
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
    /// A link to a process that is a tenant.
    pub fn new(
        child: Child,
        input: impl AsyncWrite + Send + Sync + Unpin + 'static,
        output: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> Self {
        Self::with(Holder::Own(child), Box::new(input), Box::new(output))
    }

    /// A link to a thread of another tenant's process.
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
            panicked: false,
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

    /// The lines in which a preloaded library reports a limit as off; none for a thread of another
    /// tenant's process.
    pub fn library_faults(&self) -> Vec<String> {
        let stderr = self.stderr.as_ref();
        stderr.map_or_else(Vec::new, StderrCapture::library_faults)
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

    pub const fn has_panicked(&self) -> bool {
        self.panicked
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
            signal_group(pid, Signal::TERM);
            if tokio::time::timeout(KILL_GRACE, self.wait()).await.is_err() {
                signal_group(pid, Signal::KILL);
            }
        }
        let ended = tokio::time::timeout(UNKILLABLE, self.wait()).await;
        let ended = ended.unwrap_or_else(|_| {
            let seconds = UNKILLABLE.as_secs();
            format!("still running {seconds} s after SIGKILL")
        });
        let late = late.map_or_else(String::new, |late| format!(" ({late})"));
        let how = format!("stopped by the coordinator, {ended}{late}");
        self.ended = Some(how.clone());
        how
    }

    /// Waits until the tenant has ended and describes how. A thread has ended when its connection
    /// is closed; the link that owns the process describes how the process ended.
    async fn wait(&mut self) -> String {
        match &mut self.holder {
            Holder::Own(child) => match child.wait().await {
                Ok(status) => {
                    self.panicked = status.code() == Some(i32::from(PANICKED));
                    describe(&status)
                }
                Err(error) => format!("status unknown: {error}"),
            },
            Holder::Other(_) => {
                let mut rest = Vec::new();
                // The rest of its output is dropped. A broken connection is closed too.
                let _ = self.output.read_to_end(&mut rest).await;
                "its connection was closed".to_owned()
            }
        }
    }
}

/// Ends a program and its descendants before the tenant ends. The tenant adopts orphans, so until
/// then all of them are its descendants, in any process group or session.
async fn end_program(tenant: u32, program: u32) {
    signal_group(program, Signal::TERM);
    let all_ended = async {
        while !process_tree::descendants(tenant).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // A process that takes longer is killed below.
    let _late = tokio::time::timeout(KILL_GRACE, all_ended).await;
    // A process that survives this is in an uninterruptible call and ends when the call returns.
    let _stays = process_tree::end_descendants(tenant);
}

/// A write to mapped memory that its file cannot hold.
const SIGBUS: i32 = Signal::BUS.as_raw();

/// Describes how a process ended.
fn describe(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        // What a process writes to mapped memory is lost where the disk behind it is full.
        (None, Some(SIGBUS)) => format!(
            "killed by signal {SIGBUS} (SIGBUS): no space left for a file that it maps, of the \
             record or of the virtual GPU (`df` of both shows which)"
        ),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    use tokio::process::{Child, Command};

    use super::{Link, PreKillHook};

    /// A tenant that records SIGTERM in a file and does not end.
    fn stubborn(folder: &Path) -> std::io::Result<Child> {
        let script =
            "trap 'touch \"$0/terminated\"' TERM; touch \"$0/ready\"; while :; do sleep 0.01; done";
        Command::new("sh")
            .args(["-c", script])
            .arg(folder)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .process_group(0)
            .spawn()
    }

    #[test]
    fn a_tenant_that_panicked_has_its_own_status() -> Result<(), Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            for (status, panicked) in [(1, false), (i32::from(super::PANICKED), true)] {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("exit {status}")]);
                let pipes = shell.stdin(std::process::Stdio::piped());
                let mut child = pipes.stdout(std::process::Stdio::piped()).spawn()?;
                let (input, output) = (child.stdin.take(), child.stdout.take());
                let ends = input.zip(output).ok_or("the child has no pipes")?;
                let mut link = Link::new(child, ends.0, ends.1);
                assert_eq!(link.end(super::KILL_GRACE * 30).await, format!("exit status {status}"));
                assert_eq!(link.has_panicked(), panicked);
            }
            Ok(())
        })
    }

    #[test]
    fn the_pre_kill_hook_runs_before_every_signal() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut child = stubborn(dir.path())?;
            let pid = child.id().ok_or("the child has no process id")?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let ends = input.zip(output).ok_or("the child has no pipes")?;
            while !dir.path().join("ready").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let mut link = Link::new(child, ends.0, ends.1);
            let called = Arc::new(Mutex::new(Vec::new()));
            let (log, terminated) = (Arc::clone(&called), dir.path().join("terminated"));
            link.set_pre_kill_hook(PreKillHook::new(move |pid| {
                // Long enough for the child to record an earlier signal.
                std::thread::sleep(std::time::Duration::from_millis(100));
                let runs = PathBuf::from(format!("/proc/{pid}/exe")).exists();
                let mut log = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                log.push((pid, runs, terminated.exists()));
            }));
            let how = link.kill().await;
            assert_eq!(how, "stopped by the coordinator, killed by signal 9");
            let called = called.lock().map_err(|_| "a panic")?.clone();
            assert_eq!(called, [(pid, true, false)]);
            assert!(dir.path().join("terminated").exists(), "SIGTERM is sent before SIGKILL");
            assert_eq!(link.kill().await, how, "a second kill reports the same");
            Ok(())
        })
    }
}
