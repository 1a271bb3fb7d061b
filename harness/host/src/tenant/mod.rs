//! A tenant process in the coordinator: its start, its messages line by line, and its end.
//!
//! Every wait has a limit. A tenant that does not answer is killed and its end is recorded; the
//! wait is not repeated.

mod link;
mod spawn;

use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, RefusalKind, ToTenant};
use gpubench_workloads::user_victim::{PROGRAM_PID, process_tree};

use link::Link;
pub use link::{LinkError, PreKillHook};
pub use spawn::{SpawnError, Spawner, TENANT_ARG, USER_VICTIM_ARG};

/// The status of a tenant that panicked, which ends the run.
pub const PANICKED: u8 = 101;

/// How long a tenant may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Tenant {
    name: String,
    pid: u32,
    participants: Participants,
    link: Link,
    open: bool,
}

/// Why a tenant did not give the expected answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// It reported an error and still runs.
    #[error("{tenant}: {doing}: {what}")]
    Refused {
        tenant: String,
        doing: String,
        /// The kind of refusal. Callers decide by this and not by the text.
        kind: RefusalKind,
        what: String,
    },
    #[error("{tenant} ended: {how}")]
    Ended { tenant: String, how: String },
    /// It did not answer in time and was killed.
    #[error("{tenant} {SILENT} {seconds} s while {doing}, and was {how}")]
    Silent {
        tenant: String,
        /// The step that it did not complete.
        doing: &'static str,
        seconds: u64,
        how: String,
    },
    /// A signal stopped it, it did not go on, and was killed.
    #[error("{tenant} was stopped by a signal for {seconds} s while {doing}, and was {how}")]
    Halted { tenant: String, doing: &'static str, seconds: u64, how: String },
    /// Its answer does not belong to the message.
    #[error("{tenant} broke the protocol: {what}")]
    Protocol { tenant: String, what: String },
}

/// Part of the text of [`TenantError::Silent`], which cells keep as the reason of their failure.
pub const SILENT: &str = "did not answer within";

impl TenantError {
    /// Why the tenant refused; `None` where it ended, stayed silent or broke the protocol.
    pub const fn kind(&self) -> Option<RefusalKind> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

impl Tenant {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The user's program that it runs, which leads a process group; `None` for a tenant that does
    /// its work itself, and while its context is closed.
    pub const fn program(&self) -> Option<u32> {
        self.link.program()
    }

    /// Every process of that program and of its descendants, whatever group or session they are in.
    pub fn program_pids(&self) -> Vec<u32> {
        let of_tenant = |_program| process_tree::descendants(self.pid);
        self.program().map_or_else(Vec::new, of_tenant)
    }

    /// The lines of its standard error in which a preloaded library reports a limit as off.
    pub fn library_faults(&self) -> Vec<String> {
        self.link.library_faults()
    }

    /// The clock participants of its threads.
    pub const fn participants(&self) -> Participants {
        self.participants
    }

    pub const fn is_open(&self) -> bool {
        self.open
    }

    pub fn set_pre_kill_hook(&mut self, hook: PreKillHook) {
        self.link.set_pre_kill_hook(hook);
    }

    pub async fn send(&mut self, message: &ToTenant) -> Result<(), TenantError> {
        match self.link.send(message).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.ended(&error).await),
        }
    }

    /// Sends a message and waits for the answer, at most `limit` for each.
    pub async fn exchange(
        &mut self,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, TenantError> {
        // A tenant that does not read leaves the pipe full.
        match tokio::time::timeout(limit, self.send(message)).await {
            Ok(sent) => sent?,
            Err(_) => return Err(self.silent(doing, limit).await),
        }
        self.receive(doing, limit).await
    }

    /// Waits for the answer, at most `limit`. A refusal is an error.
    /// Fails when the tenant refuses, ends, or stays silent; a silent one is killed.
    pub async fn receive(
        &mut self,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, TenantError> {
        match tokio::time::timeout(limit, self.link.receive()).await {
            Ok(Ok(FromTenant::Refused { doing, kind, text })) => {
                Err(TenantError::Refused { tenant: self.name.clone(), doing, kind, what: text })
            }
            Ok(Ok(answer)) => {
                match &answer {
                    FromTenant::Opened { facts } => {
                        self.open = true;
                        let program = facts.get(PROGRAM_PID).and_then(|pid| pid.parse().ok());
                        self.link.set_program(program);
                    }
                    FromTenant::Closed => {
                        self.open = false;
                        self.link.set_program(None);
                    }
                    _ => {}
                }
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.ended(&error).await),
            Err(_) => Err(self.silent(doing, limit).await),
        }
    }

    /// Kills a tenant that did not answer.
    async fn silent(&mut self, doing: &'static str, limit: Duration) -> TenantError {
        let how = self.kill().await;
        TenantError::Silent { tenant: self.name.clone(), doing, seconds: limit.as_secs(), how }
    }

    /// Kills a tenant that a signal stopped.
    pub async fn halted(&mut self, doing: &'static str, limit: Duration) -> TenantError {
        let how = self.kill().await;
        TenantError::Halted { tenant: self.name.clone(), doing, seconds: limit.as_secs(), how }
    }

    /// Whether it ended because it panicked.
    pub const fn has_panicked(&self) -> bool {
        self.link.has_panicked()
    }

    /// An answer of the wrong kind.
    pub fn unexpected(&self, answer: &FromTenant) -> TenantError {
        let what = format!("unexpected answer {answer:?}");
        TenantError::Protocol { tenant: self.name.clone(), what }
    }

    /// Ends the process: sends `Quit`, waits, then kills it. Returns how it ended.
    pub async fn stop(&mut self) -> String {
        // A tenant that has ended does not receive it; one that does not read is killed below.
        let _ = tokio::time::timeout(GRACE, self.link.send(&ToTenant::Quit)).await;
        self.open = false;
        self.link.end(GRACE).await
    }

    /// Kills the process. Returns how it ended.
    pub async fn kill(&mut self) -> String {
        self.open = false;
        self.link.kill().await
    }

    async fn ended(&mut self, error: &LinkError) -> TenantError {
        self.open = false;
        let how = match error {
            LinkError::Closed | LinkError::Io(_) => self.link.end(GRACE).await,
            LinkError::Wire(wire) => {
                self.link.kill().await;
                format!("killed, because it sent {wire}")
            }
        };
        TenantError::Ended { tenant: self.name.clone(), how }
    }
}
