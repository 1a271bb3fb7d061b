//! The guard of the host's state, used from threads of their own: what a mechanism sets up and what
//! is restored goes through the driver and the vendor's commands, which may hang.

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
/// How long a set-up that was given up may take to come back. The vendor's commands end at once; a
/// driver call that hangs does not.
const COME_BACK: Duration = Duration::from_secs(3);

/// The guard, unless a call that hangs has it.
pub struct HostGuard {
    guard: Option<Guard>,
    handles: RunHandles,
}

/// The guard, back from its thread with an answer.
type Answered<T> = (Guard, T);

impl HostGuard {
    /// A guard that has changed nothing yet.
    pub fn new(handles: &RunHandles) -> Self {
        let setup = &handles.setup;
        let host = Arc::new(RealHost::new(Arc::clone(&setup.nvml)));
        Self {
            guard: Some(Guard::new(host, setup.host.journal.clone())),
            handles: handles.clone(),
        }
    }

    /// Has a mechanism bring the host into its state. The user's wish to stop and the limit end the
    /// wait; then the guard is taken back if the set-up ends, so that it can be restored.
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
                if let Ok(answered) = call.within(COME_BACK).await {
                    // The run ends with the error; what was set up is restored.
                    let _ = self.put_back(answered);
                }
                Err(error)
            }
        }
    }

    /// Restores the host and checks it. The user's wish to stop does not end this wait.
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

/// What is left to undo stands in the journal.
fn not_restored(problem: &str) -> RunError {
    HostError::NotRestored(problem.to_owned()).into()
}
