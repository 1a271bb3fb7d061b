//! The tenants under one mechanism: their processes, and which contexts are open.
//!
//! [`processes`] starts and ends them, [`contexts`] opens and closes contexts, [`exchange`] sends
//! messages and takes answers, [`observations`] keeps what tenants report beside their samples, and
//! [`auxiliary`] and [`outsider`] have processes without a slot.

mod exchange;
mod processes;

use std::ffi::OsStr;
use std::time::Duration;

use gpubench_host::mechanism::{
    InForce, Mechanism, OpeningChecks, OverLimit, PRIORITY, TenantEnv, TenantObservation,
};
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::user_victim::{Reports, UserVictim};
use gpubench_record::wire::{Inside, Participants};
use gpubench_record::{Condition, FromTenant, RefusalKind, ToTenant};

use super::RunHandles;
use super::observe::SnapshotScope;
use crate::{RunError, observe};

pub use processes::{ask_auxiliary, note_end, stop};

/// Longest wait for a context to open or close.
const CONTEXT: Duration = Duration::from_secs(60);
/// Longest wait for a digest.
const DIGEST: Duration = Duration::from_secs(60);

/// The victim and its neighbours, in order; a slot is empty after a death.
pub struct TenantSet {
    handles: RunHandles,
    slots: Vec<Option<Tenant>>,
    /// What each tenant reported since it was started.
    observations: Vec<TenantObservation>,
    /// Attempts to get a context beside the victim's, and the answers.
    access_attempts: Vec<(String, Option<i32>)>,
    attempted_at_ns: Option<u64>,
    /// A process that is no tenant, where the mechanism refuses outsiders.
    outsider: Option<Tenant>,
    config: TenantConfig,
}

/// How the tenants of a set are started.
pub struct TenantConfig {
    /// The mechanism; `None` for tenants without one.
    pub mechanism: Option<&'static dyn Mechanism>,
    pub set_up: InForce,
    pub environments: Vec<TenantEnv>,
    /// What each reports once its context is open.
    pub checks: OpeningChecks,
    /// The share of each in the one process of all; empty where each tenant is a process.
    pub inside: Vec<Inside>,
    /// Whether only the victim gets a context and every other attempt is refused.
    pub admits_one_tenant: bool,
    /// Whether an outsider attempts to get a context while theirs are open.
    pub refuses_outsiders: bool,
}

/// Name of the tenant in a slot, as in plans.
#[must_use]
pub fn name_of(slot: usize) -> String {
    if slot == 0 { "victim".to_owned() } else { format!("neighbour-{slot}") }
}

/// The numbers of a slot's threads as participants of the clock, after those of the coordinator's
/// threads ([`super::sampler::SAMPLER`], [`super::fault_scheduler::FAULT_SCHEDULER`]).
pub fn participants_of(slot: usize) -> Participants {
    let first = 2 * u32::try_from(slot).unwrap_or(u32::MAX / 4) + 2;
    Participants { issuer: first, reaper: first + 1 }
}

impl TenantSet {
    /// A set without processes, with as many slots as there are environments.
    pub fn new(handles: RunHandles, config: TenantConfig) -> Self {
        let count = config.environments.len();
        Self {
            handles,
            slots: (0..count).map(|_| None).collect(),
            observations: vec![TenantObservation::default(); count],
            access_attempts: Vec::new(),
            attempted_at_ns: None,
            outsider: None,
            config,
        }
    }

    /// How the tenants are started.
    pub const fn config(&self) -> &TenantConfig {
        &self.config
    }

    /// The components of the run that the set uses.
    pub const fn handles(&self) -> &RunHandles {
        &self.handles
    }

    /// Process ids of the tenants with open contexts. For a user's program: those of its processes
    /// that are `listed`, or its own id if none is.
    pub fn open_pids(&self, listed: &[u32]) -> Vec<u32> {
        let open = self.slots.iter().flatten().filter(|t| t.is_open());
        let pids = |tenant: &Tenant| match tenant.program() {
            None => vec![tenant.pid()],
            Some(program) => {
                let mut pids = tenant.program_pids();
                pids.retain(|pid| listed.contains(pid));
                if pids.is_empty() {
                    pids.push(program);
                }
                pids
            }
        };
        open.flat_map(pids).collect()
    }

    /// The processes that stamp samples, by tenant: those of a user's program that reports its
    /// requests, and else the tenants with open contexts.
    pub fn stamping(&self) -> Vec<(String, u32)> {
        let reports = |program: &UserVictim| program.reports == Reports::Requests;
        let by_program = self.user_victim(0).is_some_and(reports);
        let open = self.slots.iter().flatten().filter(|t| t.is_open());
        let pids = |tenant: &Tenant| {
            let pids = match tenant.program() {
                Some(_) if by_program => tenant.program_pids(),
                _ => vec![tenant.pid()],
            };
            let name = tenant.name().to_owned();
            pids.into_iter().map(move |pid| (name.clone(), pid))
        };
        open.flat_map(pids).collect()
    }

    /// The processes of the user's program that is the victim, while it runs.
    pub fn program(&self) -> Option<Vec<u32>> {
        let tenant = self.slots.first()?.as_ref()?;
        tenant.program().map(|_| tenant.program_pids())
    }
}

// Opening and closing the contexts of tenants.

