//! A clock for tests: exact, deterministic, with real threads.
//!
//! It runs one participant at a time and advances only when all of them wait, as virtual time does.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

use super::{DeviceError, Reap, Submit};
use crate::clock::{ClockError, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Running,
    ReadyAt(u64),
    Parked,
}

#[derive(Debug, Default)]
struct State {
    now_ns: u64,
    expected: usize,
    joined: usize,
    members: BTreeMap<u32, (Doing, bool)>,
    threads: BTreeMap<u32, ThreadId>,
    stalled: bool,
}

/// A clock for `expected` participants.
#[derive(Debug)]
pub(super) struct FakeClock {
    state: Mutex<State>,
    changed: Condvar,
    /// How late a sleeper wakes, as a function of its instant.
    late_ns: fn(u64) -> u64,
    /// Whether it passes for the wall clock, on which gaps are counted.
    is_wall: bool,
}

impl FakeClock {
    pub(super) fn new(expected: usize, late_ns: fn(u64) -> u64) -> Arc<Self> {
        Self::of_kind(expected, late_ns, false)
    }

    pub(super) fn on_wall(expected: usize, late_ns: fn(u64) -> u64) -> Arc<Self> {
        Self::of_kind(expected, late_ns, true)
    }

    fn of_kind(expected: usize, late_ns: fn(u64) -> u64, is_wall: bool) -> Arc<Self> {
        let state = State { expected, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), late_ns, is_wall })
    }

    fn me(state: &State) -> Option<u32> {
        let this = std::thread::current().id();
        state.threads.iter().find(|(_, thread)| **thread == this).map(|(id, _)| *id)
    }

    /// Runs the participant that is ready first, once all have joined and none runs.
    fn run_next(&self, state: &mut State) {
        let someone_runs = state.members.values().any(|(doing, _)| *doing == Doing::Running);
        if state.joined < state.expected || someone_runs || state.members.is_empty() {
            return;
        }
        let next = state
            .members
            .iter()
            .filter_map(|(id, (doing, _))| match doing {
                Doing::ReadyAt(t_ns) => Some((*t_ns, *id)),
                Doing::Running | Doing::Parked => None,
            })
            .min();
        match next {
            Some((t_ns, id)) => {
                state.now_ns = state.now_ns.max(t_ns);
                if let Some(member) = state.members.get_mut(&id) {
                    member.0 = Doing::Running;
                }
                if Self::me(state) == Some(id) {
                    return;
                }
            }
            None => state.stalled = true,
        }
        self.changed.notify_all();
    }

    /// Waits for an instant without lateness.
    pub(super) fn pass_until(&self, t_ns: u64) -> Result<(), ClockError> {
        let now_ns = self.now_ns();
        self.wait_as(Doing::ReadyAt(t_ns.max(now_ns)))
    }

    fn wait_as(&self, doing: Doing) -> Result<(), ClockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(me) = Self::me(&state) else {
            return Err(ClockError::Refused { call: "fake: not joined", code: -1 });
        };
        if let Some(member) = state.members.get_mut(&me) {
            member.0 = doing;
        }
        self.run_next(&mut state);
        loop {
            if state.stalled {
                return Err(ClockError::Refused { call: "fake: all parked", code: -35 });
            }
            if state.members.get(&me).is_some_and(|(doing, _)| *doing == Doing::Running) {
                return Ok(());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Time for FakeClock {
    fn now_ns(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now_ns
    }

    fn sleep_until(&self, t_ns: u64) -> Result<(), ClockError> {
        self.pass_until(t_ns + (self.late_ns)(t_ns))
    }

    fn is_wall(&self) -> bool {
        self.is_wall
    }

    fn join(&self, me: u32) -> Result<(), ClockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.joined += 1;
        let now_ns = state.now_ns;
        state.members.insert(me, (Doing::ReadyAt(now_ns), false));
        state.threads.insert(me, std::thread::current().id());
        drop(state);
        // As in virtual time, no participant continues before every expected one has joined.
        self.wait_as(Doing::ReadyAt(now_ns))
    }

    fn leave(&self, me: u32) -> Result<(), ClockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.members.remove(&me);
        state.threads.remove(&me);
        self.run_next(&mut state);
        Ok(())
    }

    fn park(&self, me: u32) -> Result<(), ClockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = state.now_ns;
        let token = state.members.get_mut(&me).is_some_and(|member| std::mem::take(&mut member.1));
        let doing = if token { Doing::ReadyAt(now_ns) } else { Doing::Parked };
        drop(state);
        self.wait_as(doing)
    }

    fn unpark(&self, whom: u32) -> Result<(), ClockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = state.now_ns;
        match state.members.get_mut(&whom) {
            Some(member) if member.0 == Doing::Parked => member.0 = Doing::ReadyAt(now_ns),
            Some(member) => member.1 = true,
            None => return Err(ClockError::Refused { call: "fake: unpark", code: -3 }),
        }
        Ok(())
    }
}

// A device for tests: it serves requests in order, each for a scripted time.

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
