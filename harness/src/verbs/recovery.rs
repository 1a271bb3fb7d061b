//! Undoes what dead runs left on this host: the guard process for its own run, a new run before it
//! begins, and `gpubench cleanup`.
//!
//! Processes and folders of a dead run are its own and are always removed. Device settings are
//! restored from the journals. Whoever undoes a journal holds its lock, and takes the lock of the
//! GPU before it touches the device.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpubench_host::device::lock::{GUARD_ARG, GpuLock, LockError};
use gpubench_host::device::nvml::DeviceKey;
use gpubench_host::device::private_folder::remove_dead_temporary;
use gpubench_host::device::virtual_gpu::{ENV, remove_leftovers};
use gpubench_host::device::{Nvml, VirtualGpu};
use gpubench_host::mechanism::host::{
    DIE_AFTER_STEPS, Haste, Journal, JournalError, JournalLocation, Kind, Leftover, Life, RealHost,
    Recovered, Recovery, RunId, When, end_run_processes, leftovers, recover, state_dir,
};
use gpubench_record::counted;
use gpubench_workloads::command::{Inherits, RUN, command};
use gpubench_workloads::user_victim::process_tree::signal_process;
use rustix::process::Signal;
use schemars::JsonSchema;
use serde::Serialize;

use super::{DeviceSession, verdict};
use crate::error::ExpectedError;

/// How long the guard process tries to get the lock of the GPU from a new run, which undoes the
/// journal itself once it has the lock.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(50);

#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "gpubench cleanup")]
pub struct UndoReport {
    /// What was undone or left alone, one line for each run or change.
    pub lines: Vec<String>,
    /// Device settings that could not be restored, one line each.
    pub unrestored: Vec<String>,
    /// Folders and daemons that could not be removed, one line each.
    pub remaining: Vec<String>,
}

impl UndoReport {
    fn add(&mut self, left: &Leftover, recovered: &Recovered) {
        let gpu = &left.gpu;
        let undone = recovered.undone.iter();
        self.lines.extend(undone.map(|change| format!("{gpu}: undone: {}", change.describe())));
        let alone = recovered.left_alone.iter();
        self.lines.extend(alone.map(|why| format!("{gpu}: {why}")));
        for (change, why) in &recovered.failed {
            let line = format!("{gpu}: {why}");
            if change.is_of_device() {
                self.unrestored.push(line);
            } else {
                self.remaining.push(line);
            }
        }
    }

    /// Ends the processes of dead runs that no journal names.
    fn end_processes(&mut self) -> Result<(), ExpectedError> {
        let own = RunId::own().map_err(|error| {
            ExpectedError::internal(format!("the identity of this process cannot be read: {error}"))
        })?;
        let is_dead = |run: &RunId| run.life(&own) == Life::Ended;
        let processes = end_run_processes(Kind::All, is_dead);
        if processes > 0 {
            self.lines.push(format!("ended {} of dead runs", counted(processes, "process")));
        }
        Ok(())
    }
}

/// Ends what a dead run left and restores the device: the work of the guard process. Errors stay in
/// the journal, as no one reads this process's output.
pub fn after_death(dead: &RunId) {
    // Daemons and servers end by a command while their folders exist.
    end_run_processes(Kind::ExceptMps, |run| run == dead);
    if let Ok(dir) = state_dir() {
        let is_its = |left: &Leftover| left.run.as_ref() == Some(dead);
        // A new run can hold the GPU already; it waits for the journal and undoes it.
        for _ in 0..LOCK_LIMIT.as_millis() / STEP.as_millis() {
            let Ok(left) = leftovers(&dir, None, &is_its) else {
                break;
            };
            let undone = left.into_iter().map(|(journal, left)| undo(journal, &left, By::Guard));
            let undone: Vec<_> = undone.collect();
            if !undone.iter().any(|ended| matches!(ended, Err(Refused::Held(_)))) {
                break;
            }
            std::thread::sleep(STEP);
        }
    }
    end_run_processes(Kind::All, |run| run == dead);
    remove_dead_folders();
}

