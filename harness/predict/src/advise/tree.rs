//! The decision tree of the overview S1 as data: eight questions, seven leaves.

use serde::Serialize;

use crate::error::PredictError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To another question.
    Node(u8),
    Leaf(Leaf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub value: &'static str,
    pub meaning: &'static str,
    pub next: Next,
}

/// One question, which is also the help of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    pub number: u8,
    /// Name of its flag, without the leading dashes.
    pub flag: &'static str,
    pub question: &'static str,
    pub choices: &'static [Choice],
}

impl Node {
    pub fn choice(&self, value: &str) -> Option<&'static Choice> {
        self.choices.iter().find(|choice| choice.value == value)
    }

    pub fn values(&self, separator: &str) -> String {
        let values: Vec<&str> = self.choices.iter().map(|choice| choice.value).collect();
        values.join(separator)
    }

    /// The flag with its values, as usage lines show it.
    pub fn usage(&self) -> String {
        format!("--{} <{}>", self.flag, self.values("|"))
    }
}

/// A recommendation, where a path through the tree ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Leaf {
    /// One tenant per GPU.
    NoSharing,
    /// Hard isolation on a GPU without MIG.
    NoSharingNoMig,
    /// MIG: hardware partitions.
    Mig,
    /// MPS: kernels of several tenants side by side.
    Mps,
    /// HAMi: limits by intercepted driver calls.
    Hami,
    TimeSlicingOperator,
    /// Time-slicing, set up in the device plugin alone.
    TimeSlicingDirect,
}

impl Leaf {
    pub const ALL: [Self; 7] = [
        Self::NoSharing,
        Self::NoSharingNoMig,
        Self::Mig,
        Self::Mps,
        Self::Hami,
        Self::TimeSlicingOperator,
        Self::TimeSlicingDirect,
    ];

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

    pub fn trade_off(self) -> &'static str {
        match self {
            Self::NoSharing => "the capacity is reserved, and there is no noisy neighbour",
            Self::NoSharingNoMig => {
                "without MIG only single tenancy isolates: one workload per GPU, enforced by \
                 taints and RBAC"
            }
            Self::Mig => "profile sizes are fixed, and changing them requires a drained node",
            Self::Mps => "faults are not fully isolated, and a control daemon must run",
            Self::Hami => "the compute limit is soft, and the ecosystem is smaller",
            Self::TimeSlicingOperator => "no isolation; upgrades require drained nodes",
            Self::TimeSlicingDirect => "no isolation; DCGM is not included",
        }
    }

    /// Name of the mechanism in records; `None` for the leaves without sharing.
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
    Choice { value, meaning, next: Next::Node(node) }
}

const fn end(value: &'static str, meaning: &'static str, leaf: Leaf) -> Choice {
    Choice { value, meaning, next: Next::Leaf(leaf) }
}

