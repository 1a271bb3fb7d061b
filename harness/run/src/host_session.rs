//! The state of the host between cells, and its tenants.
//!
//! The plan orders cells so that the state of the host changes seldom. On a switch every tenant
//! ends, every change is restored and checked, and the next state is entered. Within one state each
//! mechanism has a tenant set, and only one set has open contexts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpubench_host::device::BlockingCall;
use gpubench_host::mechanism;
use gpubench_host::mechanism::host::{Guard, HostError, RealHost};
use gpubench_host::mechanism::{HostStage, InForce, Mechanism};
use gpubench_record::{Cell, FaultTrial, Outcome, TimePart};

use super::handles::MechanismLedger;
use super::tenant_set::{TenantConfig, TenantSet};
use super::{RunError, RunHandles, Setup};

pub struct HostSession {
    handles: RunHandles,
    stage: Option<HostStage>,
    set_up: InForce,
    guard: HostGuard,
    tenant_sets: BTreeMap<String, TenantSet>,
    /// For each group, the state in which tenants without a mechanism can run, if it has one.
    shared: BTreeMap<String, HostStage>,
    /// States that could not be entered, with the reason.
    refused: BTreeMap<HostStage, String>,
}

/// The mechanism of a cell or of a fault trial.
pub struct MechanismKey<'a> {
    pub mechanism: &'a str,
    pub variant: &'a str,
    pub group: &'a str,
}

impl<'a> From<&'a Cell> for MechanismKey<'a> {
    fn from(cell: &'a Cell) -> Self {
        Self { mechanism: &cell.mechanism, variant: &cell.variant, group: &cell.group }
    }
}

impl<'a> From<&'a FaultTrial> for MechanismKey<'a> {
    fn from(trial: &'a FaultTrial) -> Self {
        Self { mechanism: &trial.mechanism, variant: &trial.variant, group: &trial.group }
    }
}

/// The tenants of a cell, or why there are none.
pub type Ready<'a> = Result<&'a mut TenantSet, String>;

/// Key of the tenants that use the device without a mechanism.
const PLAIN: &str = "";

impl HostSession {
    /// A session without set-up or tenants.
    pub fn new(handles: RunHandles) -> Self {
        let setup = &handles.setup;
        let mut shared = BTreeMap::new();
        for cell in &setup.plan.cells {
            if let Some(stage) = setup.host.stage_of(&cell.mechanism, &cell.variant)
                && stage.allows_native
            {
                shared.insert(cell.group.clone(), stage);
            }
        }
        Self {
            stage: None,
            set_up: InForce::default(),
            guard: HostGuard::new(&handles),
            tenant_sets: BTreeMap::new(),
            shared,
            refused: BTreeMap::new(),
            handles,
        }
    }

