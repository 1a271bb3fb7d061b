//! Undoes the changes that a dead run left.
//!
//! An operator may have changed the host since, so it is not compared with the state that the run
//! found: each change that is undone is checked by itself.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpubench_workloads::command::RUN;
use procfs::process::{Process, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use gpubench_record::regular_file;

use super::change::{Change, Undone, When, not_undone};
use super::guard::{Entry, Journal, JournalError, Steps, hold, io, own};
use super::mps_control::is_mps;
use super::run_id::{Life, RunId};
use super::{Control, ControlError};
use crate::device::private_folder;

/// Whether the device of a dead run still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    Whole(When),
    /// The device was virtual and is gone with its settings.
    WithoutDevice,
}

/// How the recovery of one run ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub undone: Vec<Change>,
    /// What another process has changed since, one line each.
    pub left_alone: Vec<String>,
    /// The changes that could not be undone, with the reason in one line each. The journal keeps
    /// them.
    pub failed: Vec<(Change, String)>,
}

/// Undoes the changes that a dead run left, and deletes its journal if all of them are undone.
pub fn recover(
    host: &dyn Control,
    mut journal: Journal,
    left: &Leftover,
    recovery: Recovery,
) -> Result<Recovered, JournalError> {
    let mut steps = Steps::of(left.virtual_device.as_deref());
    let mut recovered = Recovered::default();
    for (number, change) in left.changes.iter().rev() {
        match undo(host, change, recovery) {
            Ok(undone) => {
                steps.done();
                journal.mark(*number)?;
                steps.done();
                match undone {
                    Undone::Done => recovered.undone.push(change.clone()),
                    Undone::LeftAlone(why) => recovered.left_alone.push(why),
                }
            }
            Err(error) => {
                let why = not_undone(change, &error);
                recovered.failed.push((change.clone(), why));
            }
        }
    }
    if recovered.failed.is_empty() {
        journal.close()?;
    }
    Ok(recovered)
}

fn undo(host: &dyn Control, change: &Change, recovery: Recovery) -> Result<Undone, ControlError> {
    let when = match recovery {
        Recovery::WithoutDevice if change.is_of_device() => return Ok(Undone::Done),
        Recovery::WithoutDevice => When::Later,
        Recovery::Whole(when) => when,
    };
    let undone = change.undo(host, when)?;
    if undone == Undone::Done && when != When::AfterReboot && change.remains(host)? {
        let doing = "checking it afterwards";
        return Err(ControlError::new(doing, "the host still has the value of the run"));
    }
    Ok(undone)
}

// The changes that dead runs left, from their journals.

/// Longest wait for another process that undoes the changes of a dead run, and the time between two
/// looks.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// The changes that one run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub path: PathBuf,
    /// The run; `None` in a journal of version 0.1.
    pub run: Option<RunId>,
    pub gpu: String,
    /// State folder of the device, if it is virtual.
    pub virtual_device: Option<PathBuf>,
    /// Changes that are not undone, in the order in which they were made.
    pub changes: Vec<(u64, Change)>,
}

/// The wanted changes that dead runs left, with their locked journals. Where another process
/// undoes the changes of a dead run, its end is waited for. If a GPU is named, unreadable journals
/// of other GPUs are left out.
pub fn leftovers(
    dir: &Path,
    gpu: Option<&str>,
    is_wanted: &dyn Fn(&Leftover) -> bool,
) -> Result<Vec<(Journal, Leftover)>, JournalError> {
    let own = RunId::own().map_err(|source| io(Path::new("/proc"), source))?;
    let mut found = Vec::new();
    for path in journals(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = gpu.is_none_or(|gpu| name.starts_with(&format!("{gpu}.")));
        let seen = match peek(&path) {
            Err(_) if !is_named => continue,
            seen => seen?,
        };
        if seen.as_ref().is_some_and(|left| !is_wanted(left)) {
            continue;
        }
        let is_dead = |run: &RunId| run.life(&own) == Life::Ended;
        let is_undone = seen.and_then(|left| left.run).as_ref().is_some_and(is_dead);
        let Some(file) = hold_within(&path, if is_undone { WAIT } else { Duration::ZERO })? else {
            continue;
        };
        let Some((left, next)) = read(&file, &path)? else {
            // No run began in it, or its run removed it since.
            std::fs::remove_file(&path).map_err(|source| io(&path, source))?;
            continue;
        };
        let journal = Journal { file, path, next };
        if left.changes.is_empty() {
            journal.close()?;
        } else if is_wanted(&left) {
            found.push((journal, left));
        }
    }
    Ok(found)
}

/// Reads a journal that another process may hold; `None` if it is empty or gone.
fn peek(path: &Path) -> Result<Option<Leftover>, JournalError> {
    match regular_file::open(path) {
        Ok(file) => {
            own(&file).map_err(|source| io(path, source))?;
            Ok(read(&file, path)?.map(|(left, _)| left))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io(path, source)),
    }
}

/// Locks a journal, also if another process releases it within `limit`.
fn hold_within(path: &Path, limit: Duration) -> Result<Option<File>, JournalError> {
    for _ in 0..limit.as_millis() / STEP.as_millis() {
        if let Some(file) = hold(path)? {
            return Ok(Some(file));
        }
        std::thread::sleep(STEP);
    }
    hold(path)
}

fn journals(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(io(dir, source)),
    };
    private_folder::own(dir).map_err(|source| io(dir, source))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| io(dir, source))?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a journal: its changes to undo, and the number of the next change. `None` if it is empty.
