//! Operations that a stream cannot begin yet, as data.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::words::StreamWaitId;
use crate::entries::StreamEntry;
use crate::operation::Action;
use gpubench_virtual_gpu_model::state::Order;

/// A stream and the number of deferred work in it: a position to wait for.
pub(crate) type Position = (u32, u64);

/// The deferred work of one stream.
#[derive(Debug)]
pub struct DeferredQueue {
    pub stream: StreamEntry,
    pub(crate) order: Order,
    pub(crate) items: VecDeque<Item>,
    /// Number of the last deferred work.
    pub(crate) last: u64,
    /// The context has been destroyed.
    pub(crate) given_up: Arc<AtomicBool>,
}

impl DeferredQueue {
    /// Drops all of its work.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }
}

/// Deferred work.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) action: Action,
    pub(crate) number: u64,
    pub(crate) after: Vec<Position>,
    pub(crate) stream_wait: Option<StreamWaitId>,
}
