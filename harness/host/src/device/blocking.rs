//! Blocking calls of the coordinator: each has a thread to itself and is awaited with a limit.
//!
//! A call into a hung driver, or into a command that waits for one, cannot be interrupted. The
//! coordinator stops waiting for it, names it in the error, and abandons its thread, which ends
//! with the process. A thread that has finished its call serves the next one: a run makes
//! thousands, and a new thread costs more than most of them. tokio's own pool is not used: its
//! runtime waits for such threads when it is dropped.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::limits::of_refused_thread;

thread_local! {
    static ABANDONED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads without a call. A call that is late or has panicked never returns its thread.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

fn idle() -> std::sync::MutexGuard<'static, Vec<Sender<Job>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job on a thread that runs no other.
fn run(mut job: Job) -> std::io::Result<()> {
    loop {
        let Some(thread) = idle().pop() else {
            break;
        };
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(SendError(refused)) => job = refused,
        }
    }
    let (own, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("blocking call".to_owned());
    thread.spawn(move || {
        job();
        idle().push(own.clone());
        while let Ok(job) = jobs.recv() {
            job();
            idle().push(own.clone());
        }
    })?;
    Ok(())
}

/// A blocking call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {problem}")]
pub struct NoAnswer {
    pub doing: String,
    /// Why there is no answer, and whether the thread is abandoned.
    pub problem: String,
}

#[derive(Debug)]
pub struct BlockingCall<T> {
    doing: String,
    answer: oneshot::Receiver<T>,
    abandoned: Arc<AtomicBool>,
}

/// Whether the coordinator has stopped waiting for the call on this thread. Work that waits in
/// steps checks this after each step.
pub fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

impl<T: Send + 'static> BlockingCall<T> {
    pub fn start(
        doing: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, NoAnswer> {
        let doing = doing.into();
        let abandoned = Arc::new(AtomicBool::new(false));
        let (send, answer) = oneshot::channel();
        let flag = Arc::clone(&abandoned);
        let started = run(Box::new(move || {
            ABANDONED.set(Some(flag));
            // An abandoned call has no receiver.
            let _ = send.send(work());
        }));
        match started {
            Ok(()) => Ok(Self { doing, answer, abandoned }),
            Err(_) => Err(NoAnswer { doing, problem: of_refused_thread().to_string() }),
        }
    }

    /// Waits for the answer within a limit. A late call continues and can be awaited again.
    ///
    /// # Panics
    /// When the call panicked: the panic has been reported and continues here.
    pub async fn within(&mut self, limit: Duration) -> Result<T, NoAnswer> {
        match tokio::time::timeout(limit, &mut self.answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => std::panic::resume_unwind(Box::new(self.doing.clone())),
            Err(_) => Err(NoAnswer {
                doing: self.doing.clone(),
                problem: format!("no answer within {} s; the call is abandoned", limit.as_secs()),
            }),
        }
    }
}

impl<T> BlockingCall<T> {
    /// Marks the answer as not needed; see [`is_abandoned`].
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for BlockingCall<T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Longest wait for the driver before a run begins.
pub const OUTSET: Duration = Duration::from_secs(8);
/// A process that was stopped meanwhile counts one step.
const STEP: Duration = Duration::from_millis(100);

/// Makes calls of the driver that may hang, before a run begins, and names them if they do.
pub fn limited<T: Send + 'static>(
    doing: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    within(OUTSET, doing, work)
}

/// Makes calls of the driver that may hang, and names them if they do.
pub fn within<T: Send + 'static>(
    limit: Duration,
    doing: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let failed = |problem: String| NoAnswer { doing: doing.to_owned(), problem };
    let (send, answer) = channel();
    // Without a receiver the call was late.
    let started = run(Box::new(move || drop(send.send(work()))));
    started.map_err(|_| failed(of_refused_thread().to_string()))?;
    for _ in 0..limit.as_millis() / STEP.as_millis() {
        match answer.recv_timeout(STEP) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            // It has been reported, and continues here.
            Err(RecvTimeoutError::Disconnected) => {
                std::panic::resume_unwind(Box::new(doing.to_owned()))
            }
        }
    }
    Err(failed(format!(
        "the driver has not answered for {} s: it hangs (dmesg | grep -i -e nvrm -e xid says why; \
         a reset or a reboot ends it)",
        limit.as_secs()
    )))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{BlockingCall, is_abandoned};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn a_late_call_is_named_and_its_thread_is_marked_as_abandoned() -> TestResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (report, reported) = channel();
        runtime.block_on(async {
            let mut call = BlockingCall::start("waiting", move || {
                while !is_abandoned() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                report.send(is_abandoned())
            })?;
            let error = call.within(Duration::from_millis(20)).await.map(drop);
            let text = error.map_err(|error| error.to_string());
            assert!(
                text.as_ref()
                    .is_err_and(|text| text.contains("waiting") && text.contains("is abandoned")),
                "{text:?}"
            );
            Ok::<_, super::NoAnswer>(())
        })?;
        assert!(reported.recv_timeout(Duration::from_secs(60))?);
        assert!(!is_abandoned(), "this thread runs no call");
        Ok(())
    }

    #[test]
    fn calls_one_after_another_share_threads_and_calls_at_once_do_not() -> TestResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let limit = Duration::from_secs(60);
        let number = || std::thread::current().id();
        runtime.block_on(async {
            let mut one_by_one = HashSet::new();
            for _ in 0..200 {
                one_by_one.insert(BlockingCall::start("counting", number)?.within(limit).await?);
            }
            assert!(one_by_one.len() < 100, "{} threads", one_by_one.len());
            let (open, gate) = channel::<()>();
            let mut held = BlockingCall::start("waiting", move || {
                // The sender is dropped below.
                let _ = gate.recv();
                number()
            })?;
            let mut beside = BlockingCall::start("counting", number)?;
            let beside = beside.within(limit).await?;
            drop(open);
            assert_ne!(held.within(limit).await?, beside);
            Ok(())
        })
    }

    #[test]
    fn returns_the_answer_and_continues_a_panic() -> TestResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let limit = Duration::from_secs(60);
            let mut call = BlockingCall::start("adding", || 1 + 1)?;
            assert_eq!(call.within(limit).await, Ok(2));
            let call = BlockingCall::<()>::start("failing", || panic!("on purpose"))?;
            let panicked = tokio::spawn(async move {
                let mut call = call;
                call.within(limit).await
            });
            assert!(panicked.await.is_err_and(|error| error.is_panic()));
            Ok(())
        })
    }
}
