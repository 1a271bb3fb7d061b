//! Waits for the clock, a stream, a context, or room in a queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::{ME, Me, not_joined};
use super::{Device, DeviceError};
use crate::stall;
use gpubench_virtual_gpu_model::state::{Condition, Participant, ParticipantStatus};
use gpubench_virtual_gpu_model::{simulation, virtual_time};

/// How often a waiter checks whether the other processes are alive.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Device {
    /// Waits until a stream has completed everything up to `seq`.
    pub fn wait_stream(&self, stream: u32, seq: u64) -> Result<(), DeviceError> {
        self.wait_for(Condition::Stream, stream, seq)
    }

    /// Waits until every stream of a context is idle.
    pub fn wait_context(&self, context: u32) -> Result<(), DeviceError> {
        self.wait_for(Condition::Context, context, 0)
    }

    pub(super) fn wait_for(
        &self,
        condition: Condition,
        target: u32,
        seq: u64,
    ) -> Result<(), DeviceError> {
        match ME.get() {
            Some(me) => self.wait(condition, target, seq, me.local_ns),
            None if self.is_virtual_time() => self.check_without_waiting(condition, target, seq),
            None => self.wait_in_wall_time(condition, target, seq),
        }
    }

    /// A thread that has not joined the clock can check a condition, but cannot wait for it.
    fn check_without_waiting(
        &self,
        condition: Condition,
        target: u32,
        seq: u64,
    ) -> Result<(), DeviceError> {
        let probe = Participant { condition, target, seq, ..Participant::default() };
        if self.shared.read(|state| virtual_time::holds(state, &probe))? {
            Ok(())
        } else {
            Err(not_joined())
        }
    }

    /// Waits in virtual time for a condition, not before `ready_ns`.
    pub(super) fn wait(
        &self,
        condition: Condition,
        target: u32,
        seq: u64,
        ready_ns: u64,
    ) -> Result<(), DeviceError> {
        let mut me = ME.get().ok_or_else(not_joined)?;
        let word = self.shared.word(me.participant);
        let granted = self.shared.transact(|state, side| {
            let participant = &mut state.participants.rows[me.participant];
            participant.status = ParticipantStatus::Waiting;
            participant.condition = condition;
            participant.target = target;
            participant.seq = seq;
            participant.ready_ns = match condition {
                // An unpark may have moved it already.
                Condition::Unpark => participant.ready_ns.max(ready_ns),
                _ => ready_ns,
            };
            let granted = virtual_time::advance(state, side, &self.rules);
            (granted, state.now_ns)
        })?;
        let at = match granted {
            (Ok(index), now_ns) if index == me.participant => now_ns,
            (other, _) => {
                self.pass_on(other);
                self.sleep_until_granted(&me, word)?
            }
        };
        me.granted_ns = at;
        me.local_ns = at;
        ME.set(Some(me));
        Ok(())
    }

    fn sleep_until_granted(&self, me: &Me, mut word: u32) -> Result<u64, DeviceError> {
        let participant = me.participant;
        let mut watch = stall::Watch::new(self.session.stall);
        loop {
            self.shared.sleep(participant, word, CHECK_INTERVAL);
            word = self.shared.word(participant);
            let (own, transactions) = self
                .shared
                .read(|state| (state.participants.rows[participant], state.transactions))?;
            match own.status {
                ParticipantStatus::Running => return Ok(own.granted_ns),
                ParticipantStatus::Waiting => {}
                ParticipantStatus::Free | ParticipantStatus::Expected => {
                    return Err(DeviceError::Stalled(format!(
                        "participant {participant} was removed as dead while it waited"
                    )));
                }
            }
            if watch.is_late() {
                self.reap_dead_processes()?;
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
            let change = self.shared.change();
            let now = self.session.wall_now_ns();
            let (met, next) = self.shared.transact(|state, side| {
                simulation::run_until(state, side, &self.rules, now);
                (virtual_time::holds(state, &probe), simulation::next_event_ns(state, side))
            })?;
            if met {
                return Ok(());
            }
            let until = Duration::from_nanos(next.saturating_sub(self.session.wall_now_ns()));
            self.shared.sleep_on_change(change, until.min(CHECK_INTERVAL));
            self.reap_dead_processes_at_intervals()?;
        }
    }

    /// Ends the work of dead processes while the device is busy, at most once per interval.
    fn reap_dead_processes_at_intervals(&self) -> Result<(), DeviceError> {
        static CHECKED_NS: AtomicU64 = AtomicU64::new(0);
        let (now, last) = (self.session.wall_now_ns(), CHECKED_NS.load(Ordering::Relaxed));
        if u128::from(now.saturating_sub(last)) < CHECK_INTERVAL.as_nanos() {
            return Ok(());
        }
        CHECKED_NS.store(now, Ordering::Relaxed);
        self.reap_dead_processes()
    }
}
