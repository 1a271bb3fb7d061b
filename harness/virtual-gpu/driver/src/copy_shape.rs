//! The shape of a copy: from a few bytes to a box.

use crate::code::{self, Code};

/// Where one side of a copy lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory, by its address.
    Host(u64),
    /// Device memory, by its address.
    Device(u64),
}

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    pub place: Place,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Rows from one slice to the next.
    pub rows: u64,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub to: Side,
    pub from: Side,
    /// Bytes of a row.
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Copy {
    /// A copy of bytes that lie in one row.
    pub fn plain(to: Place, from: Place, bytes: usize) -> Self {
        let width = bytes as u64;
        let side = |place| Side {
            place,
            pitch: width,
            rows: 1,
        };
        Self {
            to: side(to),
            from: side(from),
            width,
            height: 1,
            depth: 1,
        }
    }

    pub(crate) fn total(&self) -> Option<u64> {
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }

    /// The same copy in one row, if it lies in one on both sides.
    pub(crate) fn flat(&self) -> Option<Self> {
        let packed = |side: &Side| {
            (self.height == 1 || side.pitch == self.width)
                && (self.depth == 1 || (side.pitch == self.width && side.rows == self.height))
        };
        let total = self.total()?;
        (packed(&self.to) && packed(&self.from)).then_some(Self {
            to: Side {
                pitch: total,
                rows: 1,
                ..self.to
            },
            from: Side {
                pitch: total,
                rows: 1,
                ..self.from
            },
            width: total,
            height: 1,
            depth: 1,
        })
    }

    /// Bytes from the first to the last of a side, gaps included.
    pub(crate) fn span(&self, side: &Side) -> Option<u64> {
        let rows_before = (self.depth - 1)
            .checked_mul(side.rows)?
            .checked_add(self.height - 1)?;
        rows_before.checked_mul(side.pitch)?.checked_add(self.width)
    }

    pub(crate) fn check(&self) -> Result<Self, Code> {
        for side in [&self.to, &self.from] {
            let (Place::Host(address) | Place::Device(address)) = side.place;
            let rows_fit = self.height == 1 && self.depth == 1 || side.pitch >= self.width;
            let slices_fit = self.depth == 1 || side.rows >= self.height;
            let end = self.span(side).and_then(|span| address.checked_add(span));
            let null = side.place == Place::Host(0);
            if null || !rows_fit || !slices_fit || end.is_none() {
                return Err(code::INVALID_VALUE);
            }
        }
        Ok(self.flat().unwrap_or(*self))
    }
}
