//! The complete advice: path, leaf, drawbacks, traps, second tree, figures and contradictions.

use super::evidence;
use super::second::{SecondAnswer, SecondAnswers, second};
use super::traps;
use super::tree::{Leaf, Node};
use super::walk::{Answers, End, Source, Step, open_questions, walk};
use crate::error::PredictError;
use gpubench_record::run::RunRecord;
use serde::Serialize;

/// One step of the path, with its measurements and traps.
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
    /// Its source.
    pub source: Source,
    /// Figures of the record for this question.
    pub measured: Vec<String>,
    /// Common mistakes at this step.
    pub traps: Vec<&'static str>,
}

/// The advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The path through the tree.
    pub path: Vec<AdviceStep>,
    /// The recommendation.
    pub leaf: Leaf,
    /// Its drawbacks.
    pub trade_off: &'static str,
    /// Recommendations of the second tree.
    pub second: Vec<SecondAnswer>,
    /// Whether the second tree recommends something else.
    pub second_disagrees: bool,
    /// Contradictions between the record and the tree.
    pub contradictions: Vec<String>,
    /// How tenants with and without strict isolation share a fleet.
    pub mixed_policy: Option<&'static str>,
}

const MIXED_POLICY: &str = "tenants that need strict isolation run on MIG instances; the others \
                            share the remaining GPUs by MPS or time-slicing";

/// Walks through the tree to a leaf. An open question is an error that names all flags that may
/// still be needed.
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
        End::Open(node) => return Err(missing(node, &answers)),
    };
    let step = |step: &Step| AdviceStep {
        node: step.node.number,
        question: step.node.question,
        answer: step.choice.value,
        meaning: step.choice.meaning,
        source: step.source,
        measured: record.map(|r| evidence::beside(step.node.number, r)).unwrap_or_default(),
        traps: traps::at(step),
    };
    let second_answers = second(&answers, second_answers, leaf);
    Ok(Advice {
        path: walk.path.iter().map(step).collect(),
        leaf,
        trade_off: leaf.trade_off(),
        second_disagrees: second_answers.iter().any(|answer| !answer.agrees),
        second: second_answers,
        contradictions: record
            .map(|record| evidence::contradictions(&walk, leaf, record))
            .unwrap_or_default(),
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
