//! CPU time that a hypervisor took from this host while a cell ran.

/// The kernel's counters.
const STAT: &str = "/proc/stat";

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
        Self::parse(&std::fs::read_to_string(STAT).ok()?)
    }

    /// The first line: `cpu user nice system idle iowait irq softirq steal guest guest_nice`
    /// (proc_stat(5)). The time of guests is included in user and nice.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks = line.split_whitespace().map(|field| field.parse().ok());
        let ticks: Vec<u64> = ticks.take(8).collect::<Option<_>>()?;
        let stolen = *ticks.get(7)?;
        Some(Self {
            total: ticks.iter().sum(),
            stolen,
        })
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
    fn reads_stolen_time_from_the_eighth_field() {
        let read = |line: &str| CpuTime::parse(&format!("{line}\ncpu0 9 9 9 9 9 9 9 9 9 9\n"));
        let before = read("cpu  100 0 50 800 10 0 0 5 40 0").expect("a line of proc_stat(5)");
        let after = read("cpu  150 0 60 930 10 0 0 15 90 0").expect("a line of proc_stat(5)");
        assert_eq!(after.stolen_since(before), Some(10.0 / 200.0));
        assert_eq!(after.stolen_since(after), None, "no time has passed");
        assert_eq!(before.stolen_since(after), None, "time went backwards");
        for odd in ["cpu  1 2 3", "cpu  a b c d e f g h", "intr 1 2", ""] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn this_host_has_the_counters() {
        assert!(CpuTime::now().is_some());
    }
}
