//! Scheduler settings of a thread: timer slack, real-time class, cores.
//!
//! Wall time only. Every setting belongs to the calling thread.
#![expect(
    unsafe_code,
    reason = "prctl, sched_setscheduler and sched_setaffinity"
)]

use std::io::Read;

use super::ClockError;

/// Real-time priority: above every ordinary thread, and at most that of the kernel's interrupt
/// threads, which run at 50 and must not be starved.
const FIFO_PRIORITY: i32 = 50;

/// Largest fraction of its core that a real-time thread may spin without being throttled; the
/// kernel's default limit is 95 % of each second (sched_rt_runtime_us in sched(7)).
pub(super) const FIFO_BUSY_MAX: f64 = 0.5;

/// The cores on which a thread may run.
#[derive(Clone, Copy)]
pub struct Cores(libc::cpu_set_t);

impl std::fmt::Debug for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl Cores {
    /// The empty set.
    fn none() -> Self {
        // SAFETY: all zero bits are a valid, empty set.
        Self(unsafe { std::mem::zeroed() })
    }

    /// The cores of the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses, as it does with more cores than the set holds.
    pub fn of_this_thread() -> Result<Self, ClockError> {
        let mut cores = Self::none();
        // SAFETY: the set is valid for writes of its own size; 0 is the calling thread.
        let answer =
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cores.0) };
        if answer == 0 {
            Ok(cores)
        } else {
            Err(failed("sched_getaffinity"))
        }
    }

    /// The set of one core.
    #[must_use]
    pub fn only(cpu: u32) -> Self {
        let mut cores = Self::none();
        if cpu < libc::CPU_SETSIZE.cast_unsigned() {
            // SAFETY: the index is below the size of the set.
            unsafe { libc::CPU_SET(cpu as usize, &mut cores.0) };
        }
        cores
    }

    /// The set without that core.
    #[must_use]
    pub fn without(mut self, cpu: u32) -> Self {
        if cpu < libc::CPU_SETSIZE.cast_unsigned() {
            // SAFETY: the index is below the size of the set.
            unsafe { libc::CPU_CLR(cpu as usize, &mut self.0) };
        }
        self
    }

    /// The numbers of the cores, ascending.
    #[must_use]
    pub fn list(&self) -> Vec<u32> {
        (0..libc::CPU_SETSIZE.cast_unsigned())
            // SAFETY: the index is below the size of the set.
            .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &self.0) })
            .collect()
    }

    /// Moves the calling thread to these cores.
    ///
    /// # Errors
    /// When none of them may be used.
    pub fn apply(&self) -> Result<(), ClockError> {
        // SAFETY: the set is valid for reads of its own size; 0 is the calling thread.
        let answer =
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
        if answer == 0 {
            Ok(())
        } else {
            Err(failed("sched_setaffinity"))
        }
    }
}

/// Limits the timer slack of the calling thread.
///
/// # Errors
/// When the kernel refuses.
pub fn set_timer_slack_ns(slack_ns: u64) -> Result<(), ClockError> {
    // SAFETY: takes a number and touches no memory of ours.
    let answer = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) };
    if answer == 0 {
        Ok(())
    } else {
        Err(failed("prctl(PR_SET_TIMERSLACK)"))
    }
}

/// Puts the calling thread into the real-time class; threads that it creates do not inherit it.
///
/// # Errors
/// When the process has no permission, which is common and reduces only the punctuality.
pub fn set_fifo() -> Result<(), ClockError> {
    set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, FIFO_PRIORITY)
}

/// Puts the calling thread back into the ordinary class.
///
/// # Errors
/// When the kernel refuses, which it should not.
pub fn set_other() -> Result<(), ClockError> {
    // The flag stays: an unprivileged thread may not clear it (sched(7)), and it changes nothing.
    set_class(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

fn set_class(class: i32, priority: i32) -> Result<(), ClockError> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameter is valid for reads; 0 is the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, class, &raw const parameter) };
    if answer == 0 {
        Ok(())
    } else {
        Err(failed("sched_setscheduler"))
    }
}

/// Whether real-time threads may use a whole core without limit. It allocates nothing, because it
/// is called between two loops of a measurement.
#[must_use]
pub fn fifo_is_unthrottled() -> bool {
    let mut text = [0; 16];
    let read = std::fs::File::open("/proc/sys/kernel/sched_rt_runtime_us")
        .and_then(|mut file| file.read(&mut text));
    read.is_ok_and(|length| text[..length].trim_ascii() == b"-1")
}

fn failed(call: &'static str) -> ClockError {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    ClockError::System { call, errno }
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
        assert!(
            Cores::only(libc::CPU_SETSIZE.cast_unsigned() - 1)
                .apply()
                .is_err()
        );
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
        // SAFETY: takes nothing and returns a number.
        let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        assert_eq!(slack_ns, 1);
        Ok(())
    }
}
