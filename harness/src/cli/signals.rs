//! Runs a plan until it ends, or until a signal stops it: Ctrl-C, SIGTERM, SIGHUP (the end of a
//! terminal or of an SSH session) or SIGQUIT.

use std::io::Write;
use std::panic::{PanicHookInfo, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use gpubench_host::device::limits::{self, LimitError};
use gpubench_host::tenant::PANICKED;
use gpubench_record::ExitCode;
use gpubench_run::{KernelLog, Observer, RunEnd, Setup};
use procfs::process::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::ExpectedError;
use crate::verbs::verdict;

pub fn run_until_signal(
    setup: Setup,
    kernel_log: Option<KernelLog>,
    observer: &mut dyn Observer,
) -> Result<RunEnd, ExpectedError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExpectedError::internal(format!("event loop: {error}")))?;
    let out = setup.out.clone();
    let has_user_victim = setup.plan.user_victim.is_some();
    runtime.block_on(async move {
        // Installed before the record is created, so every record has an end.
        let wanted = Signals::catch()
            .map_err(|error| ExpectedError::internal(format!("signal handlers: {error}")))?;
        let (stop, stopped) = watch::channel(false);
        let signals = tokio::spawn(async move {
            wanted.wait().await;
            // The receiver lives as long as the run.
            let _ = stop.send(true);
            // The sender lives until the run ends: a dropped sender counts as a signal.
            std::future::pending::<()>().await;
        });
        let end = gpubench_run::run(setup, kernel_log, stopped, observer).await;
        signals.abort();
        end.map_err(|error| verdict::from_run(error, &out, has_user_victim))
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
    pub(super) fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

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

// A panic is reported in one line with its source location, and ends with exit code 1.

/// Whether a panic was left to the code that catches it.
static UNSAID: AtomicBool = AtomicBool::new(false);

/// Installs the hook that prints a panic as one line on stderr and ends the process with `status`.
/// A panic of the calling thread unwinds to [`guard`], unless a task of the event loop, which
/// catches it, or a tenant panicked.
#[expect(clippy::exit, reason = "no other way ends a process from another thread")]
pub fn install(status: u8) {
    let first = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if gpubench_store::is_decoding() {
            UNSAID.store(true, Ordering::Relaxed);
            return;
        }
        if is_refused_thread(info) {
            std::process::exit(no_thread().into());
        }
        // A closed stderr is not an error.
        let _ = writeln!(std::io::stderr(), "{}", report(info));
        let is_caught = tokio::task::try_id().is_some() || status == PANICKED;
        if is_caught || std::thread::current().id() != first {
            // What the run left is undone by its guard process.
            std::process::exit(i32::from(status));
        }
    }));
}

/// Whether a thread could not be started, of which the standard library and other libraries make a
/// panic. What waits for such a thread would wait forever.
fn is_refused_thread(info: &PanicHookInfo<'_>) -> bool {
    let text = info.payload_as_str().unwrap_or_default();
    text.contains("failed to spawn thread") || text.contains("spawn worker")
}

/// Names the limit that refuses a thread; returns the exit code.
pub fn no_thread() -> u8 {
    limited(&limits::of_refused_thread())
}

/// Names a limit that is too low; returns the exit code.
pub fn limited(error: &LimitError) -> u8 {
    // A closed stderr is not an error.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::HostLimit.code()
}

/// Runs `work`. After a panic the exit code is that of an internal error.
pub fn guard(work: impl FnOnce() -> u8 + UnwindSafe) -> u8 {
    catch_unwind(work).unwrap_or_else(|_| {
        if UNSAID.load(Ordering::Relaxed) {
            let text = line("the Parquet library panicked", "");
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        ExitCode::Internal.code()
    })
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    let location = info.location().map_or_else(String::new, |location| format!(" at {location}"));
    line(&what, &location)
}

fn line(what: &str, location: &str) -> String {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let version = env!("CARGO_PKG_VERSION");
    format!("internal error: {what}{location} (gpubench {version}); please report this")
}

#[cfg(test)]
mod tests {
    use super::{PANICKED, guard, install, line};

    #[test]
    fn a_panic_ends_with_exit_code_one() {
        assert_eq!(guard(|| 7), 7);
        assert_eq!(guard(|| std::panic::panic_any("on purpose")), 1);
    }

    /// The thread sleeps behind a lock, as one that waits for the panicked one does.
    #[test]
    fn a_panic_of_any_thread_ends_the_process_within_a_second() -> std::io::Result<()> {
        const INNER: &str = "GPUBENCH_TEST_PANIC";
        if let Ok(status) = std::env::var(INNER) {
            install(status.parse().unwrap_or(0));
            let panicking = std::thread::spawn(|| panic!("on purpose"));
            std::thread::sleep(std::time::Duration::from_secs(60));
            return panicking.join().map_err(|_| std::io::Error::other("it lives on"));
        }
        for status in [1, PANICKED] {
            let begin = std::time::Instant::now();
            let mut inner = std::process::Command::new(std::env::current_exe()?);
            let name =
                "cli::signals::tests::a_panic_of_any_thread_ends_the_process_within_a_second";
            let ended = inner.args(["--exact", name]).env(INNER, status.to_string()).output()?;
            assert_eq!(ended.status.code(), Some(i32::from(status)), "{ended:?}");
            assert!(begin.elapsed().as_secs() < 1, "{:?}", begin.elapsed());
        }
        Ok(())
    }

    #[test]
    fn a_long_message_becomes_one_line() {
        let text = line("left != right\n  left: 1\n right: 2", " at src/x.rs:3:5");
        assert!(!text.contains('\n'));
        assert!(text.starts_with("internal error: left != right left: 1 right: 2 at src/x.rs:3:5"));
        assert!(text.ends_with("please report this"));
    }
}
