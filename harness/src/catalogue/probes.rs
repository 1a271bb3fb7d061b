//! What is known about each probe without asking a host: its name, its question, and the sub-axis
//! of which it makes or explains the rows.
//!
//! `list probes` reads this; `run::probe` asks in this order.

/// A check of the tenants of a mechanism that does not produce a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeEntry {
    /// Name in records.
    pub name: &'static str,
    /// The question that it answers, in one line.
    pub summary: &'static str,
    /// The sub-axis that it speaks for.
    pub sub_axis: &'static str,
    /// Whether it makes a row with a level there; the others explain the rows that are there.
    pub scored: bool,
    /// The flag of `matrix` that asks for it.
    pub flag: &'static str,
}

/// The flag for questions that keep to what a tenant may do.
const PROBES: &str = "--probes";

/// Every probe, in the order in which they are asked.
pub const CATALOGUE: &[ProbeEntry] = &[
    ProbeEntry {
        name: "capacity",
        summary: "is a reservation of memory honoured while neighbours take all they can?",
        sub_axis: "memory/capacity",
        scored: true,
        flag: PROBES,
    },
    ProbeEntry {
        name: "cap",
        summary: "how much memory does each call that takes some get past the limit?",
        sub_axis: "memory/cap",
        scored: true,
        flag: PROBES,
    },
    ProbeEntry {
        name: "out-of-memory",
        summary: "which refusal does a tenant that runs out of memory get, does its context still \
                  serve, and do its neighbours?",
        sub_axis: "memory/capacity",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "residue",
        summary: "how many marked pages of the last owner does the next one find?",
        sub_axis: "memory/residue",
        scored: true,
        flag: PROBES,
    },
    ProbeEntry {
        name: "visibility",
        summary: "can a neighbour's memory be read at its addresses, or its size be seen?",
        sub_axis: "memory/visibility",
        scored: true,
        flag: PROBES,
    },
    ProbeEntry {
        name: "time-slice-trace",
        summary: "how long are time slices and the pauses between them, how much overlaps?",
        sub_axis: "compute/sm",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "sm-placement",
        summary: "on how many SMs do the blocks of each tenant run, and how many have both?",
        sub_axis: "compute/sm",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "share",
        summary: "what share of the device's arithmetic does a tenant get, over short and long \
                  windows, and what share is configured?",
        sub_axis: "compute/sm",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "enforcement",
        summary: "how long after its first launch does a tenant's cap of compute act for good?",
        sub_axis: "compute/sm",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "launch-latency",
        summary: "how long after the call does a kernel begin, alone and beside a busy neighbour?",
        sub_axis: "compute/launch",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "driver-calls",
        summary: "what do a context and a module take, alone and beside a busy neighbour?",
        sub_axis: "compute/driver",
        scored: false,
        flag: PROBES,
    },
    ProbeEntry {
        name: "escape",
        summary: "does any other call, any other way to the driver or a dropped environment get \
                  a tenant past its limits of memory and of compute?",
        sub_axis: "memory/cap",
        scored: false,
        flag: "--escape",
    },
];

/// A question that belongs among them and is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// What it would be called.
    pub name: &'static str,
    /// The question.
    pub summary: &'static str,
    /// Why it is not asked.
    pub reason: &'static str,
}

/// Every one.
pub const LEFT_OUT: &[LeftOut] = &[LeftOut {
    name: "static-program",
    summary: "does a program that is linked statically get past a preloaded library's caps?",
    reason: "one that gcc links so (glibc, -static and -static-pie, tried) crashes as it loads a \
             libcuda, which needs the shared C library, and a row would say of the cap what is \
             true of the program; what it would do, find the functions past the library, is what \
             `escape` does by dlvsym and without the preload",
}];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CATALOGUE;
    use crate::axis;

    #[test]
    fn every_probe_speaks_for_a_sub_axis_that_exists() {
        let mut names = BTreeSet::new();
        for entry in CATALOGUE {
            assert!(
                names.insert(entry.name),
                "{} stands there twice",
                entry.name
            );
            assert!(entry.summary.ends_with('?'), "{}: a question", entry.name);
            let known = axis::CATALOGUE.iter().chain(axis::PROBED);
            assert!(
                known.into_iter().any(|axis| axis.name == entry.sub_axis),
                "{}: {} is no sub-axis",
                entry.name,
                entry.sub_axis
            );
        }
    }
}
