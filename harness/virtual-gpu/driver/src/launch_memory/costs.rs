//! What sampled launches were found to cost, for every process of a device.
//!
//! A load generator makes the same launch in one context after another, and each of them would
//! execute its sample anew. What a sample costs does not depend on where its memory lies, so it is
//! kept in the device's folder under a name without addresses. Only launches are kept that go
//! nowhere by what they load, and that touch nothing but what their arguments point to: then equal
//! names mean equal costs, whoever was first.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use crate::code::Code;
use crate::cost::Cost;
use gpubench_virtual_gpu_model::state::RESOURCES;

/// A fault as the program and the log will see it.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What comes back from the next call that waits.
    pub code: Code,
    /// The Xid that the driver logs, 0 for none.
    pub xid: u32,
}

/// What executing a launch came to.
#[derive(Debug)]
pub struct Outcome {
    /// What it costs.
    pub cost: Cost,
    /// It ends at an instant rather than after an amount of work.
    pub by_clock: bool,
    /// Allocations read.
    pub reads: Vec<u64>,
    /// Allocations written.
    pub writes: Vec<u64>,
    /// For each of them, the first byte touched and the one after the last.
    pub extents: Vec<(u64, u64)>,
    /// Parts of pinned host memory written, by address.
    pub pinned: Vec<Range<usize>>,
    /// Lane-instructions executed.
    pub lanes: u64,
    /// Only some of its blocks were executed.
    pub sampled: bool,
    /// Atomics ran.
    pub uses_atomics: bool,
    /// It touched memory that others than this process's calls read and write.
    pub open: bool,
    /// It printed.
    pub printed: bool,
    /// It ended badly.
    pub fault: Option<Fault>,
}

/// Name of the file in the device's folder.
const FILE: &str = "launches";

/// Lines that are kept. A program that never repeats itself must not fill the host's disk.
const LINES_MAX: usize = 65_536;

/// What ends a line: without it the writer was killed half-way.
const END: &str = ".";

/// A launch without its addresses.
#[derive(Debug, Clone, Default)]
pub struct Nameless {
    /// Allocations that its arguments point to, in the order of the arguments.
    pub pointees: Vec<u64>,
    /// Equal for launches that cost the same; none where that cannot be told from outside.
    pub(crate) name: Option<String>,
}

/// One line: a cost, and which of the pointees are read and written.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    cost: Cost,
    by_clock: bool,
    reads: Vec<usize>,
    writes: Vec<usize>,
}

/// The file, and what this process has read of it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    read_to: u64,
    lines: HashMap<String, Line>,
}

impl Ledger {
    /// The ledger of the device in a folder.
    #[must_use]
    pub fn of(dir: &std::path::Path) -> Self {
        Self {
            path: dir.join(FILE),
            read_to: 0,
            lines: HashMap::new(),
        }
    }

    /// What an equal launch was found to cost, as if it had been executed here.
    pub fn find(&mut self, launch: &Nameless) -> Option<Outcome> {
        let name = launch.name.as_ref()?;
        if !self.lines.contains_key(name) {
            // A ledger that cannot be read costs time, nothing else: the launch is executed.
            let _ = self.read_on();
        }
        let line = self.lines.get(name)?;
        let of = |all: &[usize]| -> Option<Vec<u64>> {
            all.iter()
                .map(|&at| launch.pointees.get(at).copied())
                .collect()
        };
        let (reads, writes) = (of(&line.reads)?, of(&line.writes)?);
        Some(Outcome {
            cost: line.cost,
            by_clock: line.by_clock,
            extents: vec![(0, 0); writes.len()],
            pinned: Vec::new(),
            lanes: 0,
            reads,
            writes,
            sampled: true,
            uses_atomics: false,
            open: false,
            printed: false,
            fault: None,
        })
    }

    /// Keeps what a launch was found to cost, if others can use it.
    pub fn keep(&mut self, launch: &Nameless, outcome: &Outcome) {
        let Some(name) = &launch.name else { return };
        if !outcome.sampled || outcome.open || outcome.fault.is_some() {
            return;
        }
        let of = |all: &[u64]| -> Option<Vec<usize>> {
            let place = |start: &u64| launch.pointees.iter().position(|other| other == start);
            all.iter().map(place).collect()
        };
        let (Some(reads), Some(writes)) = (of(&outcome.reads), of(&outcome.writes)) else {
            return;
        };
        let line = Line {
            cost: outcome.cost,
            by_clock: outcome.by_clock,
            reads,
            writes,
        };
        if self.lines.len() < LINES_MAX && !self.lines.contains_key(name) {
            // As with reading: what is not kept is executed again.
            let _ = self.append(name, &line);
            self.lines.insert(name.clone(), line);
        }
    }

