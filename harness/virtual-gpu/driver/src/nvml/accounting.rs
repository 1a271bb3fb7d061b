//! Accounting: what each process used over its life, also after its end.

use super::Error;
use super::library::{catch_up_with_the_living, privileged};
use super::mig::{check_undivided, is_divided};
use super::timestamp::stamp_us;
use crate::device::Device;
use gpubench_virtual_gpu_model::state::{ACCOUNTS, Account, FRACTION_BITS, State};

/// Accounts of ended processes that are kept.
pub const KEPT: usize = ACCOUNTS;

/// What a process used over its life.
pub struct Stats {
    pub gpu_percent: u32,
    pub memory_percent: u32,
    pub peak_bytes: u64,
    /// Length of its life; 0 while it runs.
    pub time_ms: u64,
    pub start_us: u64,
    pub is_running: bool,
}

/// Switches the mode.
pub fn set_mode(device: &Device, on: bool) -> Result<(), Error> {
    check_undivided(device)?;
    privileged(device)?;
    Ok(device.transact(|state, _| state.accounting = on)?)
}

/// Forgets ended processes. The accounts of running ones are kept (nvml.h).
pub fn clear(device: &Device) -> Result<(), Error> {
    privileged(device)?;
    Ok(device.transact(|state, _| {
        state.accounts.used = 0;
        state.accounts.touch();
        state.accounts_left = 0;
    })?)
}

/// The processes that have an account.
pub fn pids(device: &Device) -> Result<Vec<u32>, Error> {
    let mut found: Vec<u32> = accounts(device)?.iter().map(|one| one.pid).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The account of a process. Of processes with the same id the last one counts; running ones come
/// last.
pub fn of_process(device: &Device, pid: u32) -> Result<Stats, Error> {
    let all = match accounts(device) {
        Err(Error::NotSupported) if !is_divided(device)? => Vec::new(),
        all => all?,
    };
    let found = all.into_iter().rfind(|account| account.pid == pid);
    Ok(stats(device, &found.ok_or(Error::NotFound)?))
}

/// Whether the mode is on; a divided device has none (nvml.h).
pub fn is_on(device: &Device) -> Result<bool, Error> {
    Ok(device
        .shared()
        .read(|state| state.accounting && !state.mig.current)?)
}

/// The accounts of ended processes, the oldest first, then of running ones.
fn accounts(device: &Device) -> Result<Vec<Account>, Error> {
    if !is_on(device)? {
        return Err(Error::NotSupported);
    }
    catch_up_with_the_living(device)?;
    Ok(device.shared().read(|state| {
        let mut found = ended(state);
        let running = state.processes.live().iter();
        let running = running.filter(|process| process.pid != 0);
        let running = running.map(|process| Account::of(process, state.now_ns));
        found.extend(running.filter(|account| account.peak_bytes > 0));
        found
    })?)
}

/// The ring of accounts of ended processes, the oldest first.
fn ended(state: &State) -> Vec<Account> {
    let first = state.accounts_left.saturating_sub(ACCOUNTS as u64);
    (first..state.accounts_left)
        .map(|number| state.accounts.rows[(number % ACCOUNTS as u64) as usize])
        .collect()
}

fn stats(device: &Device, account: &Account) -> Stats {
    let life_ns = u128::from(account.end_ns.saturating_sub(account.start_ns)).max(1);
    let percent = |part: u128| (part * 100 / life_ns).min(100) as u32;
    Stats {
        gpu_percent: percent(account.busy_ns.into()),
        memory_percent: percent(account.dram_busy >> FRACTION_BITS),
        peak_bytes: account.peak_bytes,
        time_ms: if account.running {
            0
        } else {
            (life_ns / 1_000_000) as u64
        },
        start_us: stamp_us(device, account.start_ns),
        is_running: account.running,
    }
}