    /// The tenants of a cell or trial, with the host as their mechanism needs it.
    pub async fn ready(
        &mut self,
        key: &MechanismKey<'_>,
        ledger: &mut MechanismLedger,
    ) -> Result<Ready<'_>, RunError> {
        let (native, wanted) = (self.is_native(key), self.wanted(key));
        if self.stage != wanted {
            self.switch(wanted.clone(), key.group, ledger).await?;
        }
        if let Some(stage) = &wanted
            && let Some(reason) = self.refused.get(stage)
        {
            // Native cells can run without a state that could not be entered.
            if !native {
                return Ok(Err(reason.clone()));
            }
        }
        let set = self.set_of(key);
        match (self.start(set, key.mechanism).await, wanted) {
            (Ok(()), _) => {}
            // The mechanism changes only the processes of its own tenants.
            (Err(RunError::Spawn(error)), Some(stage)) if !native => {
                let outcome = Outcome::failed(format!("no tenant could be started: {error}"));
                self.refuse(stage, &outcome, None, ledger)?;
                return Ok(Err(outcome.reason.unwrap_or_default()));
            }
            (Err(error), _) => return Err(error),
        }
        self.of(set).map(Ok)
    }

    /// The tenants that calibrate workloads, and the victim's share of the device that they see:
    /// the tenants without a mechanism. While MIG mode is on these do not exist, and the tenants of
    /// the first mechanism that can be set up calibrate, in their instances. `None` if no mechanism
    /// can be set up.
    pub async fn calibrating(
        &mut self,
        ledger: &mut MechanismLedger,
    ) -> Result<Option<(&mut TenantSet, f64)>, RunError> {
        let setup = Arc::clone(&self.handles.setup);
        let share = setup.plan.share;
        if setup.host.facts.mig != Some(true) {
            self.start(PLAIN, "").await?;
            return Ok(Some((self.of(PLAIN)?, share)));
        }
        let mut tried = BTreeSet::new();
        let mut found = None;
        for cell in &setup.plan.cells {
            if tried.insert(&cell.variant)
                && self.ready(&MechanismKey::from(cell), ledger).await?.is_ok()
            {
                found = Some(cell);
                break;
            }
        }
        let Some(cell) = found else { return Ok(None) };
        let instance = self.set_up.instances.first();
        let share = instance.map_or(share, |instance| {
            mechanism::share_of_instance(&setup.host.facts, instance, share)
        });
        self.handles.recorder.warning(format!(
            "MIG mode is on: workloads are calibrated under {}, the victim for {share:.3} of \
             its instance",
            cell.variant
        ))?;
        let tenants = self.ready(&MechanismKey::from(cell), ledger).await?;
        Ok(tenants.ok().map(|tenants| (tenants, share)))
    }

    fn of(&mut self, key: &str) -> Result<&mut TenantSet, RunError> {
        let missing = || RunError::Bug(format!("the tenants of {key:?} were never started"));
        self.tenant_sets.get_mut(key).ok_or_else(missing)
    }

    /// Starts a tenant set, the only one with open contexts.
    async fn start(&mut self, key: &str, mechanism: &str) -> Result<(), RunError> {
        for (other, tenants) in &mut self.tenant_sets {
            if other != key {
                tenants.close().await?;
            }
        }
        let tenants = self.tenant_sets.entry(key.to_owned()).or_insert_with(|| {
            let mechanism = mechanism::find(mechanism).filter(|_| key != PLAIN);
            let config = tenant_config(&self.handles.setup, mechanism, key, &self.set_up);
            TenantSet::new(self.handles.clone(), config)
        });
        tenants.ensure().await
    }

    async fn switch(
        &mut self,
        wanted: Option<HostStage>,
        group: &str,
        ledger: &mut MechanismLedger,
    ) -> Result<(), RunError> {
        self.leave().await?;
        let Some(stage) = wanted else { return Ok(()) };
        self.stage = Some(stage.clone());
        if self.refused.contains_key(&stage) {
            return Ok(());
        }
        let setup = &self.handles.setup;
        let mechanism = setup.plan.cells.iter().find_map(|cell| {
            let own = setup.host.stage_of(&cell.mechanism, &cell.variant);
            let here = own.as_ref() == Some(&stage) && cell.group == group;
            mechanism::find(&cell.mechanism).filter(|_| here)
        });
        let Some(mechanism) = mechanism else { return Ok(()) };
        let daemon = mechanism.entry().properties().mps_daemon;
        let before = self.handles.spend_step(part_of(daemon)).await;
        let entered = self.guard.enter(mechanism).await?;
        self.handles.spend(before).await;
        match entered {
            Ok(set_up) => self.set_up = set_up,
            // Without a journal no mechanism can be set up, so the run ends.
            Err(error @ HostError::Journal(_)) => return Err(error.into()),
            Err(error) => {
                self.guard.restore().await?;
                let remedy = match &error {
                    HostError::Refused(refused) => refused.remedy,
                    HostError::Journal(_) | HostError::NotRestored(_) => None,
                };
                let reason = format!("it could not be set up: {error}");
                let outcome = match remedy {
                    // The host does not allow it, and the remedy says what would.
                    Some(_) => Outcome::waived(reason),
                    None => Outcome::failed(reason),
                };
                self.refuse(stage, &outcome, remedy, ledger)?;
            }
        }
        Ok(())
    }

    /// Records that a state cannot be entered, for every mechanism of that state.
    fn refuse(
        &mut self,
        stage: HostStage,
        outcome: &Outcome,
        remedy: Option<&str>,
        ledger: &mut MechanismLedger,
    ) -> Result<(), RunError> {
        let reason = outcome.reason.clone().unwrap_or_default();
        let setup = &self.handles.setup;
        for planned in &setup.plan.mechanisms {
            let own = setup.host.stage_of(&planned.name, &planned.variant);
            if own.as_ref() == Some(&stage) {
                ledger.end(&planned.name, &planned.variant, outcome, remedy)?;
            }
        }
        let text = format!("{}: {reason}", stage.key);
        self.handles.recorder.warning(text)?;
        self.refused.insert(stage, reason);
        Ok(())
    }

    /// Ends every tenant, then restores the host and checks it, also after a tenant could not be
    /// ended.
    pub async fn leave(&mut self) -> Result<(), RunError> {
        let mut dismissed = Ok(());
        for (_, mut tenants) in std::mem::take(&mut self.tenant_sets) {
            dismissed = dismissed.and(tenants.dismiss().await);
        }
        self.stage = None;
        let left = std::mem::take(&mut self.set_up);
        let before = self.handles.spend_step(part_of(left.daemon.is_some())).await;
        self.guard.restore().await?;
        self.handles.spend(before).await;
        dismissed
    }
}

