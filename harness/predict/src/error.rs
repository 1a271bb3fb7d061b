//! Refused inputs: one line that names the value, its place and what is accepted.

use gpubench_record::{excerpt, parser_message};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PredictError {
    #[error("{} is {}: accepted is {accepted}", excerpt(name), excerpt(value))]
    Value {
        /// The key, as the user writes it.
        name: String,
        /// The refused value.
        value: String,
        accepted: String,
    },
    /// A name that is in no list.
    #[error("unknown {what} \"{}\" (known: {known})", excerpt(name))]
    Unknown { what: &'static str, name: String, known: String },
    #[error("{what}, {place}: {detail}")]
    Form { what: &'static str, place: String, detail: String },
    #[error("{} is missing: {remedy}", excerpt(what))]
    Missing { what: String, remedy: String },
}

impl PredictError {
    /// A value outside its range.
    pub fn value(name: impl Into<String>, value: impl ToString, accepted: &str) -> Self {
        Self::Value { name: name.into(), value: value.to_string(), accepted: accepted.to_owned() }
    }
}

/// A set of accepted numbers, for keys of files and for flags.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    accepted: &'static str,
    contains: fn(f64) -> bool,
}

pub const POSITIVE: Range =
    Range { accepted: "a number above 0", contains: |value| value.is_finite() && value > 0.0 };

/// Finite numbers of at least zero.
pub const NOT_NEGATIVE: Range = Range {
    accepted: "a number of at least 0",
    contains: |value| value.is_finite() && value >= 0.0,
};

pub const SHARE: Range = Range {
    accepted: "a number above 0 and at most 1",
    contains: |value| value > 0.0 && value <= 1.0,
};

/// Percentages.
pub const PERCENT: Range = Range {
    accepted: "a number above 0 and at most 100",
    contains: |value| value > 0.0 && value <= 100.0,
};

pub const CONFIDENCE: Range = Range {
    accepted: "a number above 0 and below 1",
    contains: |value| value > 0.0 && value < 1.0,
};

impl Range {
    /// The numbers that a function accepts, and their name.
    pub const fn new(accepted: &'static str, contains: fn(f64) -> bool) -> Self {
        Self { accepted, contains }
    }

    pub fn check(self, name: &str, value: f64) -> Result<(), PredictError> {
        if (self.contains)(value) {
            Ok(())
        } else {
            Err(PredictError::value(name, value, self.accepted))
        }
    }

    pub fn check_set(self, name: &str, value: Option<f64>) -> Result<(), PredictError> {
        value.map_or(Ok(()), |value| self.check(name, value))
    }

    /// Reads the value of a flag. The error says what is accepted.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let value = text.trim().parse().ok();
        value
            .filter(|value| (self.contains)(*value))
            .ok_or_else(|| format!("accepted: {}", self.accepted))
    }
}

/// Reads TOML of a known form. An error is one line with the line number of the problem.
pub fn from_toml<T: serde::de::DeserializeOwned>(
    what: &'static str,
    text: &str,
) -> Result<T, PredictError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
        PredictError::Form {
            what,
            place: format!("line {line}"),
            detail: parser_message(error.message()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{CONFIDENCE, NOT_NEGATIVE, PERCENT, POSITIVE, SHARE};

    #[test]
    fn a_range_accepts_its_numbers_only() {
        for (range, accepted, refused) in [
            (POSITIVE, "0.5", ["0", "-1", "inf", "nan", "x"]),
            (NOT_NEGATIVE, " 0 ", ["-0.1", "-inf", "inf", "nan", ""]),
            (SHARE, "1", ["0", "1.01", "-1", "nan", "1/2"]),
            (PERCENT, "100", ["0", "101", "-1", "nan", "5%"]),
            (CONFIDENCE, "0.95", ["0", "1", "1.5", "nan", "-1"]),
        ] {
            assert!(range.parse(accepted).is_ok(), "{accepted}");
            for text in refused {
                let error = range.parse(text).expect_err(text);
                assert_eq!(error, format!("accepted: {}", range.accepted), "{text}");
            }
        }
    }
}
