//! Errors of machine files: what is wrong, where, and what is accepted.

use serde::de::DeserializeOwned;

#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No built-in machine and no file of that name.
    #[error("unknown virtual machine {name:?} (known: {known}; or the path of a machine file)")]
    Unknown { name: String, known: String },
    #[error("machine file {path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// The text is not a machine file.
    #[error("machine file {path}: {message}")]
    Parse {
        path: String,
        /// The parser's message, on one line.
        message: String,
    },
    /// A value outside its accepted range.
    #[error("machine file {path}: {key} is {found}, accepted is {accepted}")]
    Value { path: String, key: &'static str, found: String, accepted: String },
}

/// Parses a TOML file; `path` is for messages.
pub(super) fn read<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, MachineError> {
    toml::from_str(text).map_err(|error| MachineError::Parse {
        path: path.to_owned(),
        message: one_line(&error, text),
    })
}

pub(super) fn wrong(
    path: &str,
    key: &'static str,
    found: impl std::fmt::Display,
    accepted: impl Into<String>,
) -> Result<(), MachineError> {
    Err(MachineError::Value {
        path: path.to_owned(),
        key,
        found: shown(&found.to_string()),
        accepted: accepted.into(),
    })
}

/// Longest part of an input in a message, in bytes.
const SHOWN_BYTES: usize = 200;
/// What the parser writes behind the part of the input that it quotes.
const EXPECTED: &str = ", expected";

/// The parser's message with at most [`SHOWN_BYTES`] of the input, which it quotes.
fn shown_message(message: &str) -> String {
    let begin = message.find(['`', '"']).unwrap_or(0);
    // The input may contain the same words; the parser's own come last.
    let end = message.rfind(EXPECTED).filter(|end| *end > begin);
    let (input, rest) = message.split_at(end.unwrap_or(message.len()));
    shown(input) + &rest.replace('\n', " ")
}

fn shown(text: &str) -> String {
    const MORE: &str = "...";
    let mut line = String::new();
    for c in text.chars() {
        let before = line.len();
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
        if line.len() > SHOWN_BYTES - MORE.len() {
            line.truncate(before);
            return line + MORE;
        }
    }
    line
}

/// The parser's message with its line number, without the excerpt of the source.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = shown_message(error.message());
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let key = key_at(before).map_or_else(String::new, |key| format!("{key}: "));
            format!("line {line}: {key}{}", with_range(&message))
        }
        None => message,
    }
}

/// The key whose value begins behind this text, with its table; a key that is wrong has none.
fn key_at(before: &str) -> Option<String> {
    let mut lines = before.split('\n').rev().map(str::trim);
    let (key, _) = lines.next()?.split_once('=')?;
    let key = key.trim();
    let table = lines.find_map(|line| line.strip_prefix('[')?.split(']').next());
    let table = table.map(|table| table.trim_matches('[').trim());
    Some(shown(&table.map_or_else(|| key.to_owned(), |table| format!("{table}.{key}"))))
}

/// The message with what is accepted in place of a type of ours.
fn with_range(message: &str) -> String {
    let (problem, wanted) = message.rsplit_once(EXPECTED).unwrap_or((message, ""));
    let accepted = match wanted.trim() {
        "u8" => format!("0 to {}", u8::MAX),
        "u16" => format!("0 to {}", u16::MAX),
        "u32" => format!("0 to {}", u32::MAX),
        "u64" | "usize" => format!("0 to {}", i64::MAX),
        "i32" => format!("{} to {}", i32::MIN, i32::MAX),
        "i64" => format!("{} to {}", i64::MIN, i64::MAX),
        "f32" | "f64" => return format!("{problem}, accepted is a number"),
        _ => return message.to_owned(),
    };
    format!("{problem}, accepted is a whole number from {accepted}")
}
