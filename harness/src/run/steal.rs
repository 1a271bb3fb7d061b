//! CPU time that a hypervisor took from this host while a cell ran.

use procfs::CurrentSI as _;

/// All CPU time of the host so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    total: u64,
    stolen: u64,
}

impl CpuTime {
    /// The kernel's counters now; `None` where they are not readable.
    #[must_use]
    pub fn now() -> Option<Self> {
        // Without it the gate `cpu-steal` is not evaluated.
        let cpu = procfs::KernelStats::current().ok()?.total;
        let stolen = cpu.steal?;
        // The time of guests is in user and nice already (proc_stat(5)).
        let total = cpu.user + cpu.nice + cpu.system + cpu.idle + cpu.iowait? + cpu.irq?;
        Some(Self { total: total + cpu.softirq? + stolen, stolen })
    }

    /// Share of the time since `before` that was stolen, 0 to 1; `None` if no time passed.
    #[must_use]
    pub fn stolen_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        let stolen = self.stolen.checked_sub(before.stolen)?;
        (total > 0).then(|| stolen as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::CpuTime;

    #[test]
    fn the_stolen_share_is_of_the_elapsed_time() {
        let of = |total, stolen| CpuTime { total, stolen };
        let (before, after) = (of(965, 5), of(1165, 15));
        assert_eq!(after.stolen_since(before), Some(10.0 / 200.0));
        assert_eq!(after.stolen_since(after), None, "no time has passed");
        assert_eq!(before.stolen_since(after), None, "time went backwards");
    }

    #[test]
    fn the_counters_of_this_host_grow() {
        let before = CpuTime::now().expect("/proc/stat has every counter");
        let mut now = before;
        while now.total < before.total + 2 {
            now = CpuTime::now().expect("/proc/stat has every counter");
        }
        let share = now.stolen_since(before).expect("time has passed");
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
