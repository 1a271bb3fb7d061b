//! The cores of this process, divided among runs side by side.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_workloads::clock::ClockError;
use gpubench_workloads::clock::thread::Cores;

/// Where the kernel describes its processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Divides the cores of the calling thread into equal shares; `None` where there are fewer cores
/// than shares. The threads of one core stay together, so that no run waits for another one inside
/// a core, and so do cores of one socket as far as the shares allow.
///
/// # Errors
/// When the kernel does not report the cores of this thread.
pub fn core_shares(parts: usize) -> Result<Option<Vec<Cores>>, ClockError> {
    let all = Cores::of_this_thread()?;
    let located: Vec<(u32, Location)> =
        all.list().into_iter().map(|cpu| (cpu, location(Path::new(PROCESSORS), cpu))).collect();
    let of = |share: Vec<u32>| {
        let others = all.list().into_iter().filter(|cpu| !share.contains(cpu));
        others.fold(all, Cores::without)
    };
    let found = shares(&located, parts);
    Ok(found.map(|shares| shares.into_iter().map(of).collect()))
}

/// Socket and core of a processor.
type Location = (u32, u32);

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

#[cfg(test)]
mod tests {
    use super::{core_shares, location, shares};

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
}
