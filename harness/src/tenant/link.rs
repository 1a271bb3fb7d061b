//! The two pipes to a tenant process, and the process itself.

use std::process::ExitStatus;
use std::time::Duration;

use gpubench_record::wire::{LINE_BYTES_MAX, WireError, from_line, to_line};
use gpubench_record::{FromTenant, ToTenant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// The line to a tenant is broken.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end closed it.
    #[error("closed")]
    Closed,
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// What came is no message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Something to be done before a tenant is killed, for the sake of others.
pub struct Farewell(Box<dyn Fn(u32) + Send + Sync>);

impl Farewell {
    /// Called with the number of the process.
    pub fn new(what: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self(Box::new(what))
    }
}

impl std::fmt::Debug for Farewell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Farewell")
    }
}

/// Pipes and process.
#[derive(Debug)]
pub struct Link {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    ended: Option<String>,
    /// What of a line had arrived when a wait was given up.
    partial: Vec<u8>,
    farewell: Option<Farewell>,
}

impl Link {
    pub fn new(child: Child, input: ChildStdin, output: ChildStdout) -> Self {
        let output = BufReader::new(output);
        Self {
            child,
            input: Some(input),
            output,
            ended: None,
            partial: Vec::new(),
            farewell: None,
        }
    }

    pub fn on_kill(&mut self, farewell: Farewell) {
        self.farewell = Some(farewell);
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

    /// Waits for the process to end by itself, then insists.
    pub async fn end(&mut self, grace: Duration) -> String {
        self.input = None;
        if self.ended.is_none()
            && let Ok(status) = tokio::time::timeout(grace, self.child.wait()).await
        {
            self.ended = Some(status.map_or_else(|e| e.to_string(), |s| describe(&s)));
        }
        match &self.ended {
            Some(how) => how.clone(),
            None => self.kill().await,
        }
    }

    /// SIGTERM, then SIGKILL to the whole process group.
    pub async fn kill(&mut self) -> String {
        self.input = None;
        if let Some(how) = &self.ended {
            return how.clone();
        }
        if let Some(pid) = self.child.id() {
            if let Some(farewell) = self.farewell.take() {
                (farewell.0)(pid);
            }
            super::signal::signal_group(pid, libc::SIGTERM);
            let grace = Duration::from_millis(300);
            if tokio::time::timeout(grace, self.child.wait())
                .await
                .is_err()
            {
                super::signal::signal_group(pid, libc::SIGKILL);
            }
        }
        let how = match self.child.wait().await {
            Ok(status) => format!("stopped by the coordinator, {}", describe(&status)),
            Err(error) => format!("stopped by the coordinator, status unknown: {error}"),
        };
        self.ended = Some(how.clone());
        how
    }
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