/// The questions in order of their numbers, from 1.
pub const NODES: [Node; 8] = [
    Node {
        number: 1,
        flag: "isolation",
        question: "Which isolation between tenants is required?",
        choices: &[
            end("single", "no sharing, each tenant has a GPU", Leaf::NoSharing),
            to("hard", "required by regulation, compliance or between companies", 2),
            to("shared", "not required, tenants may share a GPU", 3),
        ],
    },
    Node {
        number: 2,
        flag: "mig",
        question: "Does the GPU support MIG (A30, A100, H100, H200, B200, GB200 and others do)?",
        choices: &[
            end("yes", "it supports MIG", Leaf::Mig),
            end("no", "it does not support MIG", Leaf::NoSharingNoMig),
        ],
    },
    Node {
        number: 3,
        flag: "workload",
        question: "Which figure counts for the workloads?",
        choices: &[
            to("throughput", "training, preprocessing, batches", 5),
            to("latency", "inference for several tenants", 4),
        ],
    },
    Node {
        number: 4,
        flag: "memory-isolation",
        question: "Must the memory of a tenant be protected from the other tenants?",
        choices: &[
            to("yes", "memory must be protected", 7),
            to("no", "no protection needed, and some jitter is acceptable", 5),
        ],
    },
    Node {
        number: 5,
        flag: "driver",
        question: "Who installs and upgrades the GPU driver?",
        choices: &[
            to("platform", "the platform team, on its own machines", 6),
            end("cloud", "the cloud provider", Leaf::TimeSlicingDirect),
        ],
    },
    Node {
        number: 6,
        flag: "sm-bound",
        question: "Do many small kernels leave SMs idle, as in batched inference?",
        choices: &[
            to("yes", "SMs are idle", 8),
            end("no", "kernels fill the SMs", Leaf::TimeSlicingOperator),
        ],
    },
    Node {
        number: 7,
        flag: "soft-compute",
        question: "Is a compute limit that bursts can exceed enough?",
        choices: &[
            end("yes", "a soft limit is enough", Leaf::Hami),
            to("no", "the limit must be hard", 2),
        ],
    },
    Node {
        number: 8,
        flag: "reduced-fault-isolation",
        question: "May a fault of one tenant reach the other tenants?",
        choices: &[
            end("yes", "it may reach them", Leaf::Mps),
            end("no", "it must stay with its tenant", Leaf::TimeSlicingOperator),
        ],
    },
];

// Walks through the tree as far as the answers lead.

/// The known answers, by question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    values: [Option<&'static str>; NODES.len()],
}

impl Answers {
    pub fn answer(&mut self, flag: &str, value: &str) -> Result<(), PredictError> {
        let node = node_of(flag)?;
        let choice = node.choice(value).ok_or_else(|| {
            PredictError::value(
                flag,
                format!("\"{value}\""),
                &format!("one of {}", node.values(", ")),
            )
        })?;
        self.values[usize::from(node.number) - 1] = Some(choice.value);
        Ok(())
    }

    /// The answer to a question, if it is known.
    pub fn value(&self, number: u8) -> Option<&'static str> {
        self.values.get(usize::from(number).checked_sub(1)?).copied().flatten()
    }
}

pub fn node_of(flag: &str) -> Result<&'static Node, PredictError> {
    NODES.iter().find(|node| node.flag == flag).ok_or_else(|| PredictError::Unknown {
        what: "question",
        name: flag.to_owned(),
        known: NODES.map(|node| node.flag).join(", "),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub node: &'static Node,
    pub choice: &'static Choice,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The answered questions, in order.
    pub path: Vec<Step>,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Leaf(Leaf),
    /// A question without an answer.
    Open(&'static Node),
}

/// Walks from the first question as far as the answers go.
pub fn walk(answers: &Answers) -> Walk {
    let mut path = Vec::new();
    let mut node = &NODES[0];
    loop {
        let Some(choice) = answers.value(node.number).and_then(|value| node.choice(value)) else {
            return Walk { path, end: End::Open(node) };
        };
        path.push(Step { node, choice });
        match choice.next {
            Next::Leaf(leaf) => return Walk { path, end: End::Leaf(leaf) },
            Next::Node(number) => node = &NODES[usize::from(number) - 1],
        }
    }
}

/// All questions without an answer that a path can still reach, in order of their numbers.
pub fn open_questions(answers: &Answers) -> Vec<&'static Node> {
    let mut reached = [false; NODES.len()];
    let mut pending = vec![&NODES[0]];
    while let Some(node) = pending.pop() {
        let is_first_visit = !std::mem::replace(&mut reached[usize::from(node.number) - 1], true);
        let answer = answers.value(node.number);
        let possible =
            node.choices.iter().filter(|choice| answer.is_none_or(|value| value == choice.value));
        pending.extend(possible.filter(|_| is_first_visit).filter_map(
            |choice| match choice.next {
                Next::Node(number) => Some(&NODES[usize::from(number) - 1]),
                Next::Leaf(_) => None,
            },
        ));
    }
    NODES
        .iter()
        .filter(|node| reached[usize::from(node.number) - 1])
        .filter(|node| answers.value(node.number).is_none())
        .collect()
}
