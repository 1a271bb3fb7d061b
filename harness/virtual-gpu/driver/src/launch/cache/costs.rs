//! The cost cache: costs of sampled launches, shared by all processes of a device.
//!
//! A load generator makes the same launch in many contexts, and each would execute its sample. The
//! cost of a sample does not depend on addresses, so it is kept in the device's folder under a key
//! without addresses. A launch is kept if its branches and addresses do not depend on loaded data
//! and it accesses only allocations that its arguments point to. Equal keys then mean equal costs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::PathBuf;

use crate::cost::Cost;
use crate::launch::request::Outcome;
use gpubench_virtual_gpu_model::state::{InFlight, RESOURCES};

/// Name of the file in the device's folder.
const FILE: &str = "launches";

/// Lines kept. A program without identical launches must not fill the host's disk.
const LINES_MAX: usize = 65_536;

/// A launch with a key that holds no addresses.
#[derive(Debug, Clone, Default)]
pub struct PortableLaunch {
    /// Allocations that its arguments point to, in the order of the arguments.
    pub pointees: Vec<u64>,
    /// Equal for launches of equal cost; `None` if the cost depends on data.
    pub(crate) key: Option<String>,
}

/// The file, and the lines that this process has read.
#[derive(Debug)]
pub struct CostCache {
    path: PathBuf,
    read_to: u64,
    lines: HashMap<String, Line>,
}

impl CostCache {
    /// The cost cache of the device in a folder.
    pub fn of(dir: &std::path::Path) -> Self {
        Self { path: dir.join(FILE), read_to: 0, lines: HashMap::new() }
    }

    /// The outcome of an identical launch, as if it had been executed here.
    pub fn find(&mut self, launch: &PortableLaunch) -> Option<Outcome> {
        let key = launch.key.as_ref()?;
        if !self.lines.contains_key(key) {
            // Without the file the launch is executed, which costs time only.
            let _ = self.read_on();
        }
        let line = self.lines.get(key)?;
        let of = |all: &[usize]| -> Option<Vec<u64>> {
            all.iter().map(|&at| launch.pointees.get(at).copied()).collect()
        };
        let (reads, writes) = (of(&line.reads)?, of(&line.writes)?);
        Some(Outcome {
            cost: line.cost,
            by_clock: line.by_clock,
            extents: vec![(0, 0); writes.len()],
            reads,
            writes,
            sampled: true,
            uses_atomics: false,
            open: false,
            printed: false,
            fault: None,
        })
    }

    /// Keeps the cost of a launch, if it is valid for other processes.
    pub fn keep(&mut self, launch: &PortableLaunch, outcome: &Outcome) {
        let Some(key) = &launch.key else { return };
        if !outcome.sampled || outcome.open || outcome.fault.is_some() {
            return;
        }
        let of = |all: &[u64]| -> Option<Vec<usize>> {
            let index = |start: &u64| launch.pointees.iter().position(|other| other == start);
            all.iter().map(index).collect()
        };
        let (Some(reads), Some(writes)) = (of(&outcome.reads), of(&outcome.writes)) else { return };
        let line = Line { cost: outcome.cost, by_clock: outcome.by_clock, reads, writes };
        if self.lines.len() < LINES_MAX && !self.lines.contains_key(key) {
            // A cost that cannot be stored is computed again.
            let _ = self.append(key, &line);
            self.lines.insert(key.clone(), line);
        }
    }

    fn append(&self, name: &str, line: &Line) -> std::io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        // One write, so that lines of several processes do not mix.
        file.write_all(format!("{name} {}\n", line.text()).as_bytes())
    }

    /// Reads what was appended since the last time, up to the last whole line.
    fn read_on(&mut self) -> std::io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(self.read_to))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        self.read_to += whole as u64;
        for entry in text[..whole].lines() {
            if let Some((name, rest)) = entry.split_once(' ')
                && let Some(line) = Line::read(rest)
            {
                self.lines.entry(name.to_owned()).or_insert(line);
            }
        }
        Ok(())
    }
}

/// One line: a cost, and which of the pointees are read and written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) cost: Cost,
    pub(crate) by_clock: bool,
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<usize>,
}

