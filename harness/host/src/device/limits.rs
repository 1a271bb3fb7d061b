//! Limits of the host that a run would meet half-way: they are raised where the host allows it, and
//! else refused with the number that is needed.

use std::time::SystemTime;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit of the host is below what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("the limit of {what} is {found} {unit}, and {needed} are needed (ulimit -{flag})")]
    Low { what: &'static str, unit: &'static str, flag: char, found: u64, needed: u64 },
    #[error("the clock of this host is {0} (accepted: from 1970 to 9999)")]
    Clock(&'static str),
}

/// Files that any command has open, and each tenant of a run beside.
const FILES: u64 = 64;
const FILES_OF_TENANT: u64 = 16;
/// Address space of any command, and beside the device memory that a process of a run maps.
const ADDRESSES: u64 = 2 << 30;
const ADDRESSES_BESIDE: u64 = 16 << 30;
/// The longest file that is written without a virtual device.
const FILE_BYTES: u64 = 64 << 20;

/// What any command needs, also of the clock: a time has four digits for the year in records.
/// Fails with the first limit that is too low.
pub fn of_any() -> Result<(), LimitError> {
    clock()?;
    files(0)?;
    addresses(ADDRESSES)?;
    file_size(FILE_BYTES)
}

/// Open files of a run with so many tenants.
/// Fails when the limit is lower and cannot be raised.
pub fn of_tenants(tenants: u32) -> Result<(), LimitError> {
    files(tenants)
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

fn file_size(bytes: u64) -> Result<(), LimitError> {
    check(Resource::Fsize, ("the size of a file", "KiB", 'f', 1 << 10), bytes)
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
