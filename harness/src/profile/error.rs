//! What can be wrong with a profile, and where.

use crate::error::ExpectedError;

/// One mistake in one profile: the first that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// Path of the file, `built-in NAME`, or `the command line`.
    pub file: String,
    /// Line in it, from 1.
    pub line: Option<usize>,
    /// Dotted key; empty when the file is no TOML.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right; empty when the problem says it already.
    pub accepted: String,
}

impl From<ProfileError> for ExpectedError {
    fn from(error: ProfileError) -> Self {
        let ProfileError {
            file,
            line,
            key,
            problem,
            accepted,
        } = error;
        Self::Profile {
            file,
            line,
            key,
            problem,
            accepted,
        }
    }
}

/// A mistake at a key, before it is known in which file and line the key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The key, from the root.
    pub path: Vec<Step>,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub accepted: String,
    /// Keys whose values decide what is right there.
    pub bound_by: Vec<Vec<Step>>,
}

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
        Self {
            path: steps(key),
            problem: problem.into(),
            accepted: accepted.into(),
            bound_by: Vec::new(),
        }
    }

    /// The same, where another key decides what is right.
    pub(super) fn bound_by(mut self, key: &str) -> Self {
        self.bound_by.push(steps(key));
        self
    }

    /// The same, at one element of the list that stands there.
    pub(super) fn element(mut self, index: usize) -> Self {
        self.path.push(Step::Index(index));
        self
    }

    /// The key as people write it; the place in a list is told by the line instead.
    pub(super) fn dotted(&self) -> String {
        dotted(&self.path)
    }
}

fn steps(key: &str) -> Vec<Step> {
    let step = |step: &str| Step::Key(step.to_owned());
    key.split('.').map(step).collect()
}

/// A path as people write it.
pub(super) fn dotted(path: &[Step]) -> String {
    let keys = path.iter().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    });
    keys.collect::<Vec<_>>().join(".")
}
