//! What this program has read so far: the other end of every figure that covers a window; and the
//! stamps of samples, in microseconds.
//!
//! A driver keeps such samples for all programs. Here each program keeps its own from `nvmlInit`
//! on: a window never reaches back beyond that, and a figure over no time at all is not given.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Error;
use crate::device::Device;

const KEPT: usize = 128;
/// Records closer together than this are not worth keeping: the ring would cover too short a time.
const APART_NS: u64 = 20_000_000;

/// What a process has had of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Had {
    /// Its id.
    pub pid: u32,
    /// Time with a kernel of its own running.
    pub busy_ns: u64,
    /// DRAM, each nanosecond weighed with the share, in fixed point.
    pub dram: u128,
}

/// The counters at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When, on the model's clock.
    pub at_ns: u64,
    /// Energy used until then, in picojoules.
    pub energy_pj: u64,
    /// What each process had had until then.
    pub processes: Vec<Had>,
}

impl Record {
    /// Reads the counters as they stand.
    pub fn read(device: &Device) -> Result<Self, Error> {
        Ok(device.shared().read(|state| Self {
            at_ns: state.now_ns,
            energy_pj: state.energy_pj,
            processes: state
                .processes
                .live()
                .iter()
                .filter(|process| process.pid != 0)
                .map(|process| Had {
                    pid: process.pid,
                    busy_ns: process.busy_ns,
                    dram: process.dram_busy,
                })
                .collect(),
        })?)
    }

    /// What a process had had by then; nothing if it was not there yet.
    pub fn of(&self, pid: u32) -> Had {
        let found = self.processes.iter().find(|had| had.pid == pid);
        found.copied().unwrap_or_default()
    }
}

/// Records in the order of their time.
pub struct History(VecDeque<Record>);

impl History {
    /// Nothing read yet.
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Keeps a record, unless the last one is almost as fresh.
    pub fn push(&mut self, record: Record) {
        let last = self.0.back().map(|last| last.at_ns);
        if last.is_some_and(|last_ns| record.at_ns < last_ns + APART_NS) {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(record);
    }

    /// The newest record that is not younger than `at_ns`, or else the oldest there is.
    pub fn before(&self, at_ns: u64) -> Option<&Record> {
        self.0.iter().rev().find(|record| record.at_ns <= at_ns).or_else(|| self.0.front())
    }
}

/// Microseconds as NVML stamps its samples: since 1970 in wall time, on the clock the model's own.
pub(super) fn stamp_us(device: &Device, at_ns: u64) -> u64 {
    if device.is_virtual_time() {
        return at_ns / 1000;
    }
    (unix_origin_ns(device) + at_ns) / 1000
}

/// The last instant of the model's clock that has that stamp.
pub(super) fn instant_ns(device: &Device, stamp_us: u64) -> u64 {
    let last_ns = stamp_us.saturating_mul(1000).saturating_add(999);
    if device.is_virtual_time() {
        return last_ns;
    }
    last_ns.saturating_sub(unix_origin_ns(device))
}

/// Unix time at which the device's wall time began. Computed once, so that a stamp means the same
/// instant in every call, also after the host's clock was set.
#[expect(clippy::disallowed_methods, reason = "NVML stamps process samples with Unix time")]
fn unix_origin_ns(device: &Device) -> u64 {
    static ORIGIN_NS: OnceLock<u64> = OnceLock::new();
    *ORIGIN_NS.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        // A host clock before 1970 is answered with stamps that count from the device's start.
        let now_ns = since_1970.map_or(0, |time| time.as_nanos() as u64);
        now_ns.saturating_sub(device.session().wall_now_ns())
    })
}

#[cfg(test)]
mod tests {
    use super::{APART_NS, Had, History, KEPT, Record};

    fn at(at_ns: u64) -> Record {
        Record {
            at_ns,
            energy_pj: at_ns,
            processes: vec![Had { pid: 7, busy_ns: at_ns / 2, dram: 0 }],
        }
    }

    #[test]
    fn the_window_begins_at_the_last_record_before_it() {
        let mut history = History::new();
        assert_eq!(history.before(5), None);
        for step in 1..4 {
            history.push(at(step * APART_NS));
            history.push(at(step * APART_NS + 1));
        }
        let found = |t| history.before(t).map(|record| record.at_ns / APART_NS);
        assert_eq!(found(3 * APART_NS - 1), Some(2));
        assert_eq!(found(u64::MAX), Some(3));
        assert_eq!(found(0), Some(1), "the oldest stands for all that came before");
    }

    #[test]
    fn old_records_are_dropped_and_unknown_processes_had_nothing() {
        let mut history = History::new();
        for step in 0..=KEPT as u64 {
            history.push(at(step * APART_NS));
        }
        assert_eq!(history.before(0), Some(&at(APART_NS)));
        assert_eq!((at(40).of(7).busy_ns, at(40).of(8).busy_ns), (20, 0));
    }
}
