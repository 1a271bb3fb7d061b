//! Runs a plan until it ends, or until Ctrl-C or SIGTERM stops it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::ExpectedError;
use crate::judge::expected;
use crate::run::{self, KernelLog, Observer, RunEnd, RunError, Setup};

/// Runs the plan.
///
/// # Errors
/// When the run fails for a reason other than a signal.
pub fn run_until_signal(
    setup: Setup,
    kernel_log: Option<KernelLog>,
    observer: &mut dyn Observer,
) -> Result<RunEnd, ExpectedError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExpectedError::Internal {
            what: format!("event loop: {error}"),
        })?;
    let out = setup.out.clone();
    let has_user_victim = setup.plan.user_victim.is_some();
    runtime.block_on(async move {
        // Installed before the record is created, so every record has an end.
        let wanted = Signals::catch()?;
        let (stop, stopped) = watch::channel(false);
        let signals = tokio::spawn(async move {
            wanted.wait().await;
            // The receiver lives as long as the run.
            let _ = stop.send(true);
            // The sender lives until the run ends: a dropped sender counts as a signal.
            std::future::pending::<()>().await;
        });
        let end = run::run(setup, kernel_log, stopped, observer).await;
        signals.abort();
        end.map_err(|error| match error {
            RunError::Tenant(error) if has_user_victim => expected::from_user_victim(error),
            error => expected::from_run(error, &out),
        })
    })
}

/// The signals that end a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers, which replace the default action (end of the process).
    fn catch() -> Result<Self, ExpectedError> {
        let catch = |kind| {
            signal(kind).map_err(|error| ExpectedError::Internal {
                what: format!("signal handlers: {error}"),
            })
        };
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    /// Waits for the first of them.
    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
