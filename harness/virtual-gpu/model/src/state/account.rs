//! Usage of a process, which accounting mode keeps after the process has ended.

use super::{Process, State};

/// Accounts kept.
pub const ACCOUNTS: usize = 128;

/// Usage of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Account {
    /// Process id.
    pub pid: u32,
    /// Whether it still uses the device.
    pub running: bool,
    /// When it took its slot.
    pub start_ns: u64,
    /// When its slot was freed; the present while it runs.
    pub end_ns: u64,
    /// Device time of its kernels.
    pub busy_ns: u64,
    /// DRAM use of its kernels, each nanosecond weighted with the share, in fixed point.
    pub dram_busy: u128,
    /// Peak device memory.
    pub peak_bytes: u64,
}

impl Account {
    /// The account of a process at this instant.
    #[must_use]
    pub fn of(process: &Process, now_ns: u64) -> Self {
        Self {
            pid: process.pid,
            running: true,
            start_ns: process.start_ns,
            end_ns: now_ns,
            busy_ns: process.busy_ns,
            dram_busy: process.dram_busy,
            peak_bytes: process.peak_bytes,
        }
    }
}

/// Keeps the account of a process that ends, if accounting is on and it had device memory.
pub fn leave(state: &mut State, slot: u32) {
    let process = state.processes.rows[slot as usize];
    if !state.accounting || process.peak_bytes == 0 {
        return;
    }
    let account = Account {
        running: false,
        ..Account::of(&process, state.now_ns)
    };
    // The oldest account is dropped.
    let at = (state.accounts_left % ACCOUNTS as u64) as usize;
    state.accounts.rows[at] = account;
    state.accounts.used = state.accounts.used.max(at as u32 + 1);
    state.accounts.touch();
    state.accounts_left += 1;
}
