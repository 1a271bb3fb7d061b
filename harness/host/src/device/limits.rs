//! Limits of the host that a run would meet half-way: they are raised where the host allows it, and
//! else refused with the number that is needed.

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::SystemTime;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit of the host is below what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("the limit of {what} is {found} {unit}, and {needed} are needed (ulimit -{flag})")]
    Low { what: &'static str, unit: &'static str, flag: char, found: u64, needed: u64 },
    #[error(
        "the limit of processes and threads of a user leaves {left} more, and {needed} are needed \
         (ulimit -u is {most}; a container also has pids.max)"
    )]
    Threads { left: usize, needed: usize, most: String },
    #[error("the clock of this host is {0} (accepted: from 1970 to 9999)")]
    Clock(&'static str),
}

/// Files that any command has open, and each tenant of a run beside.
const FILES: u64 = 64;
const FILES_OF_TENANT: u64 = 16;
/// Address space of any command, and beside the device memory that a process of a run maps.
const ADDRESSES: u64 = 2 << 30;
const ADDRESSES_BESIDE: u64 = 16 << 30;
/// Memory of its own that any command has, which a comparison of 10 records needs; and a process of
/// a run.
const DATA: u64 = 256 << 20;
const DATA_OF_RUN: u64 = 1 << 30;
/// The longest file that is written without a virtual device.
const FILE_BYTES: u64 = 64 << 20;
/// Time on all cores that any command may take; `doctor` takes 2 s.
const CPU_S: u64 = 10;
/// Threads that a run of a few tenants has, with those of the driver in each.
const THREADS: usize = 48;

/// What any command needs, also of the clock: a time has four digits for the year in records.
/// Fails with the first limit that is too low.
pub fn of_any() -> Result<(), LimitError> {
    clock()?;
    files(0)?;
    of_process()?;
    cpu_time(CPU_S)?;
    file_size(FILE_BYTES)
}

/// Memory of any process of ours, which is asked before anything takes some: an allocation that
/// fails ends a process without a word of the limit.
/// Fails with the first limit that is too low.
pub fn of_process() -> Result<(), LimitError> {
    addresses(ADDRESSES)?;
    data(DATA)
}

/// What a device needs that is in use, by tenants or by the coordinator alone.
/// Fails with the first limit that is too low.
pub fn of_session() -> Result<(), LimitError> {
    files(2)?;
    data(DATA_OF_RUN)?;
    threads(THREADS)
}

/// What a run needs with so many tenants, each of which may be busy on a core all its time.
/// Fails with the first limit that is too low.
pub fn of_run(tenants: u32, seconds: u64) -> Result<(), LimitError> {
    files(tenants)?;
    cpu_time(seconds.saturating_add(CPU_S))
}

/// Names the limit that refused a thread: one of memory, else that of threads.
pub fn of_refused_thread() -> LimitError {
    of_any().err().unwrap_or_else(|| no_threads(0, THREADS))
}

/// What a process needs that maps so much device memory, which is a file for a virtual device.
/// Fails with the first limit that is too low.
pub fn of_memory(bytes: u64, is_file: bool) -> Result<(), LimitError> {
    addresses(bytes.saturating_add(ADDRESSES_BESIDE))?;
    if is_file { file_size(bytes) } else { Ok(()) }
}

fn files(tenants: u32) -> Result<(), LimitError> {
    let needed = FILES + FILES_OF_TENANT * u64::from(tenants);
    check(Resource::Nofile, ("open files", "files", 'n', 1), needed)
}

fn addresses(bytes: u64) -> Result<(), LimitError> {
    check(Resource::As, ("address space", "KiB", 'v', 1 << 10), bytes)
}

fn data(bytes: u64) -> Result<(), LimitError> {
    check(Resource::Data, ("data", "KiB", 'd', 1 << 10), bytes)
}

fn cpu_time(seconds: u64) -> Result<(), LimitError> {
    check(Resource::Cpu, ("CPU time", "s", 't', 1), seconds)
}

fn file_size(bytes: u64) -> Result<(), LimitError> {
    check(Resource::Fsize, ("the size of a file", "KiB", 'f', 1 << 10), bytes)
}

/// Starts so many threads at once, and ends them.
fn threads(count: usize) -> Result<(), LimitError> {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    thread::scope(|scope| {
        for started in 0..count {
            let wait = || drop(gate.lock().map(|gate| gate.recv()));
            if thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, wait).is_err() {
                drop(open);
                return Err(no_threads(started, count));
            }
        }
        drop(open);
        Ok(())
    })
}

fn no_threads(left: usize, needed: usize) -> LimitError {
    let most = getrlimit(Resource::Nproc).current;
    let most = most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
    LimitError::Threads { left, needed, most }
}

#[expect(clippy::disallowed_methods, reason = "the time of day is checked once")]
fn clock() -> Result<(), LimitError> {
    /// The first second of year 10000.
    const END_S: u64 = 253_402_300_800;
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Err(_) => Err(LimitError::Clock("before 1970")),
        Ok(since) if since.as_secs() >= END_S => Err(LimitError::Clock("after 9999")),
        Ok(_) => Ok(()),
    }
}

/// Raises a limit to what is needed, where the host allows it.
fn check(
    resource: Resource,
    (what, unit, flag, scale): (&'static str, &'static str, char, u64),
    needed: u64,
) -> Result<(), LimitError> {
    let Rlimit { current, maximum } = getrlimit(resource);
    let Some(found) = current.filter(|limit| *limit < needed) else {
        return Ok(());
    };
    let is_allowed = maximum.is_none_or(|most| most >= needed);
    if is_allowed && setrlimit(resource, Rlimit { current: Some(needed), maximum }).is_ok() {
        return Ok(());
    }
    let needed = needed.div_ceil(scale);
    Err(LimitError::Low { what, unit, flag, found: found / scale, needed })
}