/// Undoes what dead runs left on the device of a new run, whose lock this process holds, and on
/// virtual devices that are gone. Returns one line if there was anything.
pub fn before_run(
    dir: &Path,
    gpu: &str,
    virtual_device: Option<&Path>,
) -> Result<Vec<String>, ExpectedError> {
    let is_ours =
        |left: &Leftover| left.gpu == gpu && left.virtual_device.as_deref() == virtual_device;
    let mut undone =
        undo_all(dir, Some(gpu), &|left| is_ours(left) || is_on_gone_device(left), By::Run)?;
    undone.end_processes()?;
    remove_dead_folders();
    if !undone.unrestored.is_empty() {
        let what = undone.unrestored.join("; ");
        return Err(ExpectedError::NotRestored { what: format!("a run that died left {what}") });
    }
    let parts = [undone.lines, undone.remaining].concat();
    let note = (!parts.is_empty()).then(|| format!("what a dead run left: {}", parts.join("; ")));
    Ok(note.into_iter().collect())
}

/// Whether the journal of a dead run names a GPU.
/// Fails when a journal cannot be read.
pub fn has_journal(dir: &Path, gpu: &str) -> Result<bool, ExpectedError> {
    let left = leftovers(dir, Some(gpu), &|left| left.gpu == gpu);
    Ok(!left.map_err(verdict::from_journal)?.is_empty())
}

/// Undoes what dead runs left, those with a wanted journal and all private things.
pub fn clean_up(
    dir: &Path,
    is_wanted: &dyn Fn(&Leftover) -> bool,
) -> Result<UndoReport, ExpectedError> {
    let mut undone = undo_all(dir, None, is_wanted, By::Cleanup)?;
    undone.end_processes()?;
    let folders = remove_dead_folders().into_iter();
    let line = |folder: PathBuf| format!("removed {}", folder.display());
    undone.lines.extend(folders.map(line));
    Ok(undone)
}

fn remove_dead_folders() -> Vec<PathBuf> {
    [remove_leftovers(), remove_dead_temporary()].concat()
}

/// Whether the device of a run was virtual and is gone.
fn is_on_gone_device(left: &Leftover) -> bool {
    let device = left.virtual_device.as_deref();
    device.is_some_and(VirtualGpu::is_gone)
}

fn undo_all(
    dir: &Path,
    gpu: Option<&str>,
    is_wanted: &dyn Fn(&Leftover) -> bool,
    by: By,
) -> Result<UndoReport, ExpectedError> {
    let mut all = UndoReport::default();
    for (journal, left) in leftovers(dir, gpu, is_wanted).map_err(verdict::from_journal)? {
        match undo(journal, &left, by) {
            Ok(recovered) => all.add(&left, &recovered),
            Err(Refused::Held(why) | Refused::Other(why)) => {
                let settings: Vec<String> =
                    left.changes.iter().map(|(_, c)| c.describe()).collect();
                let settings = settings.join(", ");
                all.unrestored.push(format!("{}: {settings}: {why}", left.gpu));
            }
        }
    }
    Ok(all)
}

/// The process that undoes a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The guard process of the run, right after its death.
    Guard,
    /// A new run that holds the lock of the device.
    Run,
    /// `gpubench cleanup`.
    Cleanup,
}

/// Why a journal was not begun to be undone.
enum Refused {
    /// Another run has the device.
    Held(String),
    /// There is no access to the device, or the journal cannot be written.
    Other(String),
}

