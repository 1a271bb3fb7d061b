//! One process's handle on a virtual device: clock, registration, submission and waiting.
//!
//! A thread that has joined the clock carries a local time, which runs ahead of the model's by what
//! its own calls cost. Operations are stamped with it. Whatever reads shared state waits first
//! until the model has come up to it.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::life;
use crate::machine::Machine;
use crate::model::{self, Queues, Rules};
use crate::pump::{self, Held};
use crate::session::{self, Session, TimeMode};
use crate::shm::{Shared, Side};
use crate::stall;
use crate::state::{
    Condition, NONE, Op, PARTICIPANTS, Participant, Process, RING, Standing, State,
};

/// How far a thread may run ahead of the model.
const AHEAD_NS: u64 = 1_000_000;

/// How often a waiter looks whether the others still live.
const LOOK: Duration = Duration::from_millis(100);

/// What can go wrong between a thread and the shared device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The state file or its lock cannot be used.
    #[error("virtual GPU state: {0}")]
    State(#[from] io::Error),
    /// The folder is no virtual GPU.
    #[error(transparent)]
    Session(#[from] session::SessionError),
    /// A thread that has not joined the clock asked to wait on it.
    #[error("thread {0:?} waits in virtual time without having joined the clock")]
    NotJoined(String),
    /// A participant number that is out of range, taken, or was never announced.
    #[error("participant {0} is not expected on this clock")]
    NotExpected(u32),
    /// Nothing that anybody waits for can still happen, or somebody blocks the clock.
    #[error("{0}")]
    Stalled(String),
    /// A table of the state file is full.
    #[error("virtual GPU: no room for another {0}")]
    Full(&'static str),
}

/// The thread's own place on the clock.
#[derive(Debug, Clone, Copy)]
struct Me {
    participant: usize,
    local_ns: u64,
    granted_ns: u64,
}

thread_local! {
    static ME: Cell<Option<Me>> = const { Cell::new(None) };
}

/// A handle on one virtual device.
pub struct Device {
    shared: Shared,
    dir: PathBuf,
    machine: Machine,
    rules: Rules,
    session: Session,
    process: OnceLock<u32>,
}

impl Device {
    /// Opens the device whose folder this is.
    ///
    /// # Errors
    /// When the folder is no virtual GPU of this version.
    pub fn open(dir: &Path) -> Result<Self, DeviceError> {
        let (session, machine) = Session::read(dir)?;
        let shared = Shared::open(&dir.join(session::STATE_FILE))?;
        let rules = machine.rules();
        let dir = dir.to_path_buf();
        Ok(Self { shared, dir, machine, rules, session, process: OnceLock::new() })
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the device is like.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How its time passes and what its noise is seeded with.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether time is virtual.
    #[must_use]
    pub fn is_virtual_time(&self) -> bool {
        self.session.time == TimeMode::Virtual
    }

    /// The shared parts that need no transaction.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// This process's slot, taken at first use.
    ///
    /// # Errors
    /// When no slot is free.
    pub fn process(&self) -> Result<u32, DeviceError> {
        if let Some(&slot) = self.process.get() {
            return Ok(slot);
        }
        let pid = std::process::id();
        let slot = self.shared.transact(|state, _| {
            let slot = state.processes.claim(|process| process.pid == 0)?;
            state.processes.rows[slot] = Process { pid, busy_ns: 0, name: life::own_name() };
            u32::try_from(slot).ok()
        })?;
        let slot = slot.ok_or(DeviceError::Full("process"))?;
        self.shared.claim_life(slot)?;
        Ok(*self.process.get_or_init(|| slot))
    }

    /// Announces a participant: the clock stands until it has joined or was abandoned.
    ///
    /// # Errors
    /// When the number is out of range or in use.
    pub fn expect(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        self.shared.transact(|state, _| {
            let used = &mut state.participants.used;
            while (*used as usize) <= index {
                state.participants.rows[*used as usize] = Participant::default();
                *used += 1;
            }
            let participant = &mut state.participants.rows[index];
            if participant.standing != Standing::Free {
                return Err(DeviceError::NotExpected(id));
            }
            *participant = Participant {
                standing: Standing::Expected,
                process: NONE,
                ready_ns: state.now_ns,
                ..Participant::default()
            };
            Ok(())
        })?
    }

    /// Takes an announcement back, because the thread will never come.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn abandon(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        let granted = self.shared.transact(|state, side| {
            if state.participants.rows[index].standing == Standing::Expected {
                state.participants.rows[index] = Participant::default();
            }
            pump::pump(state, side, &self.rules)
        })?;
        self.pass_on(granted);
        Ok(())
    }

    /// Makes the calling thread the announced participant `id`, and waits for its turn.
    ///
    /// # Errors
    /// When the participant was not announced, or the clock stalls.
    pub fn join(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        let process = self.process()?;
        life::pin_to(self.session.core);
        let tid = life::own_tid();
        let ready_ns = self.shared.transact(|state, _| {
            let participant = &mut state.participants.rows[index];
            if participant.standing != Standing::Expected {
                return Err(DeviceError::NotExpected(id));
            }
            participant.standing = Standing::Running;
            participant.process = process;
            participant.tid = tid;
            Ok(participant.ready_ns.max(state.now_ns))
        })??;
        ME.set(Some(Me { participant: index, local_ns: ready_ns, granted_ns: ready_ns }));
        self.wait(Condition::Time, 0, 0, ready_ns)
    }

    /// Leaves the clock at the thread's local time.
    ///
    /// # Errors
    /// When the clock stalls.
    pub fn leave(&self) -> Result<(), DeviceError> {
        let Some(me) = ME.get() else { return Ok(()) };
        self.catch_up()?;
        ME.set(None);
        let granted = self.shared.transact(|state, side| {
            state.participants.rows[me.participant] = Participant::default();
            pump::pump(state, side, &self.rules)
        })?;
        self.pass_on(granted);
        Ok(())
    }

    /// The time as the calling thread sees it.
    pub fn now_ns(&self) -> u64 {
        if !self.is_virtual_time() {
            return self.session.wall_now_ns();
        }
        match ME.get() {
            Some(mut me) => {
                me.local_ns += self.machine.host.clock_ns.max(1);
                ME.set(Some(me));
                me.local_ns
            }
            None => self.shared.read(|state| state.now_ns).unwrap_or(0),
        }
    }

    /// Charges the calling thread for host work; no thread may run too far ahead of the others.
    ///
    /// # Errors
    /// When the clock stalls.
    pub fn charge(&self, cost_ns: u64) -> Result<(), DeviceError> {
        let Some(mut me) = ME.get() else { return Ok(()) };
        me.local_ns += cost_ns.max(1);
        ME.set(Some(me));
        if me.local_ns > me.granted_ns + AHEAD_NS { self.catch_up() } else { Ok(()) }
    }

    /// Waits until the model has come up to the thread's local time, so that what it reads next
    /// has been changed by everything that came before.
    ///
    /// # Errors
    /// When the clock stalls.
    pub fn catch_up(&self) -> Result<(), DeviceError> {
        match ME.get() {
            Some(me) if me.local_ns > me.granted_ns => {
                self.wait(Condition::Time, 0, 0, me.local_ns)
            }
            Some(_) => Ok(()),
            None if self.is_virtual_time() => Ok(()),
            None => {
                let now = self.session.wall_now_ns();
                self.shared.transact(|state, side| {
                    model::run_until(state, side, &self.rules, now);
                })?;
                Ok(())
            }
        }
    }

    /// Sleeps until an instant on the clock.
    ///
    /// # Errors
    /// When the thread has not joined, or the clock stalls.
    pub fn sleep_until(&self, t_ns: u64) -> Result<(), DeviceError> {
        let me = ME.get().ok_or_else(not_joined)?;
        self.wait(Condition::Time, 0, 0, t_ns.max(me.local_ns))
    }

    /// Waits for another participant's [`Device::unpark`]; returns at once if one came before.
    ///
    /// # Errors
    /// When the thread has not joined, or the clock stalls.
    pub fn park(&self) -> Result<(), DeviceError> {
        let me = ME.get().ok_or_else(not_joined)?;
        self.wait(Condition::Unpark, 0, 0, me.local_ns)
    }

    /// Lets participant `id` go on from its park, not before the caller's local time.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn unpark(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        let at = ME.get().map_or(0, |me| me.local_ns);
        self.shared.transact(|state, _| {
            let participant = &mut state.participants.rows[index];
            participant.token = true;
            participant.ready_ns = participant.ready_ns.max(at);
        })?;
        Ok(())
    }

    /// Runs a transaction at the present time: the model first comes up to it.
    ///
    /// # Errors
    /// When the lock cannot be had or the clock stalls.
    pub fn transact<R>(
        &self,
        body: impl FnOnce(&mut State, &Side<'_>) -> R,
    ) -> Result<R, DeviceError> {
        self.catch_up()?;
        Ok(self.shared.transact(body)?)
    }

    /// Queues an operation; blocks while the stream's ring is full, as a driver does. Returns its
    /// sequence number plus one: what a wait for it needs.
    ///
    /// # Errors
    /// When the clock stalls or the lock cannot be had.
    pub fn submit(&self, stream: u32, mut op: Op) -> Result<u64, DeviceError> {
        let index = stream as usize;
        loop {
            let at = ME.get().map_or_else(
                || if self.is_virtual_time() { 0 } else { self.session.wall_now_ns() },
                |me| me.local_ns,
            );
            op.stamp_ns = at + self.machine.host.launch_latency_ns;
            let done = self.shared.transact(|state, side| {
                if !self.is_virtual_time() {
                    model::run_until(state, side, &self.rules, at);
                }
                let now = state.now_ns;
                let slot = &mut state.streams.rows[index];
                if slot.submitted - slot.completed >= RING as u64 {
                    return None;
                }
                op.stamp_ns = op.stamp_ns.max(now);
                side.put_op(index, slot.submitted, op);
                slot.submitted += 1;
                let seq = slot.submitted;
                if !self.is_virtual_time() {
                    model::settle(state, side, &self.rules);
                }
                Some(seq)
            })?;
            match done {
                Some(seq) => {
                    if !self.is_virtual_time() {
                        self.shared.notify_change();
                    }
                    return Ok(seq);
                }
                None => self.wait_for(Condition::Room, stream, 0)?,
            }
        }
    }

    /// Waits until a stream has completed everything up to `seq`.
    ///
    /// # Errors
    /// When the thread has not joined, or the clock stalls.
    pub fn wait_stream(&self, stream: u32, seq: u64) -> Result<(), DeviceError> {
        self.wait_for(Condition::Stream, stream, seq)
    }

    /// Waits until every stream of a context is idle.
    ///
    /// # Errors
    /// When the thread has not joined, or the clock stalls.
    pub fn wait_context(&self, context: u32) -> Result<(), DeviceError> {
        self.wait_for(Condition::Context, context, 0)
    }

    fn wait_for(&self, condition: Condition, target: u32, seq: u64) -> Result<(), DeviceError> {
        match ME.get() {
            Some(me) => self.wait(condition, target, seq, me.local_ns),
            None if self.is_virtual_time() => self.standing_still(condition, target, seq),
            None => self.wait_in_wall_time(condition, target, seq),
        }
    }

    /// A thread beside the clock may ask for what already holds, but cannot wait for more.
    fn standing_still(&self, condition: Condition, target: u32, seq: u64) -> Result<(), DeviceError> {
        let probe = Participant { condition, target, seq, ..Participant::default() };
        if self.shared.read(|state| pump::holds(state, &probe))? {
            Ok(())
        } else {
            Err(not_joined())
        }
    }

    /// Waits in virtual time for a condition, not before `ready_ns`.
    fn wait(
        &self,
        condition: Condition,
        target: u32,
        seq: u64,
        ready_ns: u64,
    ) -> Result<(), DeviceError> {
        let mut me = ME.get().ok_or_else(not_joined)?;
        let seen = self.shared.word(me.participant);
        let granted = self.shared.transact(|state, side| {
            let participant = &mut state.participants.rows[me.participant];
            participant.standing = Standing::Waiting;
            participant.condition = condition;
            participant.target = target;
            participant.seq = seq;
            participant.ready_ns = match condition {
                // An unpark may already have moved it.
                Condition::Unpark => participant.ready_ns.max(ready_ns),
                _ => ready_ns,
            };
            let granted = pump::pump(state, side, &self.rules);
            (granted, state.now_ns)
        })?;
        let at = match granted {
            (Ok(index), now_ns) if index == me.participant => now_ns,
            (other, _) => {
                self.pass_on(other);
                self.sleep_for_turn(me.participant, seen)?
            }
        };
        me.granted_ns = at;
        me.local_ns = at;
        ME.set(Some(me));
        Ok(())
    }

    fn sleep_for_turn(&self, participant: usize, mut seen: u32) -> Result<u64, DeviceError> {
        let mut watch = stall::Watch::new(self.session.stall);
        loop {
            self.shared.sleep(participant, seen, LOOK);
            seen = self.shared.word(participant);
            let (own, transactions) = self
                .shared
                .read(|state| (state.participants.rows[participant], state.transactions))?;
            match own.standing {
                Standing::Running => return Ok(own.granted_ns),
                Standing::Waiting => {}
                Standing::Free | Standing::Expected => {
                    return Err(DeviceError::Stalled(format!(
                        "participant {participant} was taken for dead while it waited"
                    )));
                }
            }
            if watch.is_late() {
                self.bury_the_dead()?;
            }
            if let Some(report) = watch.check(transactions, || self.shared.read(stall::describe)) {
                return Err(DeviceError::Stalled(report));
            }
        }
    }

    fn wait_in_wall_time(
        &self,
        condition: Condition,
        target: u32,
        seq: u64,
    ) -> Result<(), DeviceError> {
        let probe = Participant { condition, target, seq, ..Participant::default() };
        loop {
            let seen = self.shared.change();
            let now = self.session.wall_now_ns();
            let (met, next) = self.shared.transact(|state, side| {
                model::run_until(state, side, &self.rules, now);
                (pump::holds(state, &probe), model::next_event_ns(state, side))
            })?;
            if met {
                return Ok(());
            }
            let until = Duration::from_nanos(next.saturating_sub(self.session.wall_now_ns()));
            self.shared.sleep_on_change(seen, until.min(LOOK));
            if until > LOOK {
                self.bury_the_dead()?;
            }
        }
    }

    /// Takes back what processes held that are no more, at the standing instant.
    ///
    /// # Errors
    /// When the lock cannot be had.
    pub fn bury_the_dead(&self) -> Result<(), DeviceError> {
        let own = std::process::id();
        let slots: Vec<(u32, u32)> = self.shared.read(|state| {
            let rows = state.processes.live().iter().enumerate();
            rows.filter(|(_, process)| process.pid != 0 && process.pid != own)
                .map(|(slot, process)| (slot as u32, process.pid))
                .collect()
        })?;
        for (slot, pid) in slots {
            if self.shared.life_held_elsewhere(slot)? {
                continue;
            }
            let granted = self.shared.transact(|state, side| {
                // Somebody may have buried it meanwhile and given the slot to another.
                if state.processes.rows[slot as usize].pid == pid {
                    life::reap(state, slot);
                }
                model::settle(state, side as &dyn Queues, &self.rules);
                pump::pump(state, side, &self.rules)
            })?;
            self.shared.free_events_of(slot);
            self.pass_on(granted);
            self.shared.notify_change();
        }
        Ok(())
    }

    fn pass_on(&self, granted: Result<usize, Held>) {
        if let Ok(index) = granted {
            self.shared.wake(index);
        }
    }
}

fn slot_of(id: u32) -> Result<usize, DeviceError> {
    let index = id as usize;
    if index < PARTICIPANTS { Ok(index) } else { Err(DeviceError::NotExpected(id)) }
}

fn not_joined() -> DeviceError {
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    DeviceError::NotJoined(name)
}
