//! The complete advice: path, leaf, drawbacks, traps, second tree.

use serde::Serialize;

use super::tree::{Answers, End, Leaf, Node, Step, open_questions, walk};
use crate::error::PredictError;

/// One step of the path, with its traps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceStep {
    pub node: u8,
    pub question: &'static str,
    pub answer: &'static str,
    pub meaning: &'static str,
    pub traps: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    pub path: Vec<AdviceStep>,
    pub leaf: Leaf,
    pub trade_off: &'static str,
    pub second: Vec<SecondAnswer>,
    /// Whether the second tree recommends something else.
    pub second_disagrees: bool,
    /// How tenants with and without strict isolation share a fleet.
    pub mixed_policy: Option<&'static str>,
}

const MIXED_POLICY: &str = "tenants that need strict isolation run on MIG instances; the others \
                            share the remaining GPUs by MPS or time-slicing";

/// Walks through the tree to a leaf. An open question is an error that names all flags that may
/// still be needed.
pub fn advise(answers: &Answers, second_answers: SecondAnswers) -> Result<Advice, PredictError> {
    let walk = walk(answers);
    let leaf = match walk.end {
        End::Leaf(leaf) => leaf,
        End::Open(node) => return Err(missing(node, answers)),
    };
    let step = |step: &Step| AdviceStep {
        node: step.node.number,
        question: step.node.question,
        answer: step.choice.value,
        meaning: step.choice.meaning,
        traps: at(step),
    };
    let second_answers = second(answers, second_answers, leaf);
    Ok(Advice {
        path: walk.path.iter().map(step).collect(),
        leaf,
        trade_off: leaf.trade_off(),
        second_disagrees: second_answers.iter().any(|answer| !answer.agrees),
        second: second_answers,
        mixed_policy: (leaf == Leaf::Mig).then_some(MIXED_POLICY),
    })
}

fn missing(first: &Node, answers: &Answers) -> PredictError {
    let later: Vec<String> = open_questions(answers)
        .into_iter()
        .filter(|node| *node != first)
        .map(Node::usage)
        .collect();
    let mut remedy = format!("give {}", first.usage());
    if !later.is_empty() {
        remedy += &format!("; depending on the answers also {}", later.join(", "));
    }
    PredictError::Missing { what: "an answer".to_owned(), remedy }
}

// A second, smaller published tree (overview S3), and whether it agrees with the first tree's
// leaf.
//
// Its questions about the workload and about memory are independent, so it can give two
// recommendations. Both are kept.

/// A recommendation of the second tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recommendation {
    Mig,
    SeparateGpus,
    /// MPS, with care if latency matters.
    Mps,
    TimeSlicing,
}

/// Answers to the questions that only the second tree has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondAnswers {
    /// The kind of workload; `None`: derived from the answers to the first tree.
    pub kind: Option<Kind>,
    pub is_memory_bound: Option<bool>,
}

/// Kinds of workload in the second tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Training,
    RealTime,
    Batch,
    Notebooks,
}

impl Kind {
    pub const NAMES: [(&'static str, Self); 4] = [
        ("training", Self::Training),
        ("real-time", Self::RealTime),
        ("batch", Self::Batch),
        ("notebooks", Self::Notebooks),
    ];

    fn recommendations(self) -> &'static [Recommendation] {
        match self {
            Self::Training => &[Recommendation::SeparateGpus],
            Self::RealTime => &[Recommendation::Mps, Recommendation::Mig],
            Self::Batch | Self::Notebooks => &[Recommendation::TimeSlicing],
        }
    }
}

/// Recommendations of the second tree for one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecondAnswer {
    pub because: &'static str,
    #[serde(rename = "ways")]
    pub recommendations: Vec<Recommendation>,
    /// Whether the first tree's leaf is one of them.
    pub agrees: bool,
}

pub fn second(answers: &Answers, second: SecondAnswers, leaf: Leaf) -> Vec<SecondAnswer> {
    let answer_with = |because, recommended: &[Recommendation]| SecondAnswer {
        because,
        recommendations: recommended.to_vec(),
        agrees: recommended.iter().any(|one| agrees(leaf, *one)),
    };
    match answers.value(1) {
        // Without sharing the second tree has no question.
        Some("single") | None => Vec::new(),
        Some("hard") => vec![match answers.value(2) {
            Some("no") => {
                answer_with("hard isolation, MIG does not fit", &[Recommendation::SeparateGpus])
            }
            _ => answer_with("hard isolation, MIG fits", &[Recommendation::Mig]),
        }],
        Some(_) => {
            let by_kind = kind(answers, second).map(|(because, kinds)| {
                let all = kinds.iter().flat_map(|kind| kind.recommendations());
                answer_with(because, &all.copied().collect::<Vec<_>>())
            });
            let by_memory = second.is_memory_bound.map(|is_bound| {
                if is_bound {
                    answer_with(
                        "memory is the constraint",
                        &[Recommendation::Mig, Recommendation::TimeSlicing],
                    )
                } else {
                    answer_with(
                        "memory is not the constraint",
                        &[Recommendation::Mps, Recommendation::TimeSlicing],
                    )
                }
            });
            by_kind.into_iter().chain(by_memory).collect()
        }
    }
}

fn kind(answers: &Answers, second: SecondAnswers) -> Option<(&'static str, Vec<Kind>)> {
    match (second.kind, answers.value(3)) {
        (Some(kind), _) => {
            let named = Kind::NAMES.iter().find(|(_, known)| *known == kind)?;
            Some((named.0, vec![kind]))
        }
        (None, Some("latency")) => Some(("real-time", vec![Kind::RealTime])),
        // The first tree does not distinguish training from batch work.
        (None, Some(_)) => Some(("training or batch", vec![Kind::Training, Kind::Batch])),
        (None, None) => None,
    }
}

fn agrees(leaf: Leaf, recommendation: Recommendation) -> bool {
    matches!(
        (leaf, recommendation),
        (Leaf::Mig, Recommendation::Mig)
            | (Leaf::Mps, Recommendation::Mps)
            | (Leaf::NoSharing | Leaf::NoSharingNoMig, Recommendation::SeparateGpus)
            | (Leaf::TimeSlicingOperator | Leaf::TimeSlicingDirect, Recommendation::TimeSlicing)
    )
}

// Common mistakes at the questions of the tree.

#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// What not to do, and why.
    pub text: &'static str,
    applies_to: fn(&Step) -> bool,
}

/// The traps of the overview S1.
pub const TRAPS: [Trap; 4] = [
    Trap {
        text: "time-slicing for regulated tenants: it isolates neither memory nor compute nor \
               faults, at any replica count",
        applies_to: |step| step.node.number == 1 && step.choice.value == "hard",
    },
    Trap {
        text: "MPS for fault-sensitive serving: a fatal fault of one client is reported to all \
               clients of its server",
        applies_to: |step| step.node.number == 8,
    },
    Trap {
        text: "the GPU Operator on nodes with a driver of the cloud provider: it replaces the \
               driver unless driver.enabled and toolkit.enabled are false",
        applies_to: |step| step.node.number == 5 && step.choice.value == "cloud",
    },
    Trap {
        text: "treating HAMi's compute limit like a MIG instance: it limits a rate after the \
               fact, and bursts exceed it until the limiter reacts",
        applies_to: |step| step.node.number == 7,
    },
];

pub fn at(step: &Step) -> Vec<&'static str> {
    TRAPS.iter().filter(|trap| (trap.applies_to)(step)).map(|trap| trap.text).collect()
}