/// What the time of a change of the host is spent on.
const fn part_of(daemon: bool) -> TimePart {
    if daemon { TimePart::Daemons } else { TimePart::Switches }
}

/// How tenants under a mechanism are started.
fn tenant_config(
    setup: &Setup,
    mechanism: Option<&'static dyn Mechanism>,
    variant: &str,
    set_up: &InForce,
) -> TenantConfig {
    let context = mechanism
        .map_or_else(|| setup.host.context(), |one| setup.host.context_of(one.name(), variant));
    let slots = setup.plan.tenants.max(1) as usize;
    let environment = |slot| {
        mechanism
            .map_or_else(Default::default, |mechanism| mechanism.tenant_env(&context, set_up, slot))
    };
    let configuration = mechanism.map(|mechanism| mechanism.configuration(&context));
    let admits_one = |m: &dyn Mechanism| m.entry().properties().admits_one_tenant();
    TenantConfig {
        mechanism,
        variant: variant.to_owned(),
        set_up: set_up.clone(),
        environments: (0..slots).map(environment).collect(),
        checks: configuration.as_ref().map_or_else(Default::default, |c| c.checks),
        inside: mechanism.map_or_else(Vec::new, |m| m.entry().inside(slots)),
        admits_one_tenant: mechanism.is_some_and(admits_one),
        refuses_outsiders: configuration.is_some_and(|c| c.refuses_outsiders),
    }
}

// Which state of the host a cell needs, and whether tenants without a mechanism can run in the
// present one.

impl HostSession {
    /// The state of the host that a cell or trial needs.
    fn wanted(&self, key: &MechanismKey<'_>) -> Option<HostStage> {
        let own = self.handles.setup.host.stage_of(key.mechanism, key.variant);
        own.or_else(|| self.shared.get(key.group).cloned())
    }

    /// Whether the host must be switched for this cell or trial.
    pub fn would_switch(&self, key: &MechanismKey<'_>) -> bool {
        self.stage != self.wanted(key)
    }

    /// Whether the contexts of its tenants are closed now.
    pub fn would_open(&self, key: &MechanismKey<'_>) -> bool {
        self.tenant_sets.get(self.set_of(key)).is_none_or(|tenants| !tenants.is_open())
    }

    fn is_native(&self, key: &MechanismKey<'_>) -> bool {
        self.handles.setup.host.stage_of(key.mechanism, key.variant).is_none()
    }

