//! Messages to tenants and their answers.

use std::time::Duration;

use gpubench_host::mechanism::Mechanism;
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::{
    Calibration, Cell, FromTenant, OutputCheck, Role, TenantResult, ToTenant, WorkloadSpec,
};
use tokio::task::JoinSet;

use super::{DIGEST, TenantSet, missing, name_of, note_end};
use crate::RunError;
use crate::sampler::{SAMPLER, Sampled, Sampler, Times};

impl TenantSet {
    /// Sends a message to a slot and waits for the answer. A tenant that ends leaves its slot
    /// empty.
    pub async fn ask(
        &mut self,
        slot: usize,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, RunError> {
        Ok(self.ask_sampled(slot, message, doing, limit, None).await?.0)
    }

    /// The same, with what a sampler reads meanwhile at these instants, counted from now.
    pub async fn ask_sampled(
        &mut self,
        slot: usize,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
        times: Option<Times>,
    ) -> Result<(FromTenant, Sampled), RunError> {
        let Some(mut tenant) = self.slots[slot].take() else { return Err(missing(slot).into()) };
        let handles = self.handles.clone();
        let sampler = times.map(|_| SAMPLER);
        handles.expect([tenant.participants().issuer].into_iter().chain(sampler).collect()).await?;
        let sampler = match times {
            Some(times) => {
                let times = Times { t0_ns: handles.now_ns().await?, ..times };
                let (setup, scope) = (&handles.setup, self.snapshot_scope());
                Some(Sampler::start(&setup.clock, &setup.nvml, doing, times, scope)?)
            }
            None => None,
        };
        let answer = handles.waits.answer(&mut tenant, Some(message), doing, limit).await;
        let sampled = match sampler {
            Some(sampler) => sampler.finish().await,
            None => Sampled::default(),
        };
        Ok((self.answered(slot, tenant, answer).await?, sampled))
    }

    /// The same for several slots at the same time. The answers are in the order of the messages.
    pub(super) async fn ask_all(
        &mut self,
        messages: Vec<(usize, ToTenant, Duration)>,
        doing: &'static str,
    ) -> Result<Vec<Result<FromTenant, RunError>>, RunError> {
        let handles = self.handles.clone();
        let members = messages.into_iter().map(|(slot, message, limit)| {
            let tenant = self.slots[slot].take().ok_or_else(|| missing(slot))?;
            Ok((slot, tenant, message, limit))
        });
        let members: Vec<_> = members.collect::<Result<_, TenantError>>()?;
        handles
            .expect(members.iter().map(|(_, one, ..)| one.participants().issuer).collect())
            .await?;
        let mut waiting = JoinSet::new();
        let mut answers: Vec<_> = members.iter().map(|(slot, ..)| (*slot, None)).collect();
        for (slot, mut tenant, message, limit) in members {
            let own = handles.waits.clone();
            waiting.spawn(async move {
                let answer = own.answer(&mut tenant, Some(&message), doing, limit).await;
                (slot, tenant, answer)
            });
        }
        while let Some(done) = waiting.join_next().await {
            let Ok((slot, tenant, answer)) = done else {
                // A wait that panicked has dropped its tenant, which kills the process.
                handles.reap().await?;
                continue;
            };
            // At once: until then the clock of the others waits for it.
            let answer = self.answered(slot, tenant, answer).await;
            if let Some(own) = answers.iter_mut().find(|(one, _)| *one == slot) {
                own.1 = Some(answer);
            }
        }
        let lost = |slot| Err(missing(slot).into());
        Ok(answers.into_iter().map(|(slot, one)| one.unwrap_or_else(|| lost(slot))).collect())
    }

    /// Takes the answer of a tenant and puts the tenant back, if it lives.
    async fn answered(
        &mut self,
        slot: usize,
        tenant: Tenant,
        answer: Option<Result<FromTenant, TenantError>>,
    ) -> Result<FromTenant, RunError> {
        let handles = self.handles.clone();
        let Some(answer) = answer else {
            let error = TenantError::Ended {
                tenant: name_of(slot),
                how: "stopped by the coordinator when the user stopped the run".to_owned(),
            };
            note_end(&handles, tenant, &error).await?;
            return Err(RunError::Interrupted);
        };
        // A tenant that answered without using the device has not joined the clock.
        handles.abandon(tenant.participants()).await?;
        match answer {
            Ok(answer) => {
                self.slots[slot] = Some(tenant);
                Ok(answer)
            }
            Err(error @ TenantError::Refused { .. }) => {
                self.slots[slot] = Some(tenant);
                Err(error.into())
            }
            Err(error) => {
                note_end(&handles, tenant, &error).await?;
                Err(error.into())
            }
        }
    }

    /// The output of a tenant after its last cell or, with a workload, after one cycle of requests.
    /// One tenant at a time: a digest takes bandwidth from all others.
    pub async fn output_of(
        &mut self,
        slot: usize,
        workload: Option<&WorkloadSpec>,
    ) -> Result<OutputCheck, RunError> {
        let message = ToTenant::Digest { workload: workload.cloned() };
        match self.ask(slot, &message, "digesting its output", DIGEST).await? {
            FromTenant::Digested { output } => Ok(output),
            other => Err(self.unexpected(slot, &other)),
        }
    }

    /// Has each new process under a library that counts launches issue its first ones: HAMi-core
    /// lets none pass until it fills its bucket, 120 ms after the first (`rate_limiter`,
    /// `utilization_watcher`), and a cell would begin with a tenant that waits.
    pub async fn settle(&mut self, calibration: &Calibration, cell: &Cell) -> Result<(), RunError> {
        let counts = |mechanism: &dyn Mechanism| mechanism.entry().accounting_library;
        if !self.config.mechanism.is_some_and(counts) {
            return Ok(());
        }
        for (slot, tenant) in cell.tenants.iter().enumerate() {
            let entry = tenant.workload.as_ref().and_then(|name| calibration.entries.get(name));
            let process = self.slots[slot].as_ref().filter(|one| one.is_open()).map(Tenant::pid);
            let (Some(entry), Some(pid)) = (entry, process) else { continue };
            if self.user_victim(slot).is_none() && self.settled.insert(pid) {
                // The first launch passes, and the second one waits for the bucket.
                self.output_of(slot, Some(&entry.spec)).await?;
                self.output_of(slot, Some(&entry.spec)).await?;
            }
        }
        Ok(())
    }

    /// Adds the outputs to the results of tenants that lived to the end, each beside that of the
    /// same work alone. A victim that ends meanwhile is the failure that is returned.
    pub async fn add_outputs(
        &mut self,
        calibration: &Calibration,
        results: &mut [TenantResult],
    ) -> Result<Option<String>, RunError> {
        let mut failure = None;
        for (slot, result) in results.iter_mut().enumerate() {
            let workload = result.identity.as_ref().map(|identity| &identity.workload.name);
            let Some(workload) = workload.filter(|_| result.death.is_none()) else { continue };
            let mut output = match self.output_of(slot, None).await {
                Ok(output) => output,
                // The user stopped the run: the cell has its samples, and no outputs.
                Err(RunError::Interrupted) => return Ok(failure),
                Err(RunError::Tenant(error)) => {
                    if error.kind().is_none() && result.planned.role == Role::Victim {
                        failure.get_or_insert(error.to_string());
                    }
                    OutputCheck { unread: Some(error.to_string()), ..OutputCheck::default() }
                }
                Err(other) => return Err(other),
            };
            let alone = calibration.outputs.get(workload);
            output.alone = alone.and_then(|alone| alone.digest.clone());
            result.output = Some(output);
        }
        Ok(failure)
    }

    pub fn unexpected(&self, slot: usize, answer: &FromTenant) -> RunError {
        match &self.slots[slot] {
            Some(tenant) => tenant.unexpected(answer).into(),
            None => missing(slot).into(),
        }
    }

    /// Removes tenants from their slots, to wait for all of them at the same time.
    pub fn take_slots(&mut self, slots: &[usize]) -> Vec<(usize, Tenant)> {
        slots.iter().filter_map(|&slot| Some((slot, self.slots[slot].take()?))).collect()
    }

    pub fn put_back(&mut self, slot: usize, tenant: Tenant) {
        self.slots[slot] = Some(tenant);
    }

    /// Writes a tenant's answer to a start and puts the tenant back. Any answer but `Done` ends the
    /// tenant and is returned as an error, because only the state of a new process is known.
    pub async fn record_answer(
        &mut self,
        slot: usize,
        tenant: Tenant,
        answer: Result<FromTenant, TenantError>,
        result: &mut TenantResult,
    ) -> Result<Option<TenantError>, RunError> {
        let error = match answer {
            Ok(FromTenant::Done { rows, unlogged, overloaded, sched, reaper_sched, cpu_gaps }) => {
                result.rows = rows;
                result.unlogged = unlogged;
                result.overloaded = overloaded;
                result.sched = Some(sched);
                result.reaper_sched = reaper_sched;
                result.cpu_gaps = cpu_gaps;
                self.put_back(slot, tenant);
                return Ok(None);
            }
            Ok(other) => tenant.unexpected(&other),
            Err(error) => error,
        };
        result.death = Some(note_end(&self.handles, tenant, &error).await?);
        Ok(Some(error))
    }
}
