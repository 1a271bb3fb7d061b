//! A device for tests: it serves requests in order, each for a scripted time.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use super::fake::FakeClock;
use super::{DeviceError, Reap, Submit};
use crate::clock::Time;

/// A request that ends at this instant.
pub(super) const NEVER_NS: u64 = u64::MAX / 2;

/// How the device handles request number `n` (counted from 0).
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    /// How long the submitting call takes.
    pub(super) submit_ns: fn(u64) -> u64,
    /// The time on the device; [`NEVER_NS`] for a request that never ends.
    pub(super) service_ns: fn(u64) -> u64,
    /// The error code of the submitting call.
    pub(super) refused: fn(u64) -> Option<i32>,
    /// The time between two polls for it.
    pub(super) poll_ns: fn(u64) -> u64,
    /// The error code with which the request ends.
    pub(super) ends_badly: fn(u64) -> Option<i32>,
}

impl Script {
    /// Calls of 5 us, requests of 1 ms, no errors.
    pub(super) const PLAIN: Self = Self {
        submit_ns: |_| 5_000,
        service_ns: |_| 1_000_000,
        refused: |_| None,
        poll_ns: |_| 5_000,
        ends_badly: |_| None,
    };
}

/// The device; clones share it.
#[derive(Debug, Clone)]
pub(super) struct FakeDevice {
    clock: Arc<FakeClock>,
    script: Script,
    slots: usize,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    submitted: u64,
    free_at_ns: u64,
    /// Per slot: request number, start and end.
    slots: Vec<(u64, u64, u64)>,
    entered: Vec<ThreadId>,
}

impl FakeDevice {
    pub(super) fn new(clock: &Arc<FakeClock>, script: Script, slots: usize) -> Self {
        let queue = Queue { slots: vec![(0, 0, 0); slots], ..Queue::default() };
        let queue = Arc::new(Mutex::new(queue));
        Self { clock: Arc::clone(clock), script, slots, queue }
    }

    /// Number of accepted requests.
    pub(super) fn submitted(&self) -> u64 {
        self.queue().submitted
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, until_ns: u64) -> Result<(), DeviceError> {
        self.clock.pass_until(until_ns).map_err(|error| DeviceError {
            what: error.to_string(),
            code: None,
            sticky: true,
        })
    }
}

fn error(code: i32) -> DeviceError {
    // The real sticky codes are 700 to about 799; here all of them are.
    DeviceError { what: format!("fake error {code}"), code: Some(code), sticky: code >= 700 }
}

impl Submit for FakeDevice {
    fn submit(&mut self, slot: usize) -> Result<(), DeviceError> {
        let number = self.queue().submitted;
        let returns_ns = self.clock.now_ns() + (self.script.submit_ns)(number);
        self.queue().submitted += 1;
        if let Some(code) = (self.script.refused)(number) {
            self.pass(returns_ns)?;
            return Err(error(code));
        }
        {
            let mut queue = self.queue();
            let start_ns = queue.free_at_ns.max(returns_ns);
            let end_ns = start_ns.saturating_add((self.script.service_ns)(number)).min(NEVER_NS);
            queue.free_at_ns = end_ns;
            queue.slots[slot] = (number, start_ns, end_ns);
        }
        self.pass(returns_ns)
    }

    fn is_idle(&mut self) -> Result<bool, DeviceError> {
        Ok(self.queue().free_at_ns <= self.clock.now_ns())
    }

    fn slots(&self) -> usize {
        self.slots
    }
}

impl Reap for FakeDevice {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        self.queue().entered.push(std::thread::current().id());
        Ok(())
    }

    fn wait(&self, slot: usize) -> Result<(), DeviceError> {
        let (number, _, end_ns) = self.queue().slots[slot];
        self.pass(end_ns)?;
        (self.script.ends_badly)(number).map_or(Ok(()), |code| Err(error(code)))
    }

    fn polls(&self) -> bool {
        true
    }

    fn is_done(&self, slot: usize) -> Result<bool, DeviceError> {
        let (number, _, end_ns) = self.queue().slots[slot];
        let polled_ns = self.clock.now_ns() + (self.script.poll_ns)(number);
        self.pass(polled_ns)?;
        Ok(end_ns <= polled_ns)
    }

    fn gpu_ns(&self, slot: usize) -> Result<u64, DeviceError> {
        let (_, start_ns, end_ns) = self.queue().slots[slot];
        Ok(end_ns - start_ns)
    }
}
