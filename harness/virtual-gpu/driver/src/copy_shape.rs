//! A copy as plain data.

use crate::code::{self, Code};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory, by its address.
    Host(u64),
    /// Device memory, by its address.
    Device(u64),
}

/// A copy of bytes that lie in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub to: Place,
    pub from: Place,
    pub bytes: u64,
}

impl Copy {
    /// Refuses null and what goes beyond the last address.
    pub(crate) fn check(&self) -> Result<(), Code> {
        for place in [self.to, self.from] {
            let (Place::Host(address) | Place::Device(address)) = place;
            if place == Place::Host(0) || address.checked_add(self.bytes).is_none() {
                return Err(code::INVALID_VALUE);
            }
        }
        Ok(())
    }
}
