//! A clock for tests: exact, deterministic, with real threads.
//!
//! It runs one participant at a time and advances only when all of them wait, as virtual time does.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

use crate::clock::{ClockError, Time};

/// State of one participant.
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
            None => {
                return Err(ClockError::Refused { call: "fake: unpark", code: -3 });
            }
        }
        Ok(())
    }
}
