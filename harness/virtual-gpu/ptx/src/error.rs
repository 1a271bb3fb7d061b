//! The one error of loading PTX: a line and what is wrong there; it becomes the JIT log.

/// Why a PTX text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ptx line {line}: {message}")]
pub struct PtxError {
    /// Line of the text, counted from 1; 0 when the fault is in no single line.
    pub line: u32,
    /// One lowercase line: what is wrong and what is accepted.
    pub message: String,
    /// What kind of text it is.
    pub kind: Refused,
}

/// What a text that was refused is, as far as drivers tell such texts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// PTX with a mistake in it, or with something that cannot run here.
    Wrong,
    /// No PTX at all.
    NoPtx,
    /// PTX of a version that is not known.
    TooNew,
}

impl PtxError {
    /// An error at `line`.
    pub fn new(line: u32, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
            kind: Refused::Wrong,
        }
    }

    /// The same error about a text of that kind.
    pub fn of(self, kind: Refused) -> Self {
        Self { kind, ..self }
    }
}

/// Shorthand for the result of every loading step.
pub(crate) type Loaded<T> = Result<T, PtxError>;
