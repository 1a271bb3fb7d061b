//! Every wait of the coordinator: it ends with what it waits for, with its limit, or with the
//! user's wish to stop.

use std::time::Duration;

use gpubench_record::{FromTenant, ToTenant};
use tokio::sync::watch;

use super::RunError;
use crate::device::BlockingCall;
use crate::tenant::{Tenant, TenantError};

/// How long something that is under way may still take once the user wants an end.
const GRACE: Duration = Duration::from_secs(3);

/// The user's wish to stop, heard in every wait.
#[derive(Debug, Clone)]
pub struct Waits {
    stop: watch::Receiver<bool>,
}

impl Waits {
    /// Ends waits once `stop` holds true.
    pub const fn new(stop: watch::Receiver<bool>) -> Self {
        Self { stop }
    }

    /// Whether the user wants an end.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for the user to want an end.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // Without a sender nobody can stop the run.
        if stop.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits for something, unless the user wants an end. What is waited for is dropped then.
    pub async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            done = wait => Ok(done),
            () = self.stopped() => Err(RunError::Interrupted),
        }
    }

    /// Runs a call that may hang, on a thread of its own. It has until the limit, and a short grace
    /// once the user wants an end, so that calls of a tear-down are made too.
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

    /// Waits until the user has wanted an end for the length of the grace.
    pub async fn grace_is_over(&self) {
        self.stopped().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Waits for a tenant's answer to a message that was sent. `None` if the user wants an end: the
    /// tenant has been killed then.
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

    /// Sends a tenant a message and waits for its answer. `None` if the user wants an end: the
    /// tenant has been killed then.
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
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    }

    #[test]
    fn a_call_that_hangs_ends_with_the_user_s_wish_and_with_its_limit() -> std::io::Result<()> {
        let hang = || std::thread::sleep(Duration::from_secs(3600));
        runtime()?.block_on(async {
            let (stop, stopped) = watch::channel(false);
            let waits = Waits::new(stopped);
            let late = waits
                .blocking("asking a driver", Duration::from_millis(10), hang)
                .await;
            let text = late.map_err(|error| error.to_string());
            assert!(
                text.as_ref()
                    .is_err_and(|text| text.contains("asking a driver")),
                "{text:?}"
            );
            let call = waits.blocking("asking a driver", LIMIT, hang);
            let wish = async {
                // The receiver is held above.
                let _ = stop.send(true);
            };
            let (ended, ()) = tokio::join!(call, wish);
            assert!(matches!(ended, Err(RunError::Interrupted)), "{ended:?}");
            // What takes no time is still done, as a tear-down needs it.
            let done = waits.blocking("adding", LIMIT, || 1 + 1).await;
            assert!(matches!(done, Ok(2)), "{done:?}");
            let unheard = waits.unless_stopped(std::future::pending::<()>()).await;
            assert!(matches!(unheard, Err(RunError::Interrupted)));
        });
        Ok(())
    }
}
