//! The tenants under one mechanism: their processes, and which contexts are open.
//!
//! [`processes`] starts and ends them, also those without a slot, [`contexts`] opens and closes
//! contexts, and [`exchange`] sends messages and takes answers.

mod contexts;
mod exchange;
mod processes;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use gpubench_host::device::meters::{MeterScope, Metered};
use gpubench_host::mechanism::{
    InForce, Mechanism, MechanismContext, OpeningChecks, PRIORITY, TenantEnv, TenantObservation,
};
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::Meter;
use gpubench_record::user_victim::{Reports, UserVictim};
use gpubench_record::wire::{Inside, Participants};

use super::RunHandles;
use super::observe::SnapshotScope;
use crate::observe;

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
    /// Processes whose limiter lets launches pass.
    settled: BTreeSet<u32>,
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
    /// Its variant.
    pub variant: String,
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
            settled: BTreeSet::new(),
            access_attempts: Vec::new(),
            attempted_at_ns: None,
            outsider: None,
            config,
        }
    }

    pub const fn config(&self) -> &TenantConfig {
        &self.config
    }

    /// The context of their mechanism, with the options of its variant.
    pub fn context(&self) -> MechanismContext<'_> {
        let host = &self.handles.setup.host;
        let mechanism = self.config.mechanism;
        mechanism.map_or(host.context(), |m| host.context_of(m.name(), &self.config.variant))
    }

    /// The components of the run that the set uses.
    pub const fn handles(&self) -> &RunHandles {
        &self.handles
    }

    pub fn is_open(&self) -> bool {
        self.slots.iter().flatten().any(Tenant::is_open)
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

    /// The process of a slot.
    pub fn pid(&self, slot: usize) -> Option<u32> {
        self.slots.get(slot)?.as_ref().map(Tenant::pid)
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

pub fn missing(slot: usize) -> TenantError {
    TenantError::Ended { tenant: name_of(slot), how: "before the message".to_owned() }
}

// What tenants report beside their samples: facts of each once its context is open, and the
// answers to access attempts.

impl TenantSet {
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
        let (set_up, meters) = (self.config.set_up.clone(), self.meter_scope());
        SnapshotScope { set_up, mapped_of, program_of, meters }
    }

    fn meter_scope(&self) -> MeterScope {
        let reads = |meter| self.handles.setup.plan.meters.contains(&meter);
        let slots = self.slots.iter().enumerate();
        let open = slots.filter_map(|(slot, one)| Some((slot, one.as_ref()?)));
        let tenants = open.filter(|(_, tenant)| tenant.is_open());
        MeterScope {
            energy: reads(Meter::Energy),
            utilisation: reads(Meter::Utilisation),
            tenants: tenants
                .map(|(slot, tenant)| Metered {
                    tenant: tenant.name().to_owned(),
                    pid: tenant.pid(),
                    instance: self.config.set_up.instance_id(slot),
                })
                .collect(),
        }
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
}
