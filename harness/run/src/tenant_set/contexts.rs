//! Opening and closing the contexts of tenants, and what each checks once its context is open.

use std::time::Duration;

use gpubench_host::mechanism::OverLimit;
use gpubench_host::tenant::TenantError;
use gpubench_record::probe::step::{Step, TraceTimeSlices};
use gpubench_record::{Condition, FromTenant, RefusalKind, TimePart, ToTenant};

use super::{CONTEXT, TenantSet, name_of, note_end, participants_of};
use crate::RunError;

/// Wait for a user's program beyond the time in which it must be ready: the tenant that starts it
/// reports itself that the program is late.
const PROGRAM_MORE: Duration = Duration::from_secs(30);

/// How long the time slices of two tenants are traced. In virtual time every read of the clock
/// costs the interpreter time.
const TRACE_NS: u64 = 100_000_000;
const TRACE_VIRTUAL_NS: u64 = 12_000_000;
/// Reads of the clock further apart than this are a gap, as in the probe `time-slice-trace`.
const TRACE_THRESHOLD_NS: u64 = 10_000;

impl TenantSet {
    /// Opens and closes contexts as a condition needs them: native cells have only the victim's.
    pub async fn arrange(&mut self, condition: Condition) -> Result<(), RunError> {
        self.ensure().await?;
        if self.config.admits_one_tenant {
            return self.attempt_access().await;
        }
        let (count, wanted) =
            (self.slots.len(), if condition.is_native() { 1 } else { usize::MAX });
        self.set_open(wanted.min(count)..count, false).await?;
        self.set_open(0..wanted.min(count), true).await?;
        if self.config.refuses_outsiders && !condition.is_native() {
            self.attempt_as_outsider().await?;
        }
        if self.config.checks.time_slices && !condition.is_native() {
            self.trace_time_slices().await?;
        }
        Ok(())
    }

    /// Has victim and neighbour run a kernel at the same time, once for each pair of processes.
    async fn trace_time_slices(&mut self) -> Result<(), RunError> {
        const DOING: &str = "tracing its time slices";
        if self.observations.iter().take(2).all(|one| one.spans_ns.is_some()) {
            return Ok(());
        }
        let is_virtual = self.handles.setup.clock.is_virtual();
        let watch_ns = if is_virtual { TRACE_VIRTUAL_NS } else { TRACE_NS };
        let trace = TraceTimeSlices { watch_ns, threshold_ns: TRACE_THRESHOLD_NS };
        let message = |slot| (slot, ToTenant::Probe { step: trace.into_step() }, CONTEXT);
        let answers = self.ask_all(vec![message(0), message(1)], DOING).await?;
        for (slot, answer) in answers.into_iter().enumerate() {
            let reply = match answer? {
                FromTenant::Probed { reply } => TraceTimeSlices::reply(reply),
                other => return Err(self.unexpected(slot, &other)),
            };
            let traced = reply.map_err(|reply| {
                let reply = *reply;
                self.unexpected(slot, &FromTenant::Probed { reply })
            })?;
            let now_ns = self.handles.now_ns().await?;
            self.observations[slot].spans_ns = Some(traced.spans_ns);
            self.observations[slot].checked_at_ns = Some(now_ns);
        }
        Ok(())
    }

    pub async fn open_only(&mut self, slot: usize) -> Result<(), RunError> {
        let others = (0..self.slots.len()).filter(|&other| other != slot);
        self.set_open(others, false).await?;
        self.set_open([slot], true).await
    }

    /// Closes every context.
    pub async fn close(&mut self) -> Result<(), RunError> {
        self.set_open(0..self.slots.len(), false).await
    }

    /// Opens or closes the contexts of these slots, all at the same time. Threads of one process
    /// come one after the other: the first makes the context of all.
    async fn set_open(
        &mut self,
        slots: impl IntoIterator<Item = usize>,
        open: bool,
    ) -> Result<(), RunError> {
        let mut slots: Vec<usize> = slots.into_iter().collect();
        slots.retain(|&slot| self.slots[slot].as_ref().is_some_and(|one| one.is_open() != open));
        if slots.is_empty() {
            return Ok(());
        }
        let before = self.handles.spend_step(TimePart::Contexts).await;
        let at_once = if self.config.inside.is_empty() { slots.len() } else { 1 };
        for slots in slots.chunks(at_once) {
            let messages = slots.iter().map(|&slot| self.message(slot, open)).collect();
            let answers = self.ask_all(messages, "opening or closing its context").await?;
            let mut done = Ok(());
            for (&slot, answer) in slots.iter().zip(answers) {
                let one = self.is_set(slot, open, answer).await;
                done = done.and(one);
            }
            done?;
        }
        self.handles.spend(before).await;
        Ok(())
    }

