//! What is known about each mechanism without asking a host: name, summary, options.
//!
//! Profiles, plans and `list` read this; the mechanism room implements what stands here. To add a
//! mechanism, add its entry, and its options to `profile::options`.

pub mod probes;

/// A way to share one GPU, as far as it can be told without a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MechanismEntry {
    /// Name on the command line, in profiles and in records.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Mechanisms that can follow one another without a switch of the host share a group.
    pub group: &'static str,
    /// Whether it cannot run without a change to the host.
    pub reconfigures: bool,
    /// Keys of its table in a profile.
    pub options: &'static [OptionEntry],
}

/// One key of a mechanism's table in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionEntry {
    /// The key.
    pub key: &'static str,
    /// What it sets, in one line.
    pub summary: &'static str,
    /// What it takes.
    pub accepted: &'static [&'static str],
}

/// Name of the reference mechanism, under which native cells run.
pub const EXCLUSIVE: &str = "exclusive";

/// The option of whatever always limits memory.
const MEMORY_PCT: OptionEntry = OptionEntry {
    key: "memory_pct",
    summary: "most memory of each process, in percent of the device",
    accepted: &["1 to 100"],
};

/// Every mechanism, in report order.
pub const CATALOGUE: &[MechanismEntry] = &[
    MechanismEntry {
        name: EXCLUSIVE,
        summary: "one tenant has the whole GPU: the reference that all others are held against",
        group: "plain",
        reconfigures: false,
        options: &[],
    },
    MechanismEntry {
        name: "exclusive-process",
        summary: "compute mode EXCLUSIVE_PROCESS: the first process in keeps every other out",
        group: "exclusive-process",
        reconfigures: true,
        options: &[],
    },
    MechanismEntry {
        name: "time-slicing",
        summary: "processes take turns on the whole GPU, scheduled by the driver",
        group: "plain",
        reconfigures: false,
        options: &[OptionEntry {
            key: "slice",
            summary: "length of a turn",
            accepted: &["default", "short", "medium", "long"],
        }],
    },
    MechanismEntry {
        name: "mps",
        summary: "kernels of all processes run side by side through an MPS server of their own",
        group: "mps",
        reconfigures: false,
        options: &[OptionEntry {
            key: "exclusive_process",
            summary: "compute mode EXCLUSIVE_PROCESS under every MPS server of the whole device",
            accepted: &["false", "true"],
        }],
    },
    MechanismEntry {
        name: "mps-quota",
        summary: "as mps, with a cap on the SMs and on the memory of each process",
        group: "mps",
        reconfigures: false,
        options: &[
            OptionEntry {
                key: "pct",
                summary: "most SMs of each process, in percent of the device",
                accepted: &["1 to 100"],
            },
            OptionEntry {
                key: "memory_pct",
                summary: "most memory of each process, in percent of the device; 100 is no limit",
                accepted: &["1 to 100"],
            },
            OptionEntry {
                key: "neighbours",
                summary: "priority of the neighbours' work, which is a hint",
                accepted: &["normal", "below-normal"],
            },
        ],
    },
    MechanismEntry {
        name: "mps-static",
        summary: "as mps, with SMs of its own for each process, which no other may use",
        group: "mps-static",
        reconfigures: false,
        options: &[OptionEntry {
            key: "chunks",
            summary: "chunks of SMs for each process; 0 divides the device evenly",
            accepted: &["0 to 64"],
        }],
    },
    MechanismEntry {
        name: "mps-memory",
        summary: "as mps, with the memory of each process limited by the driver or by the server",
        group: "mps-memory",
        reconfigures: false,
        options: &[
            MEMORY_PCT,
            OptionEntry {
                key: "by",
                summary: "who holds it to that: the driver (needs leave and root), or the server",
                accepted: &["cgroup", "namespace"],
            },
        ],
    },
    MechanismEntry {
        name: "mig",
        summary: "each process has a hardware instance of the device to itself",
        group: "mig",
        reconfigures: true,
        options: &[OptionEntry {
            key: "layout",
            summary: "sizes of the instances, the victim's first",
            accepted: &["auto", "3g+3g", "3g.40gb+4g.40gb"],
        }],
    },
    MechanismEntry {
        name: "mig-mps",
        summary: "all processes share one hardware instance through an MPS server",
        group: "mig-mps",
        reconfigures: true,
        options: &[OptionEntry {
            key: "layout",
            summary: "size of the instance",
            accepted: &["auto", "7g", "3g.40gb"],
        }],
    },
    MechanismEntry {
        name: "hami",
        summary: "a preloaded library counts the memory and the launches of each process",
        group: "plain",
        reconfigures: false,
        options: &[
            MEMORY_PCT,
            OptionEntry {
                key: "sm_pct",
                summary: "most SM time of each process, in percent; 100 is no limit",
                accepted: &["1 to 100"],
            },
        ],
    },
    MechanismEntry {
        name: "green-context",
        summary: "threads of one process, each with SMs of its own; memory and faults are shared",
        group: "mps",
        reconfigures: false,
        options: &[],
    },
    MechanismEntry {
        name: "stream-priority",
        summary: "threads of one process; the victim's stream has the greatest priority, a hint",
        group: "mps",
        reconfigures: false,
        options: &[],
    },
];

/// The entry of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static MechanismEntry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

/// Every name, in report order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    CATALOGUE.iter().map(|entry| entry.name).collect()
}

/// Whether an MPS daemon serves the tenants of a mechanism: its name says so.
#[must_use]
pub fn has_mps(name: &str) -> bool {
    find(name).is_some_and(|entry| entry.name.split('-').any(|part| part == "mps"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CATALOGUE, EXCLUSIVE, find, has_mps, names};

    #[test]
    fn names_tell_of_a_daemon() {
        let served: Vec<&str> = names().into_iter().filter(|name| has_mps(name)).collect();
        assert_eq!(
            served,
            ["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"]
        );
        assert!(!has_mps("no-such"));
    }

    #[test]
    fn entries_are_unique_and_told() {
        let unique: BTreeSet<&str> = names().into_iter().collect();
        assert_eq!(unique.len(), CATALOGUE.len());
        for entry in CATALOGUE {
            assert!(
                entry.summary.len() > 20 && !entry.summary.ends_with('.'),
                "{}",
                entry.name
            );
            assert!(
                entry
                    .name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}: a name fit for files and tables",
                entry.name
            );
            for option in entry.options {
                assert!(!option.accepted.is_empty(), "{}.{}", entry.name, option.key);
            }
        }
    }

    #[test]
    fn the_reference_is_there_and_changes_nothing() {
        assert!(find(EXCLUSIVE).is_some_and(|entry| !entry.reconfigures));
    }
}
