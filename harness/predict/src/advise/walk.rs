//! Walks the tree as far as the answers go.

use super::tree::{Choice, Leaf, NODES, Next, Node};
use crate::error::PredictError;

/// The answers that are known, by question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    values: [Option<(&'static str, Source)>; NODES.len()],
}

/// Who gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The user.
    User,
    /// A record's measurements.
    Record,
}

impl Answers {
    /// Notes an answer to the question of a flag.
    pub fn answer(&mut self, flag: &str, value: &str, source: Source) -> Result<(), PredictError> {
        let node = node_of(flag)?;
        let choice = node.choice(value).ok_or_else(|| {
            PredictError::value(
                flag,
                format!("\"{value}\""),
                &format!("one of {}", node.values()),
            )
        })?;
        self.values[usize::from(node.number) - 1] = Some((choice.value, source));
        Ok(())
    }

    /// The answer to a question, if it is known.
    pub fn get(&self, number: u8) -> Option<(&'static str, Source)> {
        self.values
            .get(usize::from(number).checked_sub(1)?)
            .copied()
            .flatten()
    }

    /// The value of the answer to a question, if it is known.
    pub fn value(&self, number: u8) -> Option<&'static str> {
        self.get(number).map(|(value, _)| value)
    }
}

/// The question of a flag.
pub fn node_of(flag: &str) -> Result<&'static Node, PredictError> {
    NODES
        .iter()
        .find(|node| node.flag == flag)
        .ok_or_else(|| PredictError::Unknown {
            what: "question",
            given: flag.to_owned(),
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
    /// Who gave it.
    pub source: Source,
}

/// How far the answers led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The questions that were answered, in order.
    pub path: Vec<Step>,
    /// Where the path ends.
    pub end: End,
}

/// Where a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At a leaf.
    Leaf(Leaf),
    /// At a question without an answer.
    Open(&'static Node),
}

/// Walks from the first question as far as the answers go.
pub fn walk(answers: &Answers) -> Walk {
    let mut path = Vec::new();
    let mut node = &NODES[0];
    loop {
        let given = answers.get(node.number);
        let found = given.and_then(|(value, source)| Some((node.choice(value)?, source)));
        let Some((choice, source)) = found else {
            return Walk {
                path,
                end: End::Open(node),
            };
        };
        path.push(Step {
            node,
            choice,
            source,
        });
        match choice.next {
            Next::Leaf(leaf) => {
                return Walk {
                    path,
                    end: End::Leaf(leaf),
                };
            }
            Next::Node(number) => node = &NODES[usize::from(number) - 1],
        }
    }
}
