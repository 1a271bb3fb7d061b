//! The guard process: this same binary under a hidden verb, started before anything is changed on
//! the host. It reads a pipe whose other end only the coordinator holds; when the coordinator dies,
//! however, it ends what the run left and restores the device.
//!
//! It has a process group of its own and none of the coordinator's outputs: a Ctrl-C of the
//! terminal does not reach it, and it keeps no pipe of the user open. A dead guard process is
//! started again. A stopped coordinator still holds the pipe and is not dead.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpubench_workloads::command::{Inherits, RUN, command};
use gpubench_workloads::user_victim::process_tree::signal_process;
use rustix::process::Signal;

use crate::device::lock::GUARD_ARG;
use crate::mechanism::host::{DIE_AFTER_STEPS, RunId};

/// What the coordinator writes when it ends in order: nothing is left to undo.
pub const IN_ORDER: &[u8] = b"done\n";

/// Longest wait for the guard process to end with the coordinator.
const END: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(1);
/// Starts in one run, so that a guard process that cannot live is not started for ever.
const STARTS_MAX: u32 = 100;

/// The guard process of this run. It ends when dropped.
#[derive(Debug)]
pub struct GuardProcess {
    shared: Arc<Shared>,
    watch: Option<JoinHandle<()>>,
    /// The guard process until it is watched.
    first: Option<Child>,
}

/// What the watching thread and the run share.
#[derive(Debug)]
struct Shared {
    run: RunId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pid: u32,
    pipe: Option<ChildStdin>,
    ends: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a guard process and keeps its pipe, unless the run ends.
    fn start(&self) -> std::io::Result<Option<Child>> {
        // Held meanwhile, so that a run that ends now closes the pipe of this guard process.
        let mut state = self.state();
        if state.ends {
            return Ok(None);
        }
        let mut process = command("/proc/self/exe", Inherits::Listed);
        let mut child = process
            .arg0("gpubench")
            .args([GUARD_ARG, &self.run.to_string()])
            // It is no process of the run, which it ends.
            .env_remove(RUN)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        state.pid = child.id();
        state.pipe = child.stdin.take();
        Ok(Some(child))
    }

    /// Waits for the guard process, and starts another one if it died.
    fn watch(&self, mut child: Child) {
        for _ in 0..STARTS_MAX {
            // Waiting for a child fails only if it was waited for.
            let _status = child.wait();
            match self.start() {
                Ok(Some(started)) => child = started,
                // Without a guard process the journal is left.
                Ok(None) | Err(_) => return,
            }
        }
    }
}

impl GuardProcess {
    /// Starts the guard process of this run. [`GuardProcess::watch`] must follow.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(is_virtual: bool) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { run: RunId::own()?, state: Mutex::default() });
        // A test of the journal: coordinator and guard process die together.
        let dies = is_virtual && std::env::var_os(DIE_AFTER_STEPS).is_some();
        let first = if dies { None } else { shared.start()? };
        Ok(Self { shared, watch: None, first })
    }

    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.shared.run
    }

    /// Watches the guard process from a thread of its own, the first of this process.
    pub fn watch(&mut self) {
        if let Some(child) = self.first.take() {
            let shared = Arc::clone(&self.shared);
            self.watch = Some(std::thread::spawn(move || shared.watch(child)));
        }
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        let pid = {
            let mut state = self.shared.state();
            state.ends = true;
            // After a panic the guard process looks for what is left.
            if let Some(pipe) = state.pipe.as_mut().filter(|_| !std::thread::panicking()) {
                // A guard process that is dead needs no word.
                let _ = pipe.write_all(IN_ORDER);
            }
            state.pipe = None;
            state.pid
        };
        self.watch();
        let Some(watch) = self.watch.take() else {
            return;
        };
        for _ in 0..END.as_millis() / STEP.as_millis() {
            if watch.is_finished() {
                return;
            }
            std::thread::sleep(STEP);
        }
        // It is stopped, or hangs in a driver call.
        signal_process(pid, Signal::KILL);
    }
}
