//! The whole advice: path, leaf, trade-off, traps, second opinion, figures and contradictions.

use super::evidence;
use super::second::{SecondAnswer, SecondAnswers, second};
use super::traps;
use super::tree::Leaf;
use super::walk::{Answers, End, Source, walk};
use crate::error::PredictError;
use gpubench_record::run::RunRecord;
use serde::Serialize;

/// One step of the path, with what belongs beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceStep {
    /// Number of the question.
    pub node: u8,
    /// The question.
    pub question: &'static str,
    /// The answer.
    pub answer: &'static str,
    /// What the answer means.
    pub meaning: &'static str,
    /// Who gave it.
    pub source: Source,
    /// What a record measured here.
    pub measured: Vec<String>,
    /// Mistakes that are near.
    pub traps: Vec<&'static str>,
}

/// The advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The way through the tree.
    pub path: Vec<AdviceStep>,
    /// Its end.
    pub leaf: Leaf,
    /// What one accepts with it.
    pub trade_off: &'static str,
    /// What the second tree says.
    pub second: Vec<SecondAnswer>,
    /// Whether it says something else.
    pub second_disagrees: bool,
    /// Where the record and the tree part.
    pub contradictions: Vec<String>,
    /// How tiers of different strictness share a fleet.
    pub mixed_policy: Option<&'static str>,
}

const MIXED_POLICY: &str = "tenants of a strict tier go on MIG instances; a scavenger tier shares \
                            what is left by MPS or time-slicing";

/// Walks the tree to its end; a question without an answer is an error that names its flag.
pub fn advise(
    answers: &Answers,
    second_answers: SecondAnswers,
    record: Option<&RunRecord>,
) -> Result<Advice, PredictError> {
    let mut answers = answers.clone();
    if let Some(record) = record {
        evidence::answer(&mut answers, record)?;
    }
    let walk = walk(&answers);
    let leaf = match walk.end {
        End::Leaf(leaf) => leaf,
        End::Open(node) => {
            return Err(PredictError::Missing {
                what: format!(
                    "the answer to question {}, \"{}\"",
                    node.number, node.question
                ),
                remedy: format!("give --{} with one of {}", node.flag, node.values()),
            });
        }
    };
    let step = |step: &super::walk::Step| AdviceStep {
        node: step.node.number,
        question: step.node.question,
        answer: step.choice.value,
        meaning: step.choice.meaning,
        source: step.source,
        measured: record
            .map(|r| evidence::beside(step.node.number, r))
            .unwrap_or_default(),
        traps: traps::near(step),
    };
    let second_answers_given = second(&answers, second_answers, leaf);
    Ok(Advice {
        path: walk.path.iter().map(step).collect(),
        leaf,
        trade_off: leaf.trade_off(),
        second_disagrees: second_answers_given.iter().any(|answer| !answer.agrees),
        second: second_answers_given,
        contradictions: record
            .map(|record| evidence::contradictions(&walk, leaf, record))
            .unwrap_or_default(),
        mixed_policy: (leaf == Leaf::Mig).then_some(MIXED_POLICY),
    })
}
