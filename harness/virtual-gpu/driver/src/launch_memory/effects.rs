//! What launches did to memory, as data.

use std::collections::HashMap;
use std::sync::Arc;

use super::key::Key;

/// What is kept of all launches at most; beyond that it is all forgotten.
pub(crate) const KEPT_BYTES: usize = 256 << 20;

/// Different findings of one launch that are kept; where none of them came again it is given up.
pub(crate) const FINDINGS: usize = 256;

pub(crate) type Digest = [u8; 32];

/// A part of an allocation: from where on, and its bytes, or what is added to them.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) first: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The whole of a small allocation, and the digest of it.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
}

/// What one kind of launch adds, in words of so many bytes.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) word: u64,
    pub(crate) parts: Vec<Part>,
}

/// What launches of one kind left, by what they found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Left {
    pub(crate) by_found: HashMap<Digest, Arc<Vec<Whole>>>,
    pub(crate) came_again: bool,
}

impl Left {
    pub(crate) fn is_given_up(&self) -> bool {
        self.by_found.len() >= FINDINGS && !self.came_again
    }
}

/// All that is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects {
    pub(crate) added: HashMap<Key, Arc<Added>>,
    pub(crate) left: HashMap<Key, Left>,
    /// Of small allocations, and at which version.
    pub(crate) digests: HashMap<u64, (u64, Digest)>,
    pub(crate) bytes: usize,
}

impl Effects {
    /// Forgets a context that is gone.
    pub(crate) fn forget_context(&mut self, context: u32) {
        self.added.retain(|key, _| key.context != context);
        self.left.retain(|key, _| key.context != context);
        self.digests.clear();
    }

    /// Makes room for so many bytes more.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > KEPT_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
    }
}