    /// Key of its tenants.
    fn set_of<'k>(&self, key: &MechanismKey<'k>) -> &'k str {
        let in_one_process =
            mechanism::find(key.mechanism).is_some_and(|m| !m.entry().inside(1).is_empty());
        if self.is_native(key) && !in_one_process { PLAIN } else { key.variant }
    }

    /// The tenants without a mechanism, if they can run in the present state of the host.
    pub async fn native(&mut self) -> Result<Option<&mut TenantSet>, RunError> {
        let allowed = match &self.stage {
            Some(stage) => stage.allows_native || self.refused.contains_key(stage),
            None => self.handles.setup.host.facts.mig != Some(true),
        };
        if !allowed {
            return Ok(None);
        }
        self.start(PLAIN, "").await?;
        self.of(PLAIN).map(Some)
    }
}

// The guard of the host's state, called on separate threads: set-up and restoring use the driver
// and the vendor's commands, which may hang.

/// Longest set-up and restoring of a mechanism: MIG instances take seconds each, and every command
/// has a limit of its own.
const ENTER: Duration = Duration::from_secs(180);
const RESTORE: Duration = Duration::from_secs(180);
/// Longest wait for an abandoned set-up to return. The vendor's commands return at once; a driver
/// call that hangs does not.
const RETURN: Duration = Duration::from_secs(3);

/// The guard; absent while a hanging call owns it.
pub struct HostGuard {
    guard: Option<Guard>,
    handles: RunHandles,
}

type Answered<T> = (Guard, T);

impl HostGuard {
    /// A guard without changes.
    pub fn new(handles: &RunHandles) -> Self {
        let setup = &handles.setup;
        let host = Arc::new(RealHost::new(Arc::clone(&setup.nvml)));
        Self { guard: Some(Guard::new(host, setup.host.journal.clone())), handles: handles.clone() }
    }

    /// Has a mechanism set up the host. The user's stop and the limit end the wait; if the
    /// abandoned set-up then returns, the guard is kept, so that the host can be restored.
    pub async fn enter(
        &mut self,
        mechanism: &'static dyn Mechanism,
    ) -> Result<Result<InForce, HostError>, RunError> {
        let mut guard = self.take()?;
        let setup = Arc::clone(&self.handles.setup);
        let doing = format!("setting up {}", mechanism.name());
        let mut call = BlockingCall::start(doing, move || {
            let entered = mechanism.enter(&setup.host.context(), &mut guard);
            (guard, entered)
        })?;
        let waits = self.handles.waits.clone();
        let ended = tokio::select! {
            answer = call.within(ENTER) => answer.map_err(RunError::from),
            () = waits.stopped() => Err(RunError::Interrupted),
        };
        match ended {
            Ok(answered) => Ok(self.put_back(answered)),
            Err(error) => {
                call.abandon();
                if let Ok(answered) = call.within(RETURN).await {
                    // The run ends with the error, and the host is restored.
                    let _ = self.put_back(answered);
                }
                Err(error)
            }
        }
    }

    /// Restores the host and checks it. A stop by the user does not end this wait.
    pub async fn restore(&mut self) -> Result<(), RunError> {
        let mut guard = self.take()?;
        let mut call = BlockingCall::start("restoring the host", move || {
            let restored = guard.restore();
            (guard, restored)
        })?;
        match call.within(RESTORE).await {
            Ok(answered) => Ok(self.put_back(answered)?),
            Err(error) => Err(not_restored(&error.to_string())),
        }
    }

    fn put_back<T>(&mut self, (guard, answer): Answered<T>) -> T {
        self.guard = Some(guard);
        answer
    }

    fn take(&mut self) -> Result<Guard, RunError> {
        let hangs = || not_restored("a call that changes the host hangs");
        self.guard.take().ok_or_else(hangs)
    }
}

/// The journal has the changes that remain.
fn not_restored(problem: &str) -> RunError {
    HostError::NotRestored(problem.to_owned()).into()
}
