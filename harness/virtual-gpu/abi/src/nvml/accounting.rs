//! Accounting: what each process used over its life, also after its end.

use std::ffi::c_uint;

use super::library::catch_up_with_the_living;
use super::mig::privileged;
use super::returns::{self, Return};
use super::target::device;
use super::types::AccountingStats;
use super::utilization::stamp_us;
use super::{DeviceHandle, check_not_null, put, put_list};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::state::{ACCOUNTS, Account, FRACTION_BITS, State};

figures! {
    fn nvmlDeviceGetAccountingMode(device) -> u32 {
        Ok(u32::from(is_on(device)?))
    }

    fn nvmlDeviceGetAccountingBufferSize(_) -> u32 {
        Ok(ACCOUNTS as u32)
    }
}

entries! {
    fn nvmlDeviceSetAccountingMode(handle: DeviceHandle, mode: c_uint) {
        let device = device(handle)?;
        let on = match mode {
            0 => false,
            1 => true,
            _ => return Err(returns::INVALID_ARGUMENT),
        };
        if device.shared().read(|state| state.mig.current)? {
            return Err(returns::NOT_SUPPORTED);
        }
        privileged(&device)?;
        Ok(device.transact(|state, _| state.accounting = on)?)
    }

    fn nvmlDeviceClearAccountingPids(handle: DeviceHandle) {
        let device = device(handle)?;
        privileged(&device)?;
        // The accounts of running processes are kept (nvml.h).
        Ok(device.transact(|state, _| {
            state.accounts.used = 0;
            state.accounts.touch();
            state.accounts_left = 0;
        })?)
    }

    fn nvmlDeviceGetAccountingPids(handle: DeviceHandle, count: *mut c_uint, pids: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(count)?;
        let mut found: Vec<u32> = accounts(&device)?.iter().map(|account| account.pid).collect();
        found.sort_unstable();
        found.dedup();
        put_list(&found, count, pids)
    }

    fn nvmlDeviceGetAccountingStats(handle: DeviceHandle, pid: c_uint, to: *mut AccountingStats) {
        let device = device(handle)?;
        check_not_null(to)?;
        // Of processes with the same pid, the last one counts; running ones come last.
        let all = match accounts(&device) {
            Err(returns::NOT_SUPPORTED) if !divided(&device)? => Vec::new(),
            all => all?,
        };
        let found = all.into_iter().rfind(|account| account.pid == pid);
        let stats = stats(&device, &found.ok_or(returns::NOT_FOUND)?);
        put(to, stats)
    }
}

fn divided(device: &Device) -> Result<bool, Return> {
    Ok(device.shared().read(|state| state.mig.current)?)
}

/// Whether the mode is on; a divided device has none (nvml.h).
fn is_on(device: &Device) -> Result<bool, Return> {
    Ok(device
        .shared()
        .read(|state| state.accounting && !state.mig.current)?)
}

/// The accounts of ended processes, the oldest first, then of running ones.
fn accounts(device: &Device) -> Result<Vec<Account>, Return> {
    if !is_on(device)? {
        return Err(returns::NOT_SUPPORTED);
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

fn stats(device: &Device, account: &Account) -> AccountingStats {
    let life_ns = u128::from(account.end_ns.saturating_sub(account.start_ns)).max(1);
    let percent = |part: u128| (part * 100 / life_ns).min(100) as u32;
    AccountingStats {
        gpu_utilization: percent(account.busy_ns.into()),
        memory_utilization: percent(account.dram_busy >> FRACTION_BITS),
        max_memory_usage: account.peak_bytes,
        time_ms: if account.running {
            0
        } else {
            (life_ns / 1_000_000) as u64
        },
        start_time_us: stamp_us(device, account.start_ns),
        is_running: u32::from(account.running),
        reserved: [0; 5],
    }
}
