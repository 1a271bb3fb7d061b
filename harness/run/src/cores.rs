//! Cores for the threads of a run on the wall clock.
//!
//! The victim's two threads stamp its requests: the issuer and the reaper, which polls for their
//! ends. Each has a core to itself where there are enough, and so has each neighbour's issuer. All
//! other threads stay off these cores: the coordinator, which reads counters and may be in the
//! kernel for a millisecond at a time, and its child processes, which inherit its cores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubench_workloads::clock::ClockError;
use gpubench_workloads::clock::thread::Cores;
use procfs::CurrentSI as _;

use super::Setup;

/// Cores for the coordinator, the kernel and the rest of the host, before a neighbour has one.
const OTHERS_MIN: usize = 2;

/// The cores of the threads that stamp requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    /// The core of each slot's issuer, as far as there are cores.
    issuers: Vec<u32>,
    /// The core of the victim's reaper; `None` where it runs on those of the other threads.
    reaper: Option<u32>,
    others: Vec<u32>,
}

impl Layout {
    /// Cores in the order of need: the victim's issuer, its reaper, the neighbours' issuers.
    /// Interrupts go to the first cores, so those stay with the other threads.
    ///
    /// With two cores the issuer has one, because its closed loop decides most rows, and the reaper
    /// shares the other with all other threads. Most neighbours sleep until their requests end and
    /// leave it to the reaper. On the core of the issuer it would wait for the spin before each
    /// arrival, which is up to 2 ms long and in the real-time class.
    ///
    /// Processors that are threads of one core to the hardware share its units, so each thread has
    /// a core apart where there are as many.
    fn of(allowed: &[u32], tenants: usize, core_of: &dyn Fn(u32) -> Location) -> Self {
        let wanted = tenants + 1;
        let kept = OTHERS_MIN.min(allowed.len().saturating_sub(2)).max(1);
        let (for_others, free) = allowed.split_at(kept.min(allowed.len()));
        let mut used: BTreeSet<Location> = for_others.iter().map(|cpu| core_of(*cpu)).collect();
        let apart: Vec<u32> =
            free.iter().copied().filter(|cpu| used.insert(core_of(*cpu))).collect();
        let from = if apart.len() >= wanted { &apart[..] } else { free };
        let own: Vec<u32> = from.iter().take(wanted).copied().collect();
        if own.is_empty() {
            return Self::default();
        }
        let others = allowed.iter().filter(|cpu| !own.contains(cpu));
        let others: Vec<u32> = others.copied().collect();
        Self {
            issuers: own[..1].iter().chain(own.iter().skip(2)).copied().collect(),
            reaper: own.get(1).copied(),
            others,
        }
    }

    /// Which threads share cores, for the reader of the figures; `None` where each of the threads
    /// above has its own.
    fn shortage(&self, cores: usize, tenants: usize) -> Option<String> {
        let list = |cores: &[u32]| {
            let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
            cores.join(", ")
        };
        let (count, others) = (count(cores), list(&self.others));
        let shared = match (self.issuers.first(), self.reaper) {
            (Some(_), None) => {
                format!("the victim's reaper shares core {others} with all other threads")
            }
            (Some(_), _) if self.issuers.len() < tenants => {
                let with = self.issuers.len();
                format!(
                    "{} of {} neighbours share core {others} with all other threads",
                    tenants - with,
                    tenants - 1
                )
            }
            (Some(_), _) => return None,
            (None, _) => "all threads of all tenants share it".to_owned(),
        };
        Some(format!(
            "{count} for {tenants} tenants: {shared}; gate cpu-gap bounds what the victim's rate \
             loses, and its latencies include these waits"
        ))
    }
}

fn count(cores: usize) -> String {
    match cores {
        1 => "1 core".to_owned(),
        _ => format!("{cores} cores"),
    }
}

/// Which threads of a run on the wall clock will share cores of this host; `None` where there are
/// enough. For a user's program, which is not placed, `None` too.
/// Fails when the kernel does not tell the cores of this thread.
pub fn shortage(plan: &gpubench_record::Plan) -> Result<Option<String>, ClockError> {
    if plan.user_victim.is_some() {
        return Ok(None);
    }
    let (allowed, tenants) = (Cores::of_this_thread()?.list(), plan.tenants as usize);
    Ok(Layout::of(&allowed, tenants, &core_of).shortage(allowed.len(), tenants))
}

pub struct Placement {
    layout: Layout,
    original: Option<Cores>,
}

