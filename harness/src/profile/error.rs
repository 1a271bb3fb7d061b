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
        let path = key
            .split('.')
            .map(|step| Step::Key(step.to_owned()))
            .collect();
        Self {
            path,
            problem: problem.into(),
            accepted: accepted.into(),
        }
    }

    /// The same, at one element of the list that stands there.
    pub(super) fn element(mut self, index: usize) -> Self {
        self.path.push(Step::Index(index));
        self
    }

    /// The key as people write it; the place in a list is told by the line instead.
    pub(super) fn dotted(&self) -> String {
        let keys = self.path.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        keys.collect::<Vec<_>>().join(".")
    }
}
