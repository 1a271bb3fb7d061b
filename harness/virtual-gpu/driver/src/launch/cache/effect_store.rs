//! Kept effects of launches: plain data.

use std::collections::HashMap;
use std::sync::Arc;

use crate::launch::request::Key;

pub(crate) type Digest = [u8; 32];

/// A part of an allocation: its bytes, or the amounts that are added to them.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) first: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The contents of a small allocation, and their digest.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
}

/// Amounts that a launch adds to memory, by word of `word` bytes.
#[derive(Debug)]
pub(crate) struct Additions {
    pub(crate) word: u64,
    pub(crate) extents: Vec<Extent>,
}

/// Contents that identical launches left, by the digest of their inputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptEffects {
    pub(crate) by_inputs: HashMap<Digest, Arc<Vec<Contents>>>,
    pub(crate) was_replayed: bool,
}

impl KeptEffects {
    pub(super) fn is_abandoned(&self) -> bool {
        self.by_inputs.len() >= INPUTS_MAX && !self.was_replayed
    }
}

/// Bytes kept for all launches; beyond that all effects are dropped.
pub(crate) const KEPT_BYTES: usize = 256 << 20;

/// Different inputs kept for one launch; after that, a launch without a replay is not recorded.
pub(crate) const INPUTS_MAX: usize = 256;

/// The kept effects of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects {
    pub(crate) additions: HashMap<Key, Arc<Additions>>,
    pub(crate) contents: HashMap<Key, KeptEffects>,
    /// Digests of small allocations, with the version that they belong to.
    pub(crate) digests: HashMap<u64, (u64, Digest)>,
    pub(crate) bytes: usize,
}

impl Effects {
    /// Drops the effects of a destroyed context.
    pub(crate) fn forget_context(&mut self, context: u32) {
        self.additions.retain(|key, _| key.context != context);
        self.contents.retain(|key, _| key.context != context);
        self.digests.clear();
    }

    /// Makes room for so many more bytes.
    pub(super) fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > KEPT_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
    }
}
