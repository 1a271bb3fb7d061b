//! One line of the file of the cost cache.

use std::fmt::Write as _;

use crate::cost::Cost;
use gpubench_virtual_gpu_model::state::{InFlight, RESOURCES};

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