fn read(file: &File, path: &Path) -> Result<Option<(Leftover, u64)>, JournalError> {
    let mut file = file;
    file.seek(SeekFrom::Start(0)).map_err(|source| io(path, source))?;
    let mut left: Option<Leftover> = None;
    let mut next = 1;
    let mut reader = BufReader::new(file);
    let mut number_of_line = 0;
    loop {
        let mut bytes = Vec::new();
        let read = reader.read_until(b'\n', &mut bytes);
        if read.map_err(|source| io(path, source))? == 0 {
            break;
        }
        number_of_line += 1;
        let Some(line) = bytes.strip_suffix(b"\n") else {
            // An incomplete line of a run that died. Its change was not made.
            break;
        };
        let entry = serde_json::from_slice(line).map_err(|error| JournalError::Line {
            path: path.display().to_string(),
            line: number_of_line,
            what: error.to_string(),
        })?;
        match (entry, &mut left) {
            (Entry::Began { gpu, run, virtual_device, .. }, _) => {
                left = Some(Leftover {
                    path: path.to_path_buf(),
                    run,
                    gpu,
                    virtual_device,
                    changes: Vec::new(),
                });
            }
            (Entry::Change { number, what }, Some(left)) => {
                left.changes.push((number, what));
                next = number + 1;
            }
            (Entry::Made { number, uuids: made }, Some(left)) => {
                for (known, change) in &mut left.changes {
                    if let Change::MigInstance { uuids, .. } = change
                        && *known == number
                    {
                        uuids.clone_from(&made);
                    }
                }
            }
            (Entry::Undone { number }, Some(left)) => {
                left.changes.retain(|(known, _)| *known != number);
            }
            (Entry::Change { .. } | Entry::Made { .. } | Entry::Undone { .. }, None) => {
                return Err(JournalError::Line {
                    path: path.display().to_string(),
                    line: number_of_line,
                    what: "it comes before the first line of a run".to_owned(),
                });
            }
        }
    }
    Ok(left.map(|left| (left, next)))
}

// Finding and ending the processes of dead runs: tenants, daemons and servers, and what a user's
// program started.
//
// A process belongs to the run that its environment names. Only processes of this user are
// searched. A process that removed the variable is not found; tenants end with the coordinator in
// any case.

/// Searches until no process is left, and the pause between two.
const ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Which processes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All but daemons and servers of MPS, which end by a command while their folder exists.
    ExceptMps,
    All,
}

/// Kills the processes of the runs for which `is_dead` holds. Returns how many it found.
pub fn end_run_processes(kind: Kind, is_dead: impl Fn(&RunId) -> bool) -> usize {
    let is_left = |process: &Process| {
        run_of(process).is_some_and(|run| is_dead(&run)) && (kind == Kind::All || !is_mps(process))
    };
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..ROUNDS {
        let left = own_processes().filter(|process| is_left(process));
        let left: Vec<i32> = left.map(|process| process.pid()).collect();
        if left.is_empty() {
            break;
        }
        for &pid in &left {
            kill(pid, &is_left);
        }
        found.extend(left);
        std::thread::sleep(PAUSE);
    }
    found.len()
}

/// The processes of this user without this one.
fn own_processes() -> impl Iterator<Item = Process> {
    let (own, user) = (std::process::id(), rustix::process::geteuid().as_raw());
    // `/proc` is readable wherever this program runs: it starts from `/proc/self/exe`. A process
    // that ends during the search is left out.
    let all = all_processes().into_iter().flatten().flatten();
    all.filter(move |process| {
        u32::try_from(process.pid()) != Ok(own) && process.uid().is_ok_and(|uid| uid == user)
    })
}

/// The run that a process belongs to; `None` for a process that has ended.
fn run_of(process: &Process) -> Option<RunId> {
    let environment = process.environ().ok()?;
    environment.get(OsStr::new(RUN))?.to_str()?.parse().ok()
}

/// Kills a process that still belongs to the run once a descriptor keeps its id from being reused.
fn kill(pid: i32, is_left: &dyn Fn(&Process) -> bool) {
    let Some(handle) = Pid::from_raw(pid) else {
        return;
    };
    // It may have ended since.
    let Ok(handle) = pidfd_open(handle, PidfdFlags::empty()) else {
        return;
    };
    if Process::new(pid).is_ok_and(|process| is_left(&process)) {
        let _ended = pidfd_send_signal(handle, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use gpubench_workloads::command::{Inherits, RUN, command};

    use super::{Kind, end_run_processes};
    use crate::mechanism::host::RunId;

    #[test]
    fn the_processes_of_a_run_are_ended_and_no_others() -> std::io::Result<()> {
        let own = RunId::own()?.to_string();
        let (dead, other) = (format!("{own}1"), format!("{own}2"));
        let sleeper = |run: &str| {
            let mut sleeper = command("sleep", Inherits::Listed);
            sleeper.arg("60").env(RUN, run).stdin(Stdio::null()).spawn()
        };
        let (mut first, mut second) = (sleeper(&dead)?, sleeper(&dead)?);
        let mut stays = sleeper(&other)?;
        // A new process has this environment once it runs its program.
        for child in [&first, &second, &stays] {
            let path = format!("/proc/{}/environ", child.id());
            while !String::from_utf8_lossy(&std::fs::read(&path)?).contains(&own) {
                std::thread::yield_now();
            }
        }
        let found = end_run_processes(Kind::All, |run| run.to_string() == dead);
        assert_eq!(found, 2);
        assert!(!first.wait()?.success() && !second.wait()?.success());
        assert!(stays.try_wait()?.is_none());
        stays.kill()?;
        stays.wait().map(|_| ())
    }
}
