//! The shape of a fill.

use crate::code::{self, Code};

/// One fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub pointer: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value, in as many low bytes as an element has.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u64,
    /// Elements of a row.
    pub width: u64,
    pub height: u64,
}

impl Fill {
    pub(crate) fn row_bytes(&self) -> Option<u64> {
        self.width.checked_mul(self.element)
    }

    /// Bytes from the first to the last, gaps included.
    pub(crate) fn span(&self) -> Option<u64> {
        let before = (self.height - 1).checked_mul(self.pitch)?;
        before.checked_add(self.row_bytes()?)
    }

    pub(crate) fn check(&self) -> Result<(), Code> {
        let row = self.row_bytes().ok_or(code::INVALID_VALUE)?;
        let aligned = self.pointer.is_multiple_of(self.element)
            && (self.height == 1 || self.pitch.is_multiple_of(self.element));
        if !aligned || (self.height > 1 && self.pitch < row) {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }
}