    fn append(&self, name: &str, line: &Line) -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)?;
        // In one piece, so that lines of several processes do not mix.
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

impl Line {
    fn text(&self) -> String {
        let cost = &self.cost;
        // The bits of the time, since it has to come back as it was.
        let mut out = format!(
            "{} {} {} {}",
            cost.alone_ns.to_bits(),
            cost.power_mw,
            cost.sms,
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
            numbers(
                &mut out,
                &mut std::iter::once(list.len() as u64).chain(items),
            );
        }
        out.push(' ');
        out.push_str(END);
        out
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix(END)?.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let alone_ns = f64::from_bits(next()?);
        let (power_mw, sms) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
        let by_clock = next()? == 1;
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
            },
            by_clock,
            reads,
            writes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Line, Nameless, Outcome};
    use crate::cost::Cost;
    use gpubench_virtual_gpu_model::state::RESOURCES;

    fn outcome(alone_ns: f64) -> Outcome {
        Outcome {
            cost: Cost {
                alone_ns,
                demand: std::array::from_fn(|at| at as u32 * 7),
                power_mw: 55_000,
                sms: 132,
            },
            by_clock: true,
            reads: vec![0x7000, 0x9000],
            writes: vec![0x9000],
            extents: vec![(0, 128)],
            pinned: Vec::new(),
            lanes: 0,
            sampled: true,
            uses_atomics: false,
            open: false,
            printed: false,
            fault: None,
        }
    }

    fn launch(name: &str, pointees: &[u64]) -> Nameless {
        Nameless {
            pointees: pointees.to_vec(),
            name: Some(name.to_owned()),
        }
    }

    #[test]
    fn another_process_finds_the_cost_with_its_own_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (Ledger::of(dir.path()), Ledger::of(dir.path()));
        let mine = launch("a", &[0x9000, 0x7000]);
        assert!(other.find(&mine).is_none());
        // A time that no short decimal gives back.
        let alone_ns = 1e6 / 3.0;
        one.keep(&mine, &outcome(alone_ns));
        let found = other.find(&launch("a", &[0x100, 0x200])).unwrap();
        assert_eq!(found.cost, outcome(alone_ns).cost);
        assert_eq!(
            (found.reads, found.writes),
            (vec![0x200, 0x100], vec![0x100])
        );
        assert!(found.by_clock && found.sampled);
        assert!(other.find(&launch("b", &[0x100, 0x200])).is_none());
    }

    #[test]
    fn what_others_cannot_rely_on_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::of(dir.path());
        let all = launch("a", &[0x9000, 0x7000]);
        let full = Outcome {
            sampled: false,
            ..outcome(1.0)
        };
        ledger.keep(&all, &full);
        let open = Outcome {
            open: true,
            ..outcome(1.0)
        };
        ledger.keep(&all, &open);
        // It touches what no argument points to, or goes by what it loads.
        ledger.keep(&launch("a", &[0x9000]), &outcome(1.0));
        let led = Nameless {
            name: None,
            ..all.clone()
        };
        ledger.keep(&led, &outcome(1.0));
        assert!(ledger.find(&all).is_none() && ledger.find(&led).is_none());
        ledger.keep(&all, &outcome(1.0));
        assert!(ledger.find(&all).is_some());
    }

    #[test]
    fn a_line_that_was_cut_off_or_changed_is_no_line() {
        let line = Line {
            cost: outcome(12.5).cost,
            by_clock: false,
            reads: vec![0, 1],
            writes: vec![1],
        };
        let text = line.text();
        assert_eq!(Line::read(&text), Some(line));
        for length in 0..text.len() {
            assert_eq!(Line::read(&text[..length]), None, "{length}");
        }
        assert_eq!(Line::read(&format!("1 {text}")), None);
        assert_eq!(RESOURCES, outcome(1.0).cost.demand.len());
    }

    #[test]
    fn a_writer_that_was_killed_half_way_costs_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (Ledger::of(dir.path()), Ledger::of(dir.path()));
        std::fs::write(dir.path().join(super::FILE), "torn 12 13").unwrap();
        let pointees = [0x9000, 0x7000];
        assert!(other.find(&launch("a", &pointees)).is_none());
        one.keep(&launch("a", &pointees), &outcome(1.0));
        one.keep(&launch("b", &pointees), &outcome(2.0));
        assert!(
            other.find(&launch("a", &pointees)).is_none(),
            "merged into the torn one"
        );
        assert!(other.find(&launch("b", &pointees)).is_some());
    }
}
