//! Scheduler settings of a thread: timer slack, real-time class, cores.
//!
//! Wall time only. Every setting belongs to the calling thread.
#![expect(unsafe_code, reason = "sched_setscheduler and getrusage have no safe form")]

use std::io::Read;
use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

use super::ClockError;

/// Real-time priority: above every ordinary thread, and at most that of the kernel's interrupt
/// threads, which run at 50 and must not be starved.
const FIFO_PRIORITY: i32 = 50;

/// Largest fraction of its core that a real-time thread may spin without being throttled; the
/// kernel's default limit is 95 % of each second (sched_rt_runtime_us in sched(7)).
pub(super) const FIFO_BUSY_MAX: f64 = 0.5;

/// The cores on which a thread may run.
#[derive(Clone, Copy)]
pub struct Cores(CpuSet);

impl std::fmt::Debug for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl Cores {
    /// The cores of the calling thread.
    /// Fails when the kernel refuses, as it does with more cores than the set holds.
    pub fn of_this_thread() -> Result<Self, ClockError> {
        let cores = sched_getaffinity(None);
        cores.map(Self).map_err(failed("sched_getaffinity"))
    }

    pub fn only(cpu: u32) -> Self {
        let mut cores = CpuSet::new();
        if (cpu as usize) < CpuSet::MAX_CPU {
            cores.set(cpu as usize);
        }
        Self(cores)
    }

    /// The set without that core.
    pub fn without(mut self, cpu: u32) -> Self {
        if (cpu as usize) < CpuSet::MAX_CPU {
            self.0.unset(cpu as usize);
        }
        self
    }

    /// The numbers of the cores, ascending.
    pub fn list(&self) -> Vec<u32> {
        (0..CpuSet::MAX_CPU as u32).filter(|cpu| self.0.is_set(*cpu as usize)).collect()
    }

    /// Moves the calling thread to these cores.
    pub fn apply(&self) -> Result<(), ClockError> {
        sched_setaffinity(None, &self.0).map_err(failed("sched_setaffinity"))
    }
}

/// Where the reaping thread runs, if its issuer is pinned: it would inherit that core.
#[derive(Debug, Clone, Copy)]
pub enum ReaperCores {
    /// A core that no other placed thread uses.
    Own(u32),
    Shared(Cores),
}

/// How often a thread stopped running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switches {
    pub voluntary: i64,
    /// The kernel ran another thread.
    pub involuntary: i64,
}

impl Switches {
    /// Of the calling thread so far.
    pub fn of_this_thread() -> Self {
        // SAFETY: plain numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: writes the structure; it cannot fail for these arguments.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Self { voluntary: usage.ru_nvcsw, involuntary: usage.ru_nivcsw }
    }
}

pub fn set_timer_slack_ns(slack_ns: u64) -> Result<(), ClockError> {
    let slack = NonZeroU64::new(slack_ns);
    set_current_timer_slack(slack).map_err(failed("prctl(PR_SET_TIMERSLACK)"))
}

/// Puts the calling thread into the real-time class; threads that it creates do not inherit it.
/// Fails when the process has no permission, which is common and reduces only the punctuality.
pub fn set_fifo() -> Result<(), ClockError> {
    set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, FIFO_PRIORITY)
}

/// Puts the calling thread into the real-time class, below the issuer.
pub fn set_fifo_of_reaper() -> Result<(), ClockError> {
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    set_class(class, FIFO_PRIORITY - 1)
}

/// Puts the calling thread back into the ordinary class.
/// Fails when the kernel refuses, which it should not.
pub fn set_other() -> Result<(), ClockError> {
    // The flag stays: an unprivileged thread may not clear it (sched(7)), and it changes nothing.
    set_class(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

fn set_class(class: i32, priority: i32) -> Result<(), ClockError> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter is valid for reads; 0 is the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, class, &raw const parameter) };
    if answer == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(ClockError::System { call: "sched_setscheduler", errno })
}

/// Whether real-time threads may use a whole core without limit. It allocates nothing, because it
/// is called between two loops of a measurement.
pub fn fifo_is_unthrottled() -> bool {
    let mut text = [0; 16];
    let read = std::fs::File::open("/proc/sys/kernel/sched_rt_runtime_us")
        .and_then(|mut file| file.read(&mut text));
    read.is_ok_and(|length| text[..length].trim_ascii() == b"-1")
}

pub(super) fn failed(call: &'static str) -> impl Fn(rustix::io::Errno) -> ClockError {
    move |errno| ClockError::System { call, errno: errno.raw_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_to_a_core_and_back() -> Result<(), ClockError> {
        let found = Cores::of_this_thread()?;
        let first = found.list()[0];
        Cores::only(first).apply()?;
        assert_eq!(Cores::of_this_thread()?.list(), [first]);
        found.apply()?;
        assert_eq!(Cores::of_this_thread()?.list(), found.list());
        Ok(())
    }

    #[test]
    fn a_missing_core_is_an_error() {
        assert!(Cores::only(CpuSet::MAX_CPU as u32 - 1).apply().is_err());
        assert!(Cores::only(u32::MAX).apply().is_err());
    }

    #[test]
    fn without_removes_one_core() -> Result<(), ClockError> {
        let found = Cores::of_this_thread()?;
        let first = found.list()[0];
        assert!(!found.without(first).list().contains(&first));
        assert_eq!(found.without(first).list().len() + 1, found.list().len());
        Ok(())
    }

    #[test]
    fn the_kernel_reports_the_set_slack() -> Result<(), ClockError> {
        set_timer_slack_ns(1)?;
        assert_eq!(rustix::thread::current_timer_slack(), Ok(1));
        Ok(())
    }
}