/// Wait for a user's program beyond the time in which it must be ready: the tenant that starts it
/// reports itself that the program is late.
const PROGRAM_MORE: Duration = Duration::from_secs(30);

impl TenantSet {
    /// Opens and closes contexts as a condition needs them: native cells have only the victim's.
    pub async fn arrange(&mut self, condition: Condition) -> Result<(), RunError> {
        self.ensure().await?;
        if self.config.admits_one_tenant {
            return self.attempt_access().await;
        }
        for slot in 0..self.slots.len() {
            let wanted = slot == 0 || !condition.is_native();
            self.set_open(slot, wanted).await?;
        }
        if self.config.refuses_outsiders && !condition.is_native() {
            self.attempt_as_outsider().await?;
        }
        Ok(())
    }

    pub async fn open_only(&mut self, slot: usize) -> Result<(), RunError> {
        for other in 0..self.slots.len() {
            if other != slot {
                self.set_open(other, false).await?;
            }
        }
        self.set_open(slot, true).await
    }

    pub async fn close(&mut self) -> Result<(), RunError> {
        for slot in 0..self.slots.len() {
            self.set_open(slot, false).await?;
        }
        Ok(())
    }

    async fn set_open(&mut self, slot: usize, open: bool) -> Result<(), RunError> {
        let Some(tenant) = &self.slots[slot] else {
            return Ok(());
        };
        if tenant.is_open() == open {
            return Ok(());
        }
        let message = if open {
            ToTenant::Open {
                ordinal: 0,
                // The victim spins for its completions, which are measured. Neighbours block,
                // because they would use the victim's core.
                spin: slot == 0,
                participants: tenant.participants(),
                inside: self.config.inside.get(slot).copied(),
            }
        } else {
            ToTenant::Close
        };
        let doing = "opening or closing its context";
        let ready_ns = self.user_victim(slot).map(|program| program.ready_ns);
        let limit = ready_ns.map_or(CONTEXT, |ns| Duration::from_nanos(ns) + PROGRAM_MORE);
        let answer = match self.ask(slot, &message, doing, limit).await {
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
                if ready_ns.is_some() {
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
}

/// The error for a slot without a tenant.
pub fn missing(slot: usize) -> TenantError {
    TenantError::Ended { tenant: name_of(slot), how: "before the message".to_owned() }
}

// What tenants report beside their samples: facts of each once its context is open, and the
// answers to access attempts.

impl TenantSet {
    /// Opens the victim's context, and has every neighbour request one. A neighbour that gets one
    /// closes it again.
    async fn attempt_access(&mut self) -> Result<(), RunError> {
        self.open_only(0).await?;
        self.access_attempts.clear();
        for slot in 1..self.slots.len() {
            let answer = match self.set_open(slot, true).await {
                Ok(()) => None,
                Err(RunError::Tenant(TenantError::Refused {
                    kind: RefusalKind::Driver { code },
                    ..
                })) => Some(code),
                Err(error) => return Err(error),
            };
            self.set_open(slot, false).await?;
            self.access_attempts.push((name_of(slot), answer));
        }
        self.attempted_at_ns = Some(self.handles.now_ns().await?);
        Ok(())
    }

    /// Attempts to get a context beside the victim's, by name, and the answers.
    pub fn access_attempts(&self) -> Vec<(String, Option<i32>)> {
        self.access_attempts.clone()
    }

    /// When the last of these attempts was answered.
    pub const fn attempted_at_ns(&self) -> Option<u64> {
        self.attempted_at_ns
    }

    /// What a snapshot of these tenants reads. The files of a process are read only where the
    /// mechanism preloads a library: the kernel locks the process's memory map meanwhile.
    pub fn snapshot_scope(&self) -> SnapshotScope {
        let preloads = |mechanism: &&dyn Mechanism| mechanism.entry().accounting_library;
        let open = self.slots.iter().flatten().filter(|tenant| tenant.is_open());
        let (programs, tenants): (Vec<&Tenant>, Vec<&Tenant>) =
            open.partition(|tenant| tenant.program().is_some());
        let (mapped_of, program_of) = if self.config.mechanism.as_ref().is_some_and(preloads) {
            (
                tenants.iter().map(|tenant| tenant.pid()).collect(),
                programs.first().map(|tenant| tenant.pid()),
            )
        } else {
            (Vec::new(), None)
        };
        SnapshotScope { set_up: self.config.set_up.clone(), mapped_of, program_of }
    }

    /// What the tenants with open contexts reported, the victim first. A user's program reports
    /// nothing.
    pub fn observations(&self) -> Vec<TenantObservation> {
        let reports = |tenant: &Tenant| tenant.is_open() && tenant.program().is_none();
        let open = |tenant: &Option<Tenant>| tenant.as_ref().is_some_and(reports);
        let all = self.slots.iter().zip(&self.observations);
        let all = all.zip(&self.config.environments);
        all.filter(|((tenant, _), _)| open(tenant))
            .map(|((tenant, observed), given)| TenantObservation {
                library_faults: tenant.as_ref().map_or_else(Vec::new, Tenant::library_faults),
                handed_instance: self.config.set_up.instance_id(observed.slot),
                visible_devices: given
                    .get(OsStr::new("CUDA_VISIBLE_DEVICES"))
                    .map(|name| name.to_string_lossy().into_owned()),
                priority: observe::variable(observed.pid, PRIORITY),
                ..observed.clone()
            })
            .collect()
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
