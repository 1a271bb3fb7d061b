//! A tenant process as the coordinator sees it: started, spoken to line by line, and ended.
//!
//! Every wait has a limit. A tenant that does not answer is killed and its end is recorded; nothing
//! of it is waited for twice.

mod link;
#[cfg(test)]
mod link_tests;
pub mod signal;
mod spawn;
mod stderr_capture;

use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, RefusalKind, ToTenant};
use gpubench_workloads::user_victim::{PROGRAM_PID, process_tree};

use link::Link;
pub use link::{LinkError, PreKillHook};
pub use spawn::{SpawnError, Spawner, TENANT_ARG, USER_VICTIM_ARG};

/// How long a tenant may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// One tenant process.
#[derive(Debug)]
pub struct Tenant {
    name: String,
    pid: u32,
    participants: Participants,
    link: Link,
    open: bool,
}

/// What a tenant answered instead of what was asked for, or that it is no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// It told of an error and lives on.
    #[error("{tenant}: {doing}: {what}")]
    Refused {
        /// Who.
        tenant: String,
        /// What it was doing.
        doing: String,
        /// Why it refused; decisions rest on this and not on the text.
        kind: RefusalKind,
        /// What went wrong.
        what: String,
    },
    /// It ended.
    #[error("{tenant} ended: {how}")]
    Ended {
        /// Who.
        tenant: String,
        /// How.
        how: String,
    },
    /// It did not answer in time, and was ended.
    #[error("{tenant} did not answer within {seconds} s while {doing}, and was {how}")]
    Silent {
        /// Who.
        tenant: String,
        /// What it should have been doing.
        doing: &'static str,
        /// The limit.
        seconds: u64,
        /// How it ended: what it takes says how stuck it was.
        how: String,
    },
    /// It said something that is no answer to the question.
    #[error("{tenant} broke the protocol: {what}")]
    Protocol {
        /// Who.
        tenant: String,
        /// How.
        what: String,
    },
}

impl TenantError {
    /// Why the tenant refused; `None` where it ended, stayed silent or broke the protocol.
    #[must_use]
    pub const fn kind(&self) -> Option<RefusalKind> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

impl Tenant {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The program of the user's that it runs, which leads a process group; none for a tenant that
    /// does its work itself, and none while its context is closed.
    #[must_use]
    pub const fn program(&self) -> Option<u32> {
        self.link.program()
    }

    /// Every process of that program: what it started too, in whatever group or session.
    #[must_use]
    pub fn program_pids(&self) -> Vec<u32> {
        let of_tenant = |_program| process_tree::descendants(self.pid);
        self.program().map_or_else(Vec::new, of_tenant)
    }

    /// What it wrote to its standard error, as far as that is kept.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.link.stderr()
    }

    /// The numbers under which its threads join the clock.
    #[must_use]
    pub const fn participants(&self) -> Participants {
        self.participants
    }

    /// Whether its context is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Has something done before the process is killed, should it come to that.
    pub fn set_pre_kill_hook(&mut self, hook: PreKillHook) {
        self.link.set_pre_kill_hook(hook);
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the tenant is gone.
    pub async fn send(&mut self, message: &ToTenant) -> Result<(), TenantError> {
        match self.link.send(message).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.ended(&error).await),
        }
    }

    /// Waits for the answer, at most `limit`. An answer that tells of an error is an error.
    ///
    /// # Errors
    /// When the tenant refuses, ends, or stays silent; a silent one is killed.
    pub async fn receive(
        &mut self,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, TenantError> {
        match tokio::time::timeout(limit, self.link.receive()).await {
            Ok(Ok(FromTenant::Refused { doing, kind, text })) => Err(TenantError::Refused {
                tenant: self.name.clone(),
                doing,
                kind,
                what: text,
            }),
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
            Err(_) => {
                let how = self.link.kill().await;
                self.open = false;
                Err(TenantError::Silent {
                    tenant: self.name.clone(),
                    doing,
                    seconds: limit.as_secs(),
                    how,
                })
            }
        }
    }

    /// An answer of the wrong kind.
    #[must_use]
    pub fn unexpected(&self, answer: &FromTenant) -> TenantError {
        let what = format!("unexpected answer {answer:?}");
        TenantError::Protocol {
            tenant: self.name.clone(),
            what,
        }
    }

    /// Ends the process: asks, waits, insists. Returns how it ended.
    pub async fn stop(&mut self) -> String {
        // One that is gone already needs no asking.
        let _ = self.link.send(&ToTenant::Quit).await;
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
                format!("killed, since it said {wire}")
            }
        };
        TenantError::Ended {
            tenant: self.name.clone(),
            how,
        }
    }
}
