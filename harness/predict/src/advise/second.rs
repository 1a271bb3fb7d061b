//! The smaller tree of S3, and whether it agrees with the first one's leaf.
//!
//! Its question about the workload and its question about memory stand side by side, so it can give
//! two answers; each is kept as it is.

use super::tree::Leaf;
use super::walk::Answers;
use crate::error::PredictError;
use serde::Serialize;

/// What S3 knows to recommend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A MIG instance each.
    Mig,
    /// A GPU each.
    SeparateGpus,
    /// MPS, with care where latency matters.
    Mps,
    /// Time-slicing.
    TimeSlicing,
}

/// What S3 asks and S1 does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondAnswers {
    /// The kind of workload; without it, what the first tree knows.
    pub kind: Option<Kind>,
    /// Whether memory is the constraint.
    pub is_memory_bound: Option<bool>,
}

/// Kinds of workload in S3.
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

    /// The kind of a name.
    pub fn parse(name: &str) -> Result<Self, PredictError> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, kind)| *kind)
            .ok_or_else(|| PredictError::Unknown {
                what: "kind of workload",
                given: name.to_owned(),
                known: Self::NAMES.map(|(known, _)| known).join(", "),
            })
    }

    fn ways(self) -> &'static [Way] {
        match self {
            Self::Training => &[Way::SeparateGpus],
            Self::RealTime => &[Way::Mps, Way::Mig],
            Self::Batch | Self::Notebooks => &[Way::TimeSlicing],
        }
    }
}

/// One answer of the second tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecondAnswer {
    /// The question that gave it.
    pub because: &'static str,
    /// What it recommends, any of them.
    pub ways: Vec<Way>,
    /// Whether the first tree's leaf is among them.
    pub agrees: bool,
}

/// What the second tree says to the same answers.
pub fn second(answers: &Answers, second: SecondAnswers, leaf: Leaf) -> Vec<SecondAnswer> {
    let answer_with = |because, ways: &[Way]| SecondAnswer {
        because,
        ways: ways.to_vec(),
        agrees: ways.iter().any(|way| is_way_of(leaf, *way)),
    };
    match answers.value(1) {
        // One tenant alone: S3 asks nothing.
        Some("single") | None => Vec::new(),
        Some("hard") => vec![match answers.value(2) {
            Some("no") => answer_with("hard isolation, MIG does not fit", &[Way::SeparateGpus]),
            _ => answer_with("hard isolation, MIG fits", &[Way::Mig]),
        }],
        Some(_) => {
            let by_kind = kind(answers, second).map(|(because, kinds)| {
                let ways: Vec<Way> = kinds.iter().flat_map(|kind| kind.ways()).copied().collect();
                answer_with(because, &ways)
            });
            let by_memory = second.is_memory_bound.map(|is_bound| {
                if is_bound {
                    answer_with("memory is the constraint", &[Way::Mig, Way::TimeSlicing])
                } else {
                    answer_with(
                        "memory is not the constraint",
                        &[Way::Mps, Way::TimeSlicing],
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
        // The first tree does not tell training from batch.
        (None, Some(_)) => Some(("training or batch", vec![Kind::Training, Kind::Batch])),
        (None, None) => None,
    }
}

fn is_way_of(leaf: Leaf, way: Way) -> bool {
    matches!(
        (leaf, way),
        (Leaf::Mig, Way::Mig)
            | (Leaf::Mps, Way::Mps)
            | (Leaf::NoSharing | Leaf::NoSharingNoMig, Way::SeparateGpus)
            | (
                Leaf::TimeSlicingOperator | Leaf::TimeSlicingDirect,
                Way::TimeSlicing
            )
    )
}