impl Placement {
    /// Chooses them for a run, and moves the calling thread off those of issuers and reaper.
    /// Fails when the kernel refuses cores that this thread may use.
    pub fn settle(setup: &Setup) -> Result<Self, ClockError> {
        let unplaced = Self { layout: Layout::default(), original: None };
        // A user's program has the whole host, as without gpubench.
        if setup.clock.is_virtual() || setup.plan.user_victim.is_some() {
            return Ok(unplaced);
        }
        let original = Cores::of_this_thread()?;
        let layout = Layout::of(&original.list(), setup.plan.tenants as usize, &core_of);
        if layout.issuers.is_empty() {
            return Ok(unplaced);
        }
        let all = original.list();
        let taken = all.iter().filter(|cpu| !layout.others.contains(cpu));
        let others = taken.fold(original, |cores, cpu| cores.without(*cpu));
        others.apply()?;
        Ok(Self { layout, original: Some(original) })
    }

    /// The core of an issuer, if it has one.
    pub fn issuer(&self, slot: usize) -> Option<u32> {
        self.layout.issuers.get(slot).copied()
    }

    /// The core of a reaper, if it has one.
    pub fn reaper(&self, slot: usize) -> Option<u32> {
        self.layout.reaper.filter(|_| slot == 0)
    }

    /// Restores the cores of the calling thread.
    pub fn leave(&self) -> Result<(), ClockError> {
        self.original.as_ref().map_or(Ok(()), Cores::apply)
    }
}

// The cores of this process, divided among runs side by side.

/// Where the kernel describes its processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Divides the cores of the calling thread into equal shares; `None` where there are fewer cores
/// than shares. The threads of one core stay together, so that no run waits for another one inside
/// a core, and so do cores of one socket as far as the shares allow.
/// Fails when the kernel does not report the cores of this thread.
pub fn core_shares(parts: usize) -> Result<Option<Vec<Cores>>, ClockError> {
    let all = Cores::of_this_thread()?;
    let located: Vec<(u32, Location)> =
        all.list().into_iter().map(|cpu| (cpu, core_of(cpu))).collect();
    let of = |share: Vec<u32>| {
        let others = all.list().into_iter().filter(|cpu| !share.contains(cpu));
        others.fold(all, Cores::without)
    };
    let found = shares(&located, parts);
    Ok(found.map(|shares| shares.into_iter().map(of).collect()))
}

/// Socket and core of a processor.
type Location = (u32, u32);

fn core_of(cpu: u32) -> Location {
    location(Path::new(PROCESSORS), cpu)
}

/// A processor without a description is a core of its own.
fn location(folder: &Path, cpu: u32) -> Location {
    let read = |name: &str| {
        let path = folder.join(format!("cpu{cpu}/topology/{name}"));
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    (read("physical_package_id").unwrap_or(u32::MAX), read("core_id").unwrap_or(cpu))
}

fn shares(located: &[(u32, Location)], parts: usize) -> Option<Vec<Vec<u32>>> {
    let mut by_core: BTreeMap<Location, Vec<u32>> = BTreeMap::new();
    for (cpu, location) in located {
        by_core.entry(*location).or_default().push(*cpu);
    }
    let mut units: Vec<Vec<u32>> = by_core.into_values().collect();
    if units.len() < parts {
        units = located.iter().map(|(cpu, _)| vec![*cpu]).collect();
    }
    if parts == 0 || units.len() < parts {
        return None;
    }
    let (each, more) = (units.len() / parts, units.len() % parts);
    let mut rest = units.into_iter();
    let share = |part: usize| {
        let taken = rest.by_ref().take(each + usize::from(part < more));
        let mut share: Vec<u32> = taken.flatten().collect();
        share.sort_unstable();
        share
    };
    Some((0..parts).map(share).collect())
}

// CPU time that a hypervisor took from this host while a cell ran.

/// All CPU time of the host so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    total: u64,
    stolen: u64,
}

impl CpuTime {
    /// The kernel's counters now; `None` where they are not readable.
    pub fn now() -> Option<Self> {
        // Without it the gate `cpu-steal` is not evaluated.
        let cpu = procfs::KernelStats::current().ok()?.total;
        let stolen = cpu.steal?;
        // The time of guests is in user and nice already (proc_stat(5)).
        let total = cpu.user + cpu.nice + cpu.system + cpu.idle + cpu.iowait? + cpu.irq?;
        Some(Self { total: total + cpu.softirq? + stolen, stolen })
    }

