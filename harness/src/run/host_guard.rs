//! The guard of the host's state, called on separate threads: set-up and restoring use the driver
//! and the vendor's commands, which may hang.

use std::sync::Arc;
use std::time::Duration;

use super::{RunError, RunHandles};
use crate::device::BlockingCall;
use crate::mechanism::host::{Guard, HostError, RealHost};
use crate::mechanism::{InForce, Mechanism};

/// Longest set-up and restoring of a mechanism: MIG instances take seconds each, and every command
/// has a limit of its own.
const ENTER: Duration = Duration::from_secs(180);
const RESTORE: Duration = Duration::from_secs(180);
/// Longest wait for an abandoned set-up to return. The vendor's commands return at once; a driver
/// call that hangs does not.
const RETURN: Duration = Duration::from_secs(3);

/// The guard; absent while a hanging call owns it.
pub struct HostGuard {
    guard: Option<Guard>,
    handles: RunHandles,
}

/// The guard returned from its thread, with an answer.
type Answered<T> = (Guard, T);

impl HostGuard {
    /// A guard without changes.
    pub fn new(handles: &RunHandles) -> Self {
        let setup = &handles.setup;
        let host = Arc::new(RealHost::new(Arc::clone(&setup.nvml)));
        Self { guard: Some(Guard::new(host, setup.host.journal.clone())), handles: handles.clone() }
    }

    /// Has a mechanism set up the host. The user's stop and the limit end the wait; if the
    /// abandoned set-up then returns, the guard is kept, so that the host can be restored.
    pub async fn enter(
        &mut self,
        mechanism: &'static dyn Mechanism,
    ) -> Result<Result<InForce, HostError>, RunError> {
        let mut guard = self.take()?;
        let setup = Arc::clone(&self.handles.setup);
        let doing = format!("setting up {}", mechanism.name());
        let mut call = BlockingCall::start(doing, move || {
            let entered = mechanism.enter(&setup.host.context(), &mut guard);
            (guard, entered)
        })?;
        let waits = self.handles.waits.clone();
        let ended = tokio::select! {
            answer = call.within(ENTER) => answer.map_err(RunError::from),
            () = waits.stopped() => Err(RunError::Interrupted),
        };
        match ended {
            Ok(answered) => Ok(self.put_back(answered)),
            Err(error) => {
                call.abandon();
                if let Ok(answered) = call.within(RETURN).await {
                    // The run ends with the error, and the host is restored.
                    let _ = self.put_back(answered);
                }
                Err(error)
            }
        }
    }

    /// Restores the host and checks it. A stop by the user does not end this wait.
    pub async fn restore(&mut self) -> Result<(), RunError> {
        let mut guard = self.take()?;
        let mut call = BlockingCall::start("restoring the host", move || {
            let restored = guard.restore();
            (guard, restored)
        })?;
        match call.within(RESTORE).await {
            Ok(answered) => Ok(self.put_back(answered)?),
            Err(error) => Err(not_restored(&error.to_string())),
        }
    }

    fn put_back<T>(&mut self, (guard, answer): Answered<T>) -> T {
        self.guard = Some(guard);
        answer
    }

    fn take(&mut self) -> Result<Guard, RunError> {
        let hangs = || not_restored("a call that changes the host hangs");
        self.guard.take().ok_or_else(hangs)
    }
}

/// The journal has the changes that remain.
fn not_restored(problem: &str) -> RunError {
    HostError::NotRestored(problem.to_owned()).into()
}
