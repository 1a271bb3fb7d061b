//! A fill as plain data.

use crate::code::{self, Code};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    pub pointer: u64,
    /// The value, in as many low bytes as an element has.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u64,
    pub count: u64,
}

impl Fill {
    pub fn of(pointer: u64, value: u32, element: u64, count: usize) -> Self {
        let count = count as u64;
        Self { pointer, value, element, count }
    }

    /// Its length in bytes, if its address is a multiple of an element.
    pub(crate) fn bytes(&self) -> Result<u64, Code> {
        let bytes = self.count.checked_mul(self.element);
        let aligned = bytes.filter(|_| self.pointer.is_multiple_of(self.element));
        aligned.ok_or(code::INVALID_VALUE)
    }
}
