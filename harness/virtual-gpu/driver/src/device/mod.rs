//! One process's handle on a virtual device: clock, registration, submission and waiting.
//!
//! A thread that has joined the clock has a local time, which runs ahead of the model's by the cost
//! of its own calls. Operations are stamped with it. A call that reads shared state first waits
//! until the model has reached it.

mod clock;
mod wait;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::code::{self, Code};
use crate::crash::{self, Place};
use crate::host_process;
use crate::session::{self, Session, TimeMode};
use crate::shm::{QueueView, Shared};
use clock::ME;
use gpubench_virtual_gpu_model::lifecycle;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::simulation::{self, Queues, Rules};
use gpubench_virtual_gpu_model::state::{Condition, Op, OpKind, Process, RING, State, order};
use gpubench_virtual_gpu_model::virtual_time::{self, Held};

/// Errors of a thread on the shared device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The state file or its lock cannot be used.
    #[error("virtual GPU state: {0}")]
    State(#[from] io::Error),
    /// The folder is not a virtual GPU.
    #[error(transparent)]
    Session(#[from] session::SessionError),
    /// A thread that has not joined the clock tried to wait on it.
    #[error("thread {0:?} waits in virtual time without having joined the clock")]
    NotJoined(String),
    /// A participant number that is out of range, taken, or was never announced.
    #[error("participant {0} is not expected on this clock")]
    NotExpected(u32),
    /// No awaited event can still happen, or a thread blocks the clock.
    #[error("{0}")]
    Stalled(String),
    /// A table of the state file is full.
    #[error("virtual GPU: no room for another {0}")]
    Full(&'static str),
}

impl From<io::Error> for Code {
    /// The result of a call that cannot read the shared state.
    fn from(error: io::Error) -> Self {
        Self::from(DeviceError::State(error))
    }
}

impl From<DeviceError> for Code {
    /// The program gets a number; standard error gets the reason.
    fn from(error: DeviceError) -> Self {
        crate::diagnostics::say(&error.to_string());
        match error {
            DeviceError::Stalled(_) => code::LAUNCH_TIMEOUT,
            DeviceError::NotJoined(_) | DeviceError::NotExpected(_) => code::NOT_PERMITTED,
            DeviceError::State(_) | DeviceError::Session(_) => code::UNKNOWN,
            DeviceError::Full(_) => code::OUT_OF_MEMORY,
        }
    }
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
    pub fn open(dir: &Path) -> Result<Self, DeviceError> {
        let (session, machine) = Session::read(dir)?;
        let shared = Shared::open(&dir.join(session::STATE_FILE))?;
        let rules = machine.rules();
        let dir = dir.to_path_buf();
        Ok(Self { shared, dir, machine, rules, session, process: OnceLock::new() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The machine that the device models.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How the device was started: time mode, seed, limits.
    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn is_virtual_time(&self) -> bool {
        self.session.time == TimeMode::Virtual
    }

    /// The shared parts that need no transaction.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether a process has a row on the device.
    pub fn has_process(&self, pid: u32) -> Result<bool, DeviceError> {
        let held = self.shared.read(|state| {
            let mut processes = state.processes.live().iter();
            processes.any(|process| process.pid == pid)
        });
        Ok(held?)
    }

    /// This process's slot, taken at first use.
    pub fn process(&self) -> Result<u32, DeviceError> {
        if let Some(&slot) = self.process.get() {
            return Ok(slot);
        }
        let pid = std::process::id();
        // Without waiters no process reaps dead ones: rows and memory must be free for this one.
        self.reap_dead_processes()?;
        // The row and its life lock appear in one transaction: another process that reaps would
        // take a row without a lock for a dead process.
        let slot = self.shared.transact(|state, _| {
            let Some(slot) = state.processes.claim(|process| process.pid == 0) else {
                return Err(DeviceError::Full("process"));
            };
            let number = slot as u32;
            self.shared.claim_life(number)?;
            state.processes.rows[slot] =
                Process { pid, name: host_process::own_name(), ..Process::default() };
            Ok(number)
        })??;
        Ok(*self.process.get_or_init(|| slot))
    }

    /// Advances the model to the present time and runs a transaction.
    pub fn transact<R>(
        &self,
        body: impl FnOnce(&mut State, &QueueView<'_>) -> R,
    ) -> Result<R, DeviceError> {
        self.catch_up()?;
        Ok(self.shared.transact(body)?)
    }

    /// Queues an operation; blocks while the stream's ring is full, as a driver does. Returns its
    /// sequence number plus one, the argument of a wait for it.
    pub fn submit(&self, stream: u32, mut op: Op) -> Result<u64, DeviceError> {
        let index = stream as usize;
        loop {
            let at = ME.get().map_or_else(
                || {
                    if self.is_virtual_time() { 0 } else { self.session.wall_now_ns() }
                },
                |me| me.local_ns,
            );
            op.stamp_ns = at + self.machine.host.launch_latency_ns;
            let done = self.shared.transact(|state, side| {
                if !self.is_virtual_time() {
                    simulation::run_until(state, side, &self.rules, at);
                }
                op.stamp_ns = op.stamp_ns.max(state.now_ns);
                let before = order::implicit_waits(state, index);
                let needed = before.len() as u64 + 1;
                let slot = &mut state.streams.rows[index];
                if slot.submitted - slot.completed + needed > RING as u64 {
                    return Err(needed);
                }
                for &(target, target_seq) in &before {
                    let stamp_ns = op.stamp_ns;
                    let wait =
                        Op { kind: OpKind::Wait, target, target_seq, stamp_ns, ..Op::default() };
                    side.put_op(index, slot.submitted, wait);
                    slot.submitted += 1;
                }
                side.put_op(index, slot.submitted, op);
                slot.submitted += 1;
                let seq = slot.submitted;
                order::waited(state, index, &before);
                if !self.is_virtual_time() {
                    simulation::settle(state, side, &self.rules);
                }
                Ok(seq)
            })?;
            match done {
                Ok(seq) => {
                    if !self.is_virtual_time() {
                        self.shared.notify_change();
                    }
                    return Ok(seq);
                }
                Err(needed) => self.wait_for(Condition::Room, stream, needed)?,
            }
        }
    }

    /// Frees the resources of dead processes. The clock does not advance.
    pub fn reap_dead_processes(&self) -> Result<(), DeviceError> {
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
                // Another process may have reaped it meanwhile, and the slot may have a new owner.
                if state.processes.rows[slot as usize].pid == pid {
                    lifecycle::reap(state, &self.rules, slot);
                    // Before the slot gets a new owner with events of its own.
                    self.shared.free_events_of(slot);
                }
                simulation::settle(state, side as &dyn Queues, &self.rules);
                virtual_time::advance(state, side, &self.rules)
            })?;
            self.pass_on(granted);
            self.shared.notify_change();
        }
        Ok(())
    }

    fn pass_on(&self, granted: Result<usize, Held>) {
        if let Ok(index) = granted {
            crash::pass(Place::Granted);
            self.shared.wake(index);
        }
    }
}
