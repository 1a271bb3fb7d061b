//! A table of fixed size in shared memory; only rows in use are copied.

/// A fixed table with the number of rows ever used, so that copies stay small.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Table<T, const N: usize> {
    /// Rows that can be in use; the rows after them are not.
    pub used: u32,
    /// Bumped by [`Table::touch`]; equal versions mean equal contents.
    pub version: u32,
    pub rows: [T; N],
}

impl<T: Copy + Default, const N: usize> Table<T, N> {
    pub fn new() -> Self {
        Self { used: 0, version: 0, rows: [T::default(); N] }
    }

    /// The rows that can be in use.
    pub fn live(&self) -> &[T] {
        &self.rows[..self.used as usize]
    }

    /// The rows that can be in use, mutable.
    pub fn live_mut(&mut self) -> &mut [T] {
        &mut self.rows[..self.used as usize]
    }

    /// Index of the first row for which `free` holds, or of a new row.
    pub fn claim(&mut self, free: impl Fn(&T) -> bool) -> Option<usize> {
        if let Some(index) = self.live().iter().position(&free) {
            return Some(index);
        }
        let index = self.used as usize;
        if index == N {
            return None;
        }
        self.used += 1;
        self.rows[index] = T::default();
        Some(index)
    }

    /// Marks the contents as changed, for tables copied by version.
    pub fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    pub fn copy_used(&mut self, from: &Self) {
        self.used = from.used;
        self.version = from.version;
        self.rows[..from.used as usize].copy_from_slice(from.live());
    }

    /// Copies the rows in use, if the version differs.
    pub fn copy_if_changed(&mut self, from: &Self) {
        if self.version != from.version || self.used != from.used {
            self.copy_used(from);
        }
    }
}

impl<T: Copy + Default, const N: usize> Default for Table<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
