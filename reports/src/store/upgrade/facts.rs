//! Facts that records of format 1.0 do not hold, as the catalogues had them when that format was
//! written last. Data: it never changes with the catalogues.

/// Requests of this workload are answered by a refusal with these `CUresult`s.
pub(super) const ANSWERING_CODES: &[(&str, &[i32])] = &[("reserve", &[2])];

/// The sub-axis whose open loops give the rows of the jitter axis.
pub(super) const JITTER_FROM: &str = "sm";

/// Gates that ask what a disturbance did.
pub(super) const DISTURBANCES: [&str; 5] = ["warm-up", "drift", "lateness", "cpu-steal", "cpu-gap"];
/// Those of them whose figures bound nothing: CPU time over all cores, and the p99 of lateness.
pub(super) const WITHOUT_BOUND: [&str; 2] = ["lateness", "cpu-steal"];

/// The pairs of victim and aggressor by sub-axis, in report order.
pub(super) const PAIRS: &[(&str, &str, &str)] = &[
    ("sm", "compute", "fma-hog"),
    ("sm", "compute", "block-slots"),
    ("sm", "inference", "fma-hog"),
    ("sm", "fp64", "fp64-hog"),
    ("sm", "int", "int-hog"),
    ("sm", "tensor", "tensor-hog"),
    ("sm", "shared", "shared-hog"),
    ("sm", "l1", "l1-hog"),
    ("issue", "issue", "issue-hog"),
    ("launch", "launch", "launch-flood"),
    ("launch", "launch-sync", "launch-flood"),
    ("launch", "inference", "launch-flood"),
    ("driver", "alloc", "alloc-storm"),
    ("driver", "alloc", "context-storm"),
    ("driver", "alloc", "module-storm"),
    ("driver", "alloc", "pin-storm"),
    ("dram", "stream", "dram-copy"),
    ("dram", "stream", "dram-read"),
    ("dram", "stream", "dram-write"),
    ("dram", "inference", "dram-copy"),
    ("dram", "tlb", "tlb-stride"),
    ("l2", "l2", "l2-stream"),
    ("l2", "l2", "l2-thrash"),
    ("l2", "atomic", "atomics"),
    ("pcie", "pcie", "pcie-h2d"),
    ("pcie", "pcie-download", "pcie-d2h"),
    ("pcie", "pcie", "pcie-both"),
    ("capacity", "reserve", "memory-hog"),
    ("power", "compute", "power-virus"),
];

/// The two controls.
pub(super) const CONTROLS: &[(&str, &str)] = &[("placebo", "placebo"), ("canary", "self-test")];

/// The answer that the process of each fault gets.
pub(super) const ANSWERS: &[(&str, &[&str])] = &[
    (
        "success",
        &["placebo", "printf-flood", "hang", "sigstop", "context-destroy", "hami-lock-holder-kill"],
    ),
    (
        "error",
        &[
            "empty-launch",
            "bad-launch",
            "double-free",
            "oom",
            "mps-terminate-client",
            "assert",
            "trap",
            "misaligned",
            "shared-oob",
            "stack-overflow",
            "wrong-address-space",
            "bad-pc",
            "illegal-instruction",
            "illegal-address",
        ],
    ),
    ("either", &["canary", "mps-server-kill", "mps-daemon-kill", "ipc-exporter-exit"]),
    ("process-ends", &["exit-pending", "sigkill"]),
];

/// Faults that the coordinator causes.
pub(super) const BY_COORDINATOR: &[&str] =
    &["mps-terminate-client", "mps-server-kill", "mps-daemon-kill"];

/// Faults that can leave their process waiting with no answer ever.
pub(super) const LEAVES_WAITING: &[&str] = &["mps-server-kill", "mps-daemon-kill"];

/// What published overviews claim: source, mechanism, and the words of memory, compute, bandwidth,
/// fault and jitter.
pub(super) const CLAIMED: &[(&str, &str, [Option<&str>; 5])] = &[
    ("S0", "time-slicing", [Some("None"), Some("None"), None, Some("Partial"), Some("High")]),
    ("S1", "time-slicing", [Some("None"), Some("None"), Some("None"), Some("None"), None]),
    ("S0", "mps", [Some("Partial"), Some("None"), None, Some("None"), Some("Low-Medium")]),
    ("S0", "mps-quota", [Some("Partial"), Some("None"), None, Some("None"), Some("Low-Medium")]),
    ("S1", "mps", [Some("Partial"), Some("Partial"), Some("None"), Some("Incomplete"), None]),
    ("S1", "mps-quota", [Some("Partial"), Some("Partial"), Some("None"), Some("Incomplete"), None]),
    ("S0", "hami", [Some("Software"), Some("Software"), None, Some("Partial"), Some("Low-Medium")]),
    ("S1", "hami", [Some("Hard"), Some("Soft"), Some("None"), Some("None"), None]),
    ("S0", "mig", [Some("Hardware"), Some("Hardware"), None, Some("Hardware"), Some("Negligible")]),
    ("S1", "mig", [Some("Hardware"), Some("Hardware"), Some("Hardware"), Some("Hardware"), None]),
];

/// The axes of [`CLAIMED`].
pub(super) const CLAIMED_AXES: [&str; 5] = ["memory", "compute", "bandwidth", "fault", "jitter"];
