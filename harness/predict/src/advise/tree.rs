//! The decision tree of S1 as data: eight questions, seven leaves.

use serde::Serialize;

/// Where an answer leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To another question.
    Node(u8),
    /// To the end.
    Leaf(Leaf),
}

/// One possible answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// As the user writes it.
    pub value: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Where it leads.
    pub next: Next,
}

/// One question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: u8,
    /// The flag that answers it, without dashes.
    pub flag: &'static str,
    /// The question.
    pub question: &'static str,
    /// Its answers.
    pub choices: &'static [Choice],
}

impl Node {
    /// The answer of a value.
    pub fn choice(&self, value: &str) -> Option<&'static Choice> {
        self.choices.iter().find(|choice| choice.value == value)
    }

    /// All values, separated by commas.
    pub fn values(&self) -> String {
        let values: Vec<&str> = self.choices.iter().map(|choice| choice.value).collect();
        values.join(", ")
    }
}

/// An end of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Leaf {
    /// One tenant has the GPU.
    NoSharing,
    /// Hard isolation on a GPU without MIG.
    NoSharingNoMig,
    /// Hardware partitions.
    Mig,
    /// Side by side.
    Mps,
    /// Intercepted calls.
    Hami,
    /// Time-slicing, set up by the GPU Operator.
    TimeSlicingOperator,
    /// Time-slicing, set up in the device plugin alone.
    TimeSlicingDirect,
}

impl Leaf {
    /// All leaves.
    pub const ALL: [Self; 7] = [
        Self::NoSharing,
        Self::NoSharingNoMig,
        Self::Mig,
        Self::Mps,
        Self::Hami,
        Self::TimeSlicingOperator,
        Self::TimeSlicingDirect,
    ];

    /// The name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSharing => "NO-SHARING",
            Self::NoSharingNoMig => "NO-SHARING-NO-MIG",
            Self::Mig => "MIG",
            Self::Mps => "MPS",
            Self::Hami => "HAMI",
            Self::TimeSlicingOperator => "TIME-SLICING-OPERATOR",
            Self::TimeSlicingDirect => "TIME-SLICING-DIRECT",
        }
    }

    /// What one accepts with it.
    pub fn trade_off(self) -> &'static str {
        match self {
            Self::NoSharing => "capacity is reserved, and there is no noisy neighbour",
            Self::NoSharingNoMig => {
                "without MIG only single tenancy isolates: one workload per GPU, kept apart by \
                 taints and RBAC"
            }
            Self::Mig => "profile sizes are fixed, and nodes are drained to change them",
            Self::Mps => "faults are not fully isolated, and a control daemon has to run",
            Self::Hami => "the compute cap is soft, and the ecosystem is smaller",
            Self::TimeSlicingOperator => "no isolation at all; upgrades need drained nodes",
            Self::TimeSlicingDirect => "no isolation at all; DCGM is not bundled",
        }
    }

    /// The mechanism that a record knows it by; nothing for the leaves that share nothing.
    pub fn mechanism(self) -> Option<&'static str> {
        match self {
            Self::NoSharing | Self::NoSharingNoMig => None,
            Self::Mig => Some("mig"),
            Self::Mps => Some("mps"),
            Self::Hami => Some("hami"),
            Self::TimeSlicingOperator | Self::TimeSlicingDirect => Some("time-slicing"),
        }
    }
}

const fn to(value: &'static str, meaning: &'static str, node: u8) -> Choice {
    Choice {
        value,
        meaning,
        next: Next::Node(node),
    }
}

const fn end(value: &'static str, meaning: &'static str, leaf: Leaf) -> Choice {
    Choice {
        value,
        meaning,
        next: Next::Leaf(leaf),
    }
}

/// The questions, by number: the first has number 1.
pub const NODES: [Node; 8] = [
    Node {
        number: 1,
        flag: "isolation",
        question: "must a wall stand between tenants: a regulator, compliance, other companies?",
        choices: &[
            end("single", "there is one tenant only", Leaf::NoSharing),
            to("hard", "the wall must be hard", 2),
            to("shared", "nothing mandates it, tenants may share", 3),
        ],
    },
    Node {
        number: 2,
        flag: "mig",
        question: "does the GPU have MIG, as A100, A30, H100, H200, B200 and GB200 do?",
        choices: &[
            end("yes", "it has", Leaf::Mig),
            end("no", "it has not", Leaf::NoSharingNoMig),
        ],
    },
    Node {
        number: 3,
        flag: "workload",
        question: "what do the tenants run?",
        choices: &[
            to(
                "throughput",
                "batches, where throughput counts: training or preprocessing",
                5,
            ),
            to(
                "latency",
                "inference for several tenants, where latency counts",
                4,
            ),
        ],
    },
    Node {
        number: 4,
        flag: "memory-isolation",
        question: "must every tenant's memory be safe from the others?",
        choices: &[
            to("yes", "it must", 7),
            to("no", "it need not, and some jitter is fine", 5),
        ],
    },
    Node {
        number: 5,
        flag: "driver",
        question: "who installs and upgrades the GPU driver?",
        choices: &[
            to("platform", "the platform team, on machines of its own", 6),
            end("cloud", "the cloud provider", Leaf::TimeSlicingDirect),
        ],
    },
    Node {
        number: 6,
        flag: "sm-bound",
        question: "do SMs stand idle under many small kernels, as in batched inference?",
        choices: &[
            to("yes", "they do", 8),
            end("no", "they do not", Leaf::TimeSlicingOperator),
        ],
    },
    Node {
        number: 7,
        flag: "soft-compute",
        question: "is a compute cap enough that bursts can exceed?",
        choices: &[end("yes", "it is", Leaf::Hami), to("no", "it is not", 2)],
    },
    Node {
        number: 8,
        flag: "reduced-fault-isolation",
        question: "may a fault of one tenant reach the others?",
        choices: &[
            end("yes", "it may", Leaf::Mps),
            end("no", "it may not", Leaf::TimeSlicingOperator),
        ],
    },
];