    /// The message that opens or closes a slot's context, and the limit of its answer.
    fn message(&self, slot: usize, open: bool) -> (usize, ToTenant, Duration) {
        let ready_ns = self.user_victim(slot).map(|program| program.ready_ns);
        let limit = ready_ns.map_or(CONTEXT, |ns| Duration::from_nanos(ns) + PROGRAM_MORE);
        if !open {
            return (slot, ToTenant::Close, limit);
        }
        let message = ToTenant::Open {
            ordinal: 0,
            // The victim spins for its completions, which are measured. Neighbours block, because
            // they would use the victim's core.
            spin: slot == 0,
            participants: participants_of(slot),
            inside: self.config.inside.get(slot).copied(),
        };
        (slot, message, limit)
    }

    /// Takes the answer to that message.
    async fn is_set(
        &mut self,
        slot: usize,
        open: bool,
        answer: Result<FromTenant, RunError>,
    ) -> Result<(), RunError> {
        let answer = match answer {
            // The end of its process closes a context that cannot be closed otherwise.
            Err(RunError::Tenant(error @ TenantError::Refused { .. })) if !open => {
                if let Some(tenant) = self.slots[slot].take() {
                    note_end(&self.handles, tenant, &error).await?;
                }
                return Ok(());
            }
            // A dead tenant has no context.
            Err(RunError::Tenant(TenantError::Ended { .. })) if !open => return Ok(()),
            answer => answer?,
        };
        match answer {
            FromTenant::Opened { facts } if open => {
                if self.user_victim(slot).is_some() {
                    // A user's program reports nothing about the device.
                    return Ok(());
                }
                // Under a mechanism a tenant may see a part of the device.
                if self.config.mechanism.is_none() {
                    self.handles.complete_identity(&facts);
                }
                self.observations[slot].facts = facts;
                self.observations[slot].opened_at_ns = Some(self.handles.now_ns().await?);
                self.check(slot).await
            }
            FromTenant::Closed if !open => Ok(()),
            other => Err(self.unexpected(slot, &other)),
        }
    }

    /// Opens the victim's context, and has every neighbour request one. A neighbour that gets one
    /// closes it again.
    async fn attempt_access(&mut self) -> Result<(), RunError> {
        self.open_only(0).await?;
        self.access_attempts.clear();
        for slot in 1..self.slots.len() {
            let answer = match self.set_open([slot], true).await {
                Ok(()) => None,
                Err(RunError::Tenant(TenantError::Refused {
                    kind: RefusalKind::Driver { code },
                    ..
                })) => Some(code),
                Err(error) => return Err(error),
            };
            self.set_open([slot], false).await?;
            self.access_attempts.push((name_of(slot), answer));
        }
        self.attempted_at_ns = Some(self.handles.now_ns().await?);
        Ok(())
    }

    /// Does the checks of the mechanism, once for each tenant process.
    async fn check(&mut self, slot: usize) -> Result<(), RunError> {
        let checks = self.config.checks;
        if checks.sm_placement && self.observations[slot].sm_placement.is_none() {
            let message = ToTenant::FindSms;
            let answer = self.ask(slot, &message, "counting its SMs", CONTEXT).await;
            match answer {
                Ok(FromTenant::FoundSms { sms }) => {
                    self.observations[slot].sm_placement = Some(sms)
                }
                // The proof then rests on the other evidence.
                Err(RunError::Tenant(error @ TenantError::Refused { .. })) => {
                    self.handles.recorder.warning(error.to_string())?;
                    self.observations[slot].sm_placement = Some(Vec::new());
                }
                Ok(other) => return Err(self.unexpected(slot, &other)),
                Err(error) => return Err(error),
            }
        }
        if let Some(bytes) = checks.over_limit_bytes
            && self.observations[slot].over_limit.is_none()
        {
            let message = ToTenant::TryAllocate { bytes };
            let doing = "allocating beyond its limit";
            match self.ask(slot, &message, doing, CONTEXT).await? {
                FromTenant::Tried { refused_with } => {
                    self.observations[slot].over_limit = Some(OverLimit { bytes, refused_with });
                }
                other => return Err(self.unexpected(slot, &other)),
            }
        }
        let now_ns = self.handles.now_ns().await?;
        self.observations[slot].checked_at_ns.get_or_insert(now_ns);
        Ok(())
    }
}