impl Line {
    pub(super) fn text(&self) -> String {
        let cost = &self.cost;
        // The bits of the time, so that the same value is read back.
        let mut out = format!(
            "{} {} {} {} {} {} {}",
            cost.alone_ns.to_bits(),
            cost.power_mw,
            cost.sms,
            cost.in_flight.dram,
            cost.in_flight.l2,
            u8::from(cost.blocks_wait),
            u8::from(self.by_clock)
        );
        let numbers = |out: &mut String, all: &mut dyn Iterator<Item = u64>| {
            for number in all {
                // Writing to a string does not fail.
                let _ = write!(out, " {number}");
            }
        };
        numbers(&mut out, &mut cost.demand.iter().map(|&share| share.into()));
        for list in [&self.reads, &self.writes] {
            let items = list.iter().map(|&at| at as u64);
            numbers(&mut out, &mut std::iter::once(list.len() as u64).chain(items));
        }
        out.push(' ');
        out.push_str(END);
        out
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix(END)?.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let alone_ns = f64::from_bits(next()?);
        let (power_mw, sms) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
        let (dram, l2) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
        let (blocks_wait, by_clock) = (next()? == 1, next()? == 1);
        let mut demand = [0; RESOURCES];
        for share in &mut demand {
            *share = next()?.try_into().ok()?;
        }
        let mut list = || {
            let length = next()?;
            (0..length)
                .map(|_| next().and_then(|at| usize::try_from(at).ok()))
                .collect::<Option<Vec<usize>>>()
        };
        let (reads, writes) = (list()?, list()?);
        let whole = words.next().is_none();
        whole.then_some(Self {
            cost: Cost {
                alone_ns,
                demand,
                power_mw,
                sms,
                in_flight: InFlight { dram, l2 },
                blocks_wait,
            },
            by_clock,
            reads,
            writes,
        })
    }
}

/// End of a line. A line without it was cut off when its writer was killed.
pub(crate) const END: &str = ".";

#[cfg(test)]
mod tests {
    use super::{CostCache, Line, PortableLaunch};
    use crate::cost::Cost;
    use crate::launch::request::Outcome;
    use gpubench_virtual_gpu_model::state::{InFlight, RESOURCES};

    fn outcome(alone_ns: f64) -> Outcome {
        Outcome {
            cost: Cost {
                alone_ns,
                demand: std::array::from_fn(|at| at as u32 * 7),
                power_mw: 55_000,
                sms: 132,
                in_flight: InFlight { dram: 7, l2: 9 },
                blocks_wait: true,
            },
            by_clock: true,
            reads: vec![0x7000, 0x9000],
            writes: vec![0x9000],
            extents: vec![(0, 128)],
            sampled: true,
            uses_atomics: false,
            open: false,
            printed: false,
            fault: None,
        }
    }

    fn launch(name: &str, pointees: &[u64]) -> PortableLaunch {
        PortableLaunch { pointees: pointees.to_vec(), key: Some(name.to_owned()) }
    }

    #[test]
    fn another_process_finds_the_cost_with_its_own_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (CostCache::of(dir.path()), CostCache::of(dir.path()));
        let mine = launch("a", &[0x9000, 0x7000]);
        assert!(other.find(&mine).is_none());
        // A time without a short decimal form.
        let alone_ns = 1e6 / 3.0;
        one.keep(&mine, &outcome(alone_ns));
        let found = other.find(&launch("a", &[0x100, 0x200])).unwrap();
        assert_eq!(found.cost, outcome(alone_ns).cost);
        assert_eq!((found.reads, found.writes), (vec![0x200, 0x100], vec![0x100]));
        assert!(found.by_clock && found.sampled);
        assert!(other.find(&launch("b", &[0x100, 0x200])).is_none());
    }

    #[test]
    fn costs_that_others_cannot_use_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = CostCache::of(dir.path());
        let all = launch("a", &[0x9000, 0x7000]);
        let full = Outcome { sampled: false, ..outcome(1.0) };
        cache.keep(&all, &full);
        let open = Outcome { open: true, ..outcome(1.0) };
        cache.keep(&all, &open);
        // It accesses memory that no argument points to, or depends on data.
        cache.keep(&launch("a", &[0x9000]), &outcome(1.0));
        let dependent = PortableLaunch { key: None, ..all.clone() };
        cache.keep(&dependent, &outcome(1.0));
        assert!(cache.find(&all).is_none() && cache.find(&dependent).is_none());
        cache.keep(&all, &outcome(1.0));
        assert!(cache.find(&all).is_some());
    }

    #[test]
    fn a_truncated_or_changed_line_is_rejected() {
        let line =
            Line { cost: outcome(12.5).cost, by_clock: false, reads: vec![0, 1], writes: vec![1] };
        let text = line.text();
        assert_eq!(Line::read(&text), Some(line));
        for length in 0..text.len() {
            assert_eq!(Line::read(&text[..length]), None, "{length}");
        }
        assert_eq!(Line::read(&format!("1 {text}")), None);
        assert_eq!(RESOURCES, outcome(1.0).cost.demand.len());
    }

    #[test]
    fn a_writer_killed_in_the_middle_of_a_line_loses_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (CostCache::of(dir.path()), CostCache::of(dir.path()));
        std::fs::write(dir.path().join(super::FILE), "torn 12 13").unwrap();
        let pointees = [0x9000, 0x7000];
        assert!(other.find(&launch("a", &pointees)).is_none());
        one.keep(&launch("a", &pointees), &outcome(1.0));
        one.keep(&launch("b", &pointees), &outcome(2.0));
        assert!(other.find(&launch("a", &pointees)).is_none(), "its line continues the torn line");
        assert!(other.find(&launch("b", &pointees)).is_some());
    }
}