/// Undoes the changes of a journal, and deletes it if all are undone.
fn undo(journal: Journal, left: &Leftover, by: By) -> Result<Recovered, Refused> {
    let other = |error: &dyn std::fmt::Display| Refused::Other(error.to_string());
    if let Some(dead) = &left.run {
        end_run_processes(Kind::ExceptMps, |run| run == dead);
    }
    let haste = match by {
        By::Guard => Haste::Hurried,
        By::Run | By::Cleanup => Haste::Patient,
    };
    if is_on_gone_device(left) {
        let host = RealHost::without_device().with(haste);
        return recover(&host, journal, left, Recovery::WithoutDevice).map_err(|e| other(&e));
    }
    let _lock = match by {
        By::Run => None,
        By::Guard | By::Cleanup => Some(lock(left)?),
    };
    let nvml = Nvml::open(None, &DeviceKey::Uuid(left.gpu.clone())).map_err(|error| {
        let folder = left.virtual_device.as_ref();
        let its_folder = folder.map(|folder| format!(" (its {ENV} is {})", folder.display()));
        Refused::Other(format!("{error}{}", its_folder.unwrap_or_default()))
    })?;
    let host = RealHost::new(Arc::new(nvml)).with(haste);
    let when = match (by, left.run.as_ref().zip(RunId::own().ok())) {
        (_, Some((run, own))) if run.life(&own) == Life::EarlierBoot => When::AfterReboot,
        (By::Guard, _) => When::InRun,
        (By::Run | By::Cleanup, _) => When::Later,
    };
    recover(&host, journal, left, Recovery::Whole(when)).map_err(|error| other(&error))
}

/// Takes the lock of the GPU, so that no run starts meanwhile.
fn lock(left: &Leftover) -> Result<GpuLock, Refused> {
    // The name is from a file, and the lock of another folder would be taken.
    if left.gpu.contains('/') {
        let gpu = &left.gpu;
        return Err(Refused::Other(format!("its journal names the GPU \"{gpu}\", a path")));
    }
    let taken = match &left.virtual_device {
        Some(folder) => GpuLock::take_in(folder, &left.gpu),
        None => GpuLock::take(&left.gpu),
    };
    taken.map_err(|error| match error {
        LockError::Held { .. } => Refused::Held(error.to_string()),
        LockError::Io { .. } => Refused::Other(error.to_string()),
    })
}

// The guard process: this same binary under a hidden verb, started before anything is changed on
// the host. It reads a pipe whose other end only the coordinator holds; when the coordinator dies,
// however, it ends what the run left and restores the device.
//
// It has a process group of its own and none of the coordinator's outputs: a Ctrl-C of the
// terminal does not reach it, and it keeps no pipe of the user open. A dead guard process is
// started again. A stopped coordinator still holds the pipe and is not dead.

/// What the coordinator writes when it ends in order: nothing is left to undo.
pub const IN_ORDER: &[u8] = b"done\n";

/// Longest wait for the guard process to end with the coordinator.
const END: Duration = Duration::from_secs(5);
const GUARD_STEP: Duration = Duration::from_millis(1);
/// Starts in one run, so that a guard process that cannot live is not started for ever.
const STARTS_MAX: u32 = 100;

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
    pub fn start(is_virtual: bool) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { run: RunId::own()?, state: Mutex::default() });
        // A test of the journal: coordinator and guard process die together.
        let dies = is_virtual && std::env::var_os(DIE_AFTER_STEPS).is_some();
        let first = if dies { None } else { shared.start()? };
        Ok(Self { shared, watch: None, first })
    }

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
        for _ in 0..END.as_millis() / GUARD_STEP.as_millis() {
            if watch.is_finished() {
                return;
            }
            std::thread::sleep(GUARD_STEP);
        }
        // It is stopped, or hangs in a driver call.
        signal_process(pid, Signal::KILL);
    }
}

// The journal in which a run writes its host changes.

/// The journal of a run on this device, and what was undone for it, one line each: what dead runs
/// left is undone first.
pub fn journal_of(
    session: &DeviceSession,
) -> Result<(JournalLocation, Vec<String>), ExpectedError> {
    let gpu = session.identity().uuid.clone();
    // Set for every virtual GPU; the one of this process sets it when it starts.
    let virtual_device = std::env::var_os(ENV).map(PathBuf::from);
    let (dir, notes) = match state_dir() {
        Ok(dir) => {
            let notes = before_run(&dir, &gpu, virtual_device.as_deref())?;
            (dir, notes)
        }
        // Without a home there is no journal, so nothing is left to undo. A change is refused
        // later.
        Err(JournalError::NoFolder) => (PathBuf::new(), Vec::new()),
        Err(error) => return Err(verdict::from_journal(error)),
    };
    Ok((JournalLocation::new(&dir, &gpu, virtual_device), notes))
}
