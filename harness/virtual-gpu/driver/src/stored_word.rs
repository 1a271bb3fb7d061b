//! A word to be written once more behind launches that write around it.
#![expect(unsafe_code, reason = "words are written through raw mappings")]

/// A word with its place, to be written once more behind launches that write around it.
#[derive(Debug, Clone, Copy)]
pub struct Store {
    /// Where the host finds it: a mapping of device memory, which stays, or pinned memory.
    pub(crate) host: usize,
    pub(crate) bytes: usize,
    pub(crate) value: u64,
}

impl Store {
    /// Writes the word.
    pub fn make(&self) {
        let value = self.value.to_le_bytes();
        // SAFETY: a word of this process's memory, as `place` found it. Of pinned memory, which
        // can be freed, nothing is written a second time.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), self.host as *mut u8, self.bytes) };
    }
}