    /// Share of the time since `before` that was stolen, 0 to 1; `None` if no time passed.
    pub fn stolen_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        let stolen = self.stolen.checked_sub(before.stolen)?;
        (total > 0).then(|| stolen as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuTime, Layout, core_shares, location, shares};

    #[test]
    fn the_victim_gets_cores_first_and_the_rest_keeps_one() {
        for (cores, tenants, issuers, reaper, others) in [
            (6, 2, &[2, 4][..], Some(3), &[0, 1, 5][..]),
            (5, 2, &[2, 4], Some(3), &[0, 1]),
            (4, 2, &[2], Some(3), &[0, 1]),
            (3, 2, &[1], Some(2), &[0]),
            (2, 2, &[1], None, &[0]),
            (1, 2, &[], None, &[]),
            (5, 3, &[2, 4], Some(3), &[0, 1]),
            (4, 1, &[2], Some(3), &[0, 1]),
        ] {
            let allowed: Vec<u32> = (0..cores).collect();
            let layout = Layout::of(&allowed, tenants, &|cpu| (0, cpu));
            let found = (&layout.issuers[..], layout.reaper, &layout.others[..]);
            assert_eq!(found, (issuers, reaper, others), "{cores} cores");
        }
        let allowed = [1, 5, 7, 8, 9, 12, 13];
        let layout = Layout::of(&allowed, 2, &|cpu| (0, cpu));
        assert_eq!((&layout.issuers[..], layout.reaper), (&[7, 9][..], Some(8)));
        // Two threads a core, numbered one after the other and as two halves.
        let allowed: Vec<u32> = (0..10).collect();
        for (core_of, issuers, reaper) in [
            ((|cpu| (0, cpu / 2)) as fn(u32) -> (u32, u32), [2, 6], 4),
            (|cpu| (0, cpu % 5), [2, 4], 3),
        ] {
            let layout = Layout::of(&allowed, 2, &core_of);
            assert_eq!((&layout.issuers[..], layout.reaper), (&issuers[..], Some(reaper)));
        }
    }

    #[test]
    fn a_shortage_names_the_threads_that_share() {
        let shortage = |cores: u32, tenants| {
            let allowed: Vec<u32> = (0..cores).collect();
            Layout::of(&allowed, tenants, &|cpu| (0, cpu)).shortage(allowed.len(), tenants)
        };
        assert_eq!(shortage(5, 2), None);
        for (cores, tenants, text) in [
            (4, 2, "1 of 1 neighbours share core 0, 1 with all other threads"),
            (5, 3, "1 of 2 neighbours share core 0, 1 with all other threads"),
            (
                2,
                2,
                "2 cores for 2 tenants: the victim's reaper shares core 0 with all other threads",
            ),
            (1, 2, "1 core for 2 tenants: all threads of all tenants share it"),
        ] {
            let found = shortage(cores, tenants).unwrap_or_default();
            assert!(found.contains(text), "{cores} cores: {found}");
        }
    }

    #[test]
    fn threads_of_a_core_stay_together_while_there_are_enough_cores() {
        // Two sockets of two cores with two threads each, numbered as Linux does.
        let host: Vec<_> = (0..8).map(|cpu| (cpu, (cpu % 4 / 2, cpu % 2))).collect();
        let plain: Vec<_> = (4..9).map(|cpu| (cpu, (0, cpu))).collect();
        for (located, parts, expected) in [
            (&host, 2, Some(vec![vec![0, 1, 4, 5], vec![2, 3, 6, 7]])),
            (&host, 3, Some(vec![vec![0, 1, 4, 5], vec![2, 6], vec![3, 7]])),
            (&host, 8, Some((0..8).map(|cpu| vec![cpu]).collect())),
            (&host, 9, None),
            (&plain, 2, Some(vec![vec![4, 5, 6], vec![7, 8]])),
            (&plain, 0, None),
        ] {
            assert_eq!(shares(located, parts), expected, "{parts}");
        }
    }

    #[test]
    fn the_shares_of_this_host_are_its_cores() -> Result<(), Box<dyn std::error::Error>> {
        let whole = core_shares(1)?.ok_or("no core")?;
        let own = gpubench_workloads::clock::thread::Cores::of_this_thread()?;
        assert_eq!(whole[0].list(), own.list());
        assert!(core_shares(own.list().len() + 1)?.is_none());
        let nowhere = location(std::path::Path::new("/nowhere"), 7);
        assert_eq!(nowhere, (u32::MAX, 7));
        Ok(())
    }

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
