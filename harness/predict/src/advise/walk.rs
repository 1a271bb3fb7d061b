//! Walks through the tree as far as the answers lead.

use super::tree::{Choice, Leaf, NODES, Next, Node};
use crate::error::PredictError;

/// The known answers, by question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    values: [Option<(&'static str, Source)>; NODES.len()],
}

/// Source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The user.
    User,
    /// The measurements of a record.
    Record,
}

impl Answers {
    /// Sets the answer to the question of a flag.
    pub fn answer(&mut self, flag: &str, value: &str, source: Source) -> Result<(), PredictError> {
        let node = node_of(flag)?;
        let choice = node.choice(value).ok_or_else(|| {
            PredictError::value(
                flag,
                format!("\"{value}\""),
                &format!("one of {}", node.values(", ")),
            )
        })?;
        self.values[usize::from(node.number) - 1] = Some((choice.value, source));
        Ok(())
    }

    /// The answer to a question, if it is known.
    pub fn get(&self, number: u8) -> Option<(&'static str, Source)> {
        self.values.get(usize::from(number).checked_sub(1)?).copied().flatten()
    }

    /// The value of the answer to a question, if it is known.
    pub fn value(&self, number: u8) -> Option<&'static str> {
        self.get(number).map(|(value, _)| value)
    }
}

/// The question of a flag.
pub fn node_of(flag: &str) -> Result<&'static Node, PredictError> {
    NODES.iter().find(|node| node.flag == flag).ok_or_else(|| PredictError::Unknown {
        what: "question",
        name: flag.to_owned(),
        known: NODES.map(|node| node.flag).join(", "),
    })
}

/// One question with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The question.
    pub node: &'static Node,
    /// The answer.
    pub choice: &'static Choice,
    /// Its source.
    pub source: Source,
}

/// A path through the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The answered questions, in order.
    pub path: Vec<Step>,
    /// The end of the path.
    pub end: End,
}

/// The end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A leaf.
    Leaf(Leaf),
    /// A question without an answer.
    Open(&'static Node),
}

/// Walks from the first question as far as the answers go.
pub fn walk(answers: &Answers) -> Walk {
    let mut path = Vec::new();
    let mut node = &NODES[0];
    loop {
        let answer = answers.get(node.number);
        let found = answer.and_then(|(value, source)| Some((node.choice(value)?, source)));
        let Some((choice, source)) = found else {
            return Walk { path, end: End::Open(node) };
        };
        path.push(Step { node, choice, source });
        match choice.next {
            Next::Leaf(leaf) => {
                return Walk { path, end: End::Leaf(leaf) };
            }
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
