//! Mistakes in a profile, with their location.

use gpubench_record::{excerpt, parser_message};

/// The first mistake in a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct ProfileError {
    /// Path of the file, `built-in NAME`, or `the command line`.
    pub file: String,
    /// Line in it, from 1.
    pub line: Option<usize>,
    /// Dotted key; empty when the file is not TOML.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What is accepted; empty when the problem already says so.
    pub accepted: String,
}

impl ProfileError {
    fn text(&self) -> String {
        let Self { file, line, key, problem, accepted } = self;
        let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        let key = if key.is_empty() { String::new() } else { format!("key `{}`: ", excerpt(key)) };
        let accepted =
            if accepted.is_empty() { String::new() } else { format!(" (accepted: {accepted})") };
        format!("profile {place}: {key}{problem}{accepted}")
    }
}

/// A mistake at a key, without its file and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The key, from the root.
    pub path: Vec<Step>,
    /// What is wrong.
    pub problem: String,
    /// What is accepted.
    pub accepted: String,
    /// Keys that decide which values are accepted.
    pub bound_by: Vec<Vec<Step>>,
}

/// Longest sentence of our own about a value.
const PROBLEM_BYTES: usize = 500;

/// One step from the root of a profile to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl Fault {
    /// A mistake at a dotted key.
    pub(super) fn at(key: &str, problem: impl Into<String>, accepted: impl Into<String>) -> Self {
        let problem = problem.into();
        Self {
            path: steps(key),
            // A longer one quotes an input.
            problem: if problem.len() > PROBLEM_BYTES { parser_message(&problem) } else { problem },
            accepted: accepted.into(),
            bound_by: Vec::new(),
        }
    }

    /// The same, where another key decides which values are accepted.
    pub(super) fn bound_by(mut self, key: &str) -> Self {
        self.bound_by.push(steps(key));
        self
    }

    /// The same, at one element of the list.
    pub(super) fn element(mut self, index: usize) -> Self {
        self.path.push(Step::Index(index));
        self
    }

    /// The dotted key, without the position in a list, which the line gives.
    pub(super) fn dotted(&self) -> String {
        dotted(&self.path)
    }
}

pub(super) fn steps(key: &str) -> Vec<Step> {
    let step = |step: &str| Step::Key(step.to_owned());
    key.split('.').map(step).collect()
}

/// The dotted form of a path, without positions in lists.
pub(super) fn dotted(path: &[Step]) -> String {
    let keys = path.iter().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    });
    keys.collect::<Vec<_>>().join(".")
}
