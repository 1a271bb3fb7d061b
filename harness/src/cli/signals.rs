//! Runs a plan until it ends, or until a signal stops it: Ctrl-C, SIGTERM, SIGHUP (the end of a
//! terminal or of an SSH session) or SIGQUIT.

use procfs::process::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::ExpectedError;
use crate::judge::verdict;
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
        .map_err(|error| ExpectedError::Internal { what: format!("event loop: {error}") })?;
    let out = setup.out.clone();
    let has_user_victim = setup.plan.user_victim.is_some();
    runtime.block_on(async move {
        // Installed before the record is created, so every record has an end.
        let wanted = Signals::catch().map_err(|error| ExpectedError::Internal {
            what: format!("signal handlers: {error}"),
        })?;
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
            RunError::Tenant(error) if has_user_victim => verdict::from_user_victim(error),
            error => verdict::from_run(error, &out),
        })
    })
}

/// The signals that end a run.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// Absent where it is ignored, as under nohup(1).
    hangup: Option<Signal>,
}

impl Signals {
    /// Installs the handlers, which replace the default action (end of the process).
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the first of them.
    pub(super) async fn wait(self) {
        let Self { mut interrupt, mut terminate, mut quit, mut hangup } = self;
        let hangup = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = quit.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether this process was started with SIGHUP ignored (proc_pid_status(5), `SigIgn`).
fn ignores_hangup() -> bool {
    let status = Process::myself().and_then(|own| own.status());
    let hangup = 1_u64 << (SignalKind::hangup().as_raw_value() - 1);
    status.is_ok_and(|status| status.sigign & hangup != 0)
}
