//! Every wait of the coordinator. It ends with its result, with its limit, or when the user stops
//! the run.

use std::time::Duration;

use gpubench_record::{FromTenant, ToTenant};
use tokio::sync::watch;

use super::RunError;
use crate::device::BlockingCall;
use crate::tenant::{Tenant, TenantError};

/// Time that a running call still has after the user stopped the run.
const GRACE: Duration = Duration::from_secs(3);

/// The user's stop, which ends every wait.
#[derive(Debug, Clone)]
pub struct Waits {
    stop: watch::Receiver<bool>,
}

impl Waits {
    /// Ends waits once `stop` is true.
    pub const fn new(stop: watch::Receiver<bool>) -> Self {
        Self { stop }
    }

    /// Whether the user stopped the run.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the user stops the run.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // Without a sender the run cannot be stopped.
        if stop.wait_for(|is_stopped| *is_stopped).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits for a future, which is dropped if the user stops the run.
    pub async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            done = wait => Ok(done),
            () = self.stopped() => Err(RunError::Interrupted),
        }
    }

    /// Runs a call that may hang on a thread of its own, until the limit. After the user stopped
    /// the run it has a short grace, so that calls of a tear-down are made too.
    pub async fn blocking<T: Send + 'static>(
        &self,
        doing: &str,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let mut call = BlockingCall::start(doing, work)?;
        tokio::select! {
            answer = call.within(limit) => Ok(answer?),
            () = self.grace_is_over() => Err(RunError::Interrupted),
        }
    }

    /// Waits until the grace after the user's stop is over.
    pub async fn grace_is_over(&self) {
        self.stopped().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Waits for a tenant's answer to a message that was sent. If the user stops the run, kills the
    /// tenant and returns `None`.
    pub async fn reply(
        &self,
        tenant: &mut Tenant,
        doing: &'static str,
        limit: Duration,
    ) -> Option<Result<FromTenant, TenantError>> {
        let answer = tokio::select! {
            answer = tenant.receive(doing, limit) => Some(answer),
            () = self.stopped() => None,
        };
        if answer.is_none() {
            tenant.kill().await;
        }
        answer
    }

    /// Sends a tenant a message and waits for its answer. If the user stops the run, kills the
    /// tenant and returns `None`.
    pub async fn answer(
        &self,
        tenant: &mut Tenant,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Option<Result<FromTenant, TenantError>> {
        let answer = tokio::select! {
            answer = tenant.exchange(message, doing, limit) => Some(answer),
            () = self.stopped() => None,
        };
        if answer.is_none() {
            tenant.kill().await;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::{RunError, Waits};

    const LIMIT: Duration = Duration::from_secs(600);

    fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }

    #[test]
    fn a_hanging_call_ends_with_its_limit_or_the_user_s_stop() -> std::io::Result<()> {
        let hang = || std::thread::sleep(Duration::from_secs(3600));
        runtime()?.block_on(async {
            let (stop, stopped) = watch::channel(false);
            let waits = Waits::new(stopped);
            let late = waits.blocking("calling a driver", Duration::from_millis(10), hang).await;
            let text = late.map_err(|error| error.to_string());
            assert!(text.as_ref().is_err_and(|text| text.contains("calling a driver")), "{text:?}");
            let call = waits.blocking("calling a driver", LIMIT, hang);
            let stopping = async {
                // The receiver is held above.
                let _ = stop.send(true);
            };
            let (ended, ()) = tokio::join!(call, stopping);
            assert!(matches!(ended, Err(RunError::Interrupted)), "{ended:?}");
            // A short call still runs, as a tear-down needs it.
            let done = waits.blocking("adding", LIMIT, || 1 + 1).await;
            assert!(matches!(done, Ok(2)), "{done:?}");
            let pending = waits.unless_stopped(std::future::pending::<()>()).await;
            assert!(matches!(pending, Err(RunError::Interrupted)));
        });
        Ok(())
    }
}
