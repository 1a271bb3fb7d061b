//! What can be wrong with an input: each answer one line that names the value and what is accepted.

use thiserror::Error;

/// A refused input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PredictError {
    /// A value outside of its range.
    #[error("{name} is {}: accepted is {accepted}", one_line(given))]
    Value {
        /// The key or flag, as the user writes it.
        name: String,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A name that is in no list.
    #[error("unknown {what} \"{}\" (known: {known})", one_line(given))]
    Unknown {
        /// What the name should have named.
        what: &'static str,
        /// What was given.
        given: String,
        /// All names that are known.
        known: String,
    },
    /// A file that is not of its form.
    #[error("{what}, {place}: {detail}")]
    Form {
        /// What kind of input.
        what: &'static str,
        /// Where in it.
        place: String,
        /// What is wrong, on one line.
        detail: String,
    },
    /// Something needed was not given.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to give it.
        remedy: String,
    },
}

impl PredictError {
    /// A value outside of its range.
    pub fn value(name: impl Into<String>, given: impl ToString, accepted: &str) -> Self {
        Self::Value {
            name: name.into(),
            given: given.to_string(),
            accepted: accepted.to_owned(),
        }
    }
}

/// What a user wrote, on one line whatever it holds.
fn one_line(given: &str) -> String {
    let shown = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    given.chars().map(shown).collect()
}

/// Reads TOML of a known form; what is wrong comes back as one line with its line number.
pub fn from_toml<T: serde::de::DeserializeOwned>(
    what: &'static str,
    text: &str,
) -> Result<T, PredictError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        PredictError::Form {
            what,
            place: format!("line {line}"),
            detail: one_line(error.message()),
        }
    })
}

/// Checks that a number is finite and above zero.
pub fn positive(name: &str, given: f64) -> Result<(), PredictError> {
    within(
        name,
        given,
        given.is_finite() && given > 0.0,
        "a number above 0",
    )
}

/// Checks that a number is finite and not below zero.
pub fn not_negative(name: &str, given: f64) -> Result<(), PredictError> {
    within(
        name,
        given,
        given.is_finite() && given >= 0.0,
        "a number of at least 0",
    )
}

/// Checks that a number lies in (0, 1].
pub fn share(name: &str, given: f64) -> Result<(), PredictError> {
    within(
        name,
        given,
        given > 0.0 && given <= 1.0,
        "a number above 0 and at most 1",
    )
}

fn within(name: &str, given: f64, is_fine: bool, accepted: &str) -> Result<(), PredictError> {
    if is_fine {
        Ok(())
    } else {
        Err(PredictError::value(name, given, accepted))
    }
}
