//! A second, smaller published tree (overview S3), and whether it agrees with the first tree's
//! leaf.
//!
//! Its questions about the workload and about memory are independent, so it can give two
//! recommendations. Both are kept.

use super::tree::Leaf;
use super::walk::Answers;
use serde::Serialize;

/// A recommendation of the second tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recommendation {
    /// A MIG instance for each tenant.
    Mig,
    /// A GPU for each tenant.
    SeparateGpus,
    /// MPS, with care if latency matters.
    Mps,
    /// Time-slicing.
    TimeSlicing,
}

/// Answers to the questions that only the second tree has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondAnswers {
    /// The kind of workload; `None`: derived from the answers to the first tree.
    pub kind: Option<Kind>,
    /// Whether memory is the constraint.
    pub is_memory_bound: Option<bool>,
}

/// Kinds of workload in the second tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Training.
    Training,
    /// Real-time inference.
    RealTime,
    /// Batch work.
    Batch,
    /// Notebooks.
    Notebooks,
}

impl Kind {
    /// The kinds with their names.
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
    /// The answer that they follow from.
    pub because: &'static str,
    /// The recommendations, all equally good.
    #[serde(rename = "ways")]
    pub recommendations: Vec<Recommendation>,
    /// Whether the first tree's leaf is one of them.
    pub agrees: bool,
}

/// The recommendations of the second tree for the same answers.
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
        (Some(kind), _) => Some((
            match kind {
                Kind::Training => "training",
                Kind::RealTime => "real-time",
                Kind::Batch => "batch",
                Kind::Notebooks => "notebooks",
            },
            vec![kind],
        )),
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
