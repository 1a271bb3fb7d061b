//! A thread as a participant of the clock: joining, leaving, local time, sleeping and parking.

use std::cell::Cell;
use std::time::Duration;

use super::{Device, DeviceError};
use crate::host_process;
use gpubench_virtual_gpu_model::noise::{self, Kind};
use gpubench_virtual_gpu_model::state::{
    Condition, NONE, PARTICIPANTS, Participant, ParticipantStatus,
};
use gpubench_virtual_gpu_model::{simulation, virtual_time};

/// How far a thread may run ahead of the model.
const AHEAD_NS: u64 = 1_000_000;

/// Longest time that one caller holds the lock of the driver.
const LOCK_HOLD_NS: u64 = 1_000_000;

/// The calling thread as a participant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Me {
    pub participant: usize,
    pub local_ns: u64,
    pub granted_ns: u64,
}

thread_local! {
    pub(super) static ME: Cell<Option<Me>> = const { Cell::new(None) };
}

impl Device {
    /// Announces a participant: the clock stands still until it has joined or was abandoned.
    pub fn expect(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        self.shared.transact(|state, _| {
            let used = &mut state.participants.used;
            while (*used as usize) <= index {
                state.participants.rows[*used as usize] = Participant::default();
                *used += 1;
            }
            let participant = &mut state.participants.rows[index];
            if participant.status != ParticipantStatus::Free {
                return Err(DeviceError::NotExpected(id));
            }
            *participant = Participant {
                status: ParticipantStatus::Expected,
                process: NONE,
                ready_ns: state.now_ns,
                ..Participant::default()
            };
            Ok(())
        })?
    }

    /// Cancels an announcement: the thread will not join.
    pub fn abandon(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        let granted = self.shared.transact(|state, side| {
            if state.participants.rows[index].status == ParticipantStatus::Expected {
                state.participants.rows[index] = Participant::default();
            }
            virtual_time::advance(state, side, &self.rules)
        })?;
        self.pass_on(granted);
        Ok(())
    }

    /// Makes the calling thread the announced participant `id`, and waits until it may run.
    pub fn join(&self, id: u32) -> Result<(), DeviceError> {
        let index = slot_of(id)?;
        let process = self.process()?;
        host_process::pin_to(self.session.core);
        let tid = host_process::own_tid();
        let ready_ns = self.shared.transact(|state, _| {
            let participant = &mut state.participants.rows[index];
            if participant.status != ParticipantStatus::Expected {
                return Err(DeviceError::NotExpected(id));
            }
            participant.status = ParticipantStatus::Running;
            participant.process = process;
            participant.tid = tid;
            Ok(participant.ready_ns.max(state.now_ns))
        })??;
        ME.set(Some(Me { participant: index, local_ns: ready_ns, granted_ns: ready_ns }));
        self.wait(Condition::Time, 0, 0, ready_ns)
    }

    /// Leaves the clock at the thread's local time.
    pub fn leave(&self) -> Result<(), DeviceError> {
        let Some(me) = ME.get() else { return Ok(()) };
        self.catch_up()?;
        ME.set(None);
        let granted = self.shared.transact(|state, side| {
            state.participants.rows[me.participant] = Participant::default();
            virtual_time::advance(state, side, &self.rules)
        })?;
        self.pass_on(granted);
        Ok(())
    }

    /// The time of the calling thread, or else of the device. The query itself costs host time.
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

    /// As [`Device::now_ns`], at no cost.
    pub fn present_ns(&self) -> Result<u64, DeviceError> {
        match ME.get() {
            _ if !self.is_virtual_time() => Ok(self.session.wall_now_ns()),
            Some(me) => Ok(me.local_ns),
            None => Ok(self.shared.read(|state| state.now_ns)?),
        }
    }

    /// Charges the calling thread for host work; no thread may run too far ahead of the others.
    pub fn charge(&self, cost_ns: u64) -> Result<(), DeviceError> {
        if ME.get().is_none() {
            return Ok(());
        }
        self.spend(self.noisy(cost_ns)?)
    }

    /// The cost of a call with the planted noise.
    fn noisy(&self, cost_ns: u64) -> Result<u64, DeviceError> {
        let sd = self.machine.noise.call;
        if sd == 0.0 {
            return Ok(cost_ns);
        }
        let call = ME.get().map_or_else(
            || self.session.wall_now_ns(),
            |me| me.local_ns ^ ((me.participant as u64) << 48),
        );
        let seed = self.shared.read(|state| state.seed)?;
        Ok(noise::spread_ns(cost_ns, sd, seed, Kind::Call, call))
    }

    /// Advances the calling thread's time.
    fn spend(&self, cost_ns: u64) -> Result<(), DeviceError> {
        let Some(mut me) = ME.get() else { return Ok(()) };
        me.local_ns += cost_ns.max(1);
        ME.set(Some(me));
        if me.local_ns > me.granted_ns + AHEAD_NS { self.catch_up() } else { Ok(()) }
    }

    /// Charges the calling thread for a call of the driver. The share of it that the machine file
    /// names is spent under the driver's lock, in pieces, so that other callers can run in between.
    /// In wall time the thread sleeps for that share.
    pub fn charge_locked(&self, cost_ns: u64) -> Result<(), DeviceError> {
        if self.is_virtual_time() && ME.get().is_none() {
            return Ok(());
        }
        let cost_ns = self.noisy(cost_ns)?;
        let mut locked_ns = (cost_ns as f64 * self.machine.host.lock_share) as u64;
        let free_ns = cost_ns.saturating_sub(locked_ns);
        if free_ns > 0 {
            self.spend(free_ns)?;
        }
        while locked_ns > 0 {
            let piece_ns = locked_ns.min(LOCK_HOLD_NS);
            let (now_ns, end_ns) = self.transact(|state, _| {
                let end_ns = state.now_ns.max(state.driver_busy_until_ns) + piece_ns;
                state.driver_busy_until_ns = end_ns;
                (state.now_ns, end_ns)
            })?;
            if self.is_virtual_time() {
                self.spend(end_ns - now_ns)?;
            } else {
                let until_ns = end_ns.saturating_sub(self.session.wall_now_ns());
                std::thread::sleep(Duration::from_nanos(until_ns));
            }
            locked_ns -= piece_ns;
        }
        Ok(())
    }

    /// Waits until the model has reached the thread's local time, so that the next read includes
    /// the effects of all earlier events.
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
                    simulation::run_until(state, side, &self.rules, now);
                })?;
                Ok(())
            }
        }
    }

    /// Sleeps until an instant on the clock.
    pub fn sleep_until(&self, t_ns: u64) -> Result<(), DeviceError> {
        let me = ME.get().ok_or_else(not_joined)?;
        self.wait(Condition::Time, 0, 0, t_ns.max(me.local_ns))
    }

    /// Waits for another participant's [`Device::unpark`]; returns at once after an earlier one.
    pub fn park(&self) -> Result<(), DeviceError> {
        let me = ME.get().ok_or_else(not_joined)?;
        self.wait(Condition::Unpark, 0, 0, me.local_ns)
    }

    /// Ends the park of participant `id`, not before the caller's local time.
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
}

pub(super) fn slot_of(id: u32) -> Result<usize, DeviceError> {
    let index = id as usize;
    if index < PARTICIPANTS { Ok(index) } else { Err(DeviceError::NotExpected(id)) }
}

pub(super) fn not_joined() -> DeviceError {
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    DeviceError::NotJoined(name)
}
