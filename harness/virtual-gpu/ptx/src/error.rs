//! The error of loading PTX: a line and a message, which become the JIT log.

/// Why a PTX text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ptx line {line}: {message}")]
pub struct PtxError {
    /// Line of the text, from 1; 0 when the error is not in one line.
    pub line: u32,
    /// One lowercase line: the problem and what is accepted.
    pub message: String,
    pub kind: Refused,
}

/// Longest message: a longer one quotes a text of any length.
const MESSAGE_CHARS: usize = 300;

/// Kinds of errors for which drivers return different codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// PTX with an error, or with an unsupported instruction.
    Wrong,
    NoPtx,
    TooNew,
}

impl PtxError {
    pub fn new(line: u32, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS) {
            message.replace_range(end.., "...");
        }
        Self { line, message, kind: Refused::Wrong }
    }

    /// The same error with another kind.
    pub fn of(self, kind: Refused) -> Self {
        Self { kind, ..self }
    }
}

pub(crate) type Loaded<T> = Result<T, PtxError>;
