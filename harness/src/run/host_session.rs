//! What stands between cells: the state that the host is in, and the tenants that live in it.
//!
//! Cells come in an order in which the host is switched seldom. On a switch every tenant ends,
//! everything that was changed is restored and checked, and the next state is entered. Within one
//! state there is a tenants for each mechanism, and only one of them has contexts open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpubench_record::{Cell, Outcome, RunEvent};

use super::tenant_set::{TenantConfig, TenantSet};
use super::{Run, RunError};
use crate::mechanism::host::{Guard, HostError, JournalPlace, RealHost};
use crate::mechanism::{self, HostFacts, HostStage, InForce, Mechanism, MechanismContext};
use crate::profile::Profile;

/// What mechanisms need of a run.
pub struct HostSetup {
    /// What the user wants.
    profile: Profile,
    /// The same for forms that nobody asked for and that run for the others' sake.
    unprotected: Profile,
    /// What the host is.
    pub facts: HostFacts,
    /// Where changes are written down.
    pub journal: JournalPlace,
}

impl HostSetup {
    /// What the user wants, of which host, and where changes of it are written down.
    #[must_use]
    pub fn new(profile: Profile, facts: HostFacts, journal: JournalPlace) -> Self {
        Self {
            unprotected: mechanism::unprotected_profile(&profile),
            profile,
            facts,
            journal,
        }
    }

    /// As mechanisms are asked.
    pub const fn asked(&self) -> MechanismContext<'_> {
        MechanismContext {
            profile: &self.profile,
            facts: &self.facts,
        }
    }

    /// As the mechanism of cells of that variant is asked: one that the user's options do not make
    /// is an unprotected form.
    pub fn asked_of(&self, mechanism: &str, variant: &str) -> MechanismContext<'_> {
        let asked = self.asked();
        let is_own =
            mechanism::find(mechanism).is_none_or(|m| m.configuration(&asked).variant == variant);
        let profile = if is_own {
            &self.profile
        } else {
            &self.unprotected
        };
        MechanismContext { profile, ..asked }
    }

    /// The state of the host in which cells of that variant run.
    fn stage_of(&self, mechanism: &str, variant: &str) -> Option<HostStage> {
        let cx = self.asked_of(mechanism, variant);
        mechanism::find(mechanism)?.configuration(&cx).stage
    }
}

/// The host and the tenants on it.
pub struct HostSession {
    stage: Option<HostStage>,
    set_up: InForce,
    guard: Guard,
    tenant_sets: BTreeMap<String, TenantSet>,
    /// For each group, the state that leaves tenants without any mechanism alone, if it has one.
    shared: BTreeMap<String, HostStage>,
    /// States that could not be entered, with the reason.
    refused: BTreeMap<HostStage, String>,
}

/// The tenants of a cell, or why there are none.
pub type Ready<'a> = Result<&'a mut TenantSet, String>;

/// Key of the tenants that have the device as it is.
const PLAIN: &str = "";

impl HostSession {
    /// Nothing is set up yet.
    pub fn new(run: &Run) -> Self {
        let setup = &run.setup;
        let host = Arc::new(RealHost::new(Arc::clone(&setup.nvml)));
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
            guard: Guard::new(host, setup.host.journal.clone()),
            tenant_sets: BTreeMap::new(),
            shared,
            refused: BTreeMap::new(),
        }
    }

    /// The tenants of a cell, with the host as their mechanism needs it.
    pub async fn ready(&mut self, run: &mut Run, cell: &Cell) -> Result<Ready<'_>, RunError> {
        let own = run.setup.host.stage_of(&cell.mechanism, &cell.variant);
        let native = own.is_none();
        let wanted = own.or_else(|| self.shared.get(&cell.group).cloned());
        if self.stage != wanted {
            self.switch(run, wanted.clone(), &cell.group).await?;
        }
        if let Some(stage) = &wanted
            && let Some(reason) = self.refused.get(stage)
        {
            // What has the device as it is can run without the state that nobody could enter.
            if !native {
                return Ok(Err(reason.clone()));
            }
        }
        let together =
            mechanism::find(&cell.mechanism).is_some_and(|m| !m.entry().inside(1).is_empty());
        let key = if native && !together {
            PLAIN
        } else {
            cell.variant.as_str()
        };
        match (self.start(run, key, &cell.mechanism).await, wanted) {
            (Ok(()), _) => {}
            // What its mechanism does to a tenant's process concerns nobody else's.
            (Err(RunError::Spawn(error)), Some(stage)) if !native => {
                let outcome = Outcome::failed(format!("no tenant could be started: {error}"));
                self.refuse(run, stage, &outcome, None)?;
                return Ok(Err(outcome.reason.unwrap_or_default()));
            }
            (Err(error), _) => return Err(error),
        }
        self.of(key).map(Ok)
    }

    /// The tenants that have the device as it is, before any cell.
    async fn plain(&mut self, run: &mut Run) -> Result<&mut TenantSet, RunError> {
        self.start(run, PLAIN, "").await?;
        self.of(PLAIN)
    }

    /// The tenants among whom workloads are calibrated, and the victim's share of what they see:
    /// those that have the device as it is. Where MIG has divided it nobody has it, and those of
    /// the first mechanism that can be set up serve, in their instances. None if there are none.
    pub async fn calibrating(
        &mut self,
        run: &mut Run,
    ) -> Result<Option<(&mut TenantSet, f64)>, RunError> {
        let share = run.setup.plan.share;
        if run.setup.host.facts.mig != Some(true) {
            return Ok(Some((self.plain(run).await?, share)));
        }
        let mut tried = BTreeSet::new();
        let mut cells = run.setup.plan.cells.clone();
        cells.retain(|cell| tried.insert(cell.variant.clone()));
        let mut found = None;
        for cell in cells {
            if self.ready(run, &cell).await?.is_ok() {
                found = Some(cell);
                break;
            }
        }
        let Some(cell) = found else {
            return Ok(None);
        };
        let instance = self.set_up.instances.first();
        let share = instance.map_or(share, |instance| {
            mechanism::share_of_instance(&run.setup.host.facts, instance, share)
        });
        run.events.append(&RunEvent::Warning {
            text: format!(
                "MIG mode is on: workloads are calibrated under {}, the victim for {share:.3} of \
                 what it sees there",
                cell.variant
            ),
        })?;
        let tenants = self.ready(run, &cell).await?;
        Ok(tenants.ok().map(|tenants| (tenants, share)))
    }

    /// A tenants that was started.
    fn of(&mut self, key: &str) -> Result<&mut TenantSet, RunError> {
        let missing = || RunError::Clock(format!("tenants {key:?} were never started"));
        self.tenant_sets.get_mut(key).ok_or_else(missing)
    }

    /// Starts a tenants, the only one with open contexts.
    async fn start(&mut self, run: &mut Run, key: &str, mechanism: &str) -> Result<(), RunError> {
        for (other, tenants) in &mut self.tenant_sets {
            if other != key {
                tenants.close(run).await?;
            }
        }
        let tenants = self.tenant_sets.entry(key.to_owned()).or_insert_with(|| {
            let mechanism = mechanism::find(mechanism).filter(|_| key != PLAIN);
            TenantSet::new(config(run, mechanism, &self.set_up))
        });
        tenants.ensure(run).await
    }

    async fn switch(
        &mut self,
        run: &mut Run,
        wanted: Option<HostStage>,
        group: &str,
    ) -> Result<(), RunError> {
        self.leave(run).await?;
        let Some(stage) = wanted else {
            return Ok(());
        };
        self.stage = Some(stage.clone());
        if self.refused.contains_key(&stage) {
            return Ok(());
        }
        let mechanism = run.setup.plan.cells.iter().find_map(|cell| {
            let own = run.setup.host.stage_of(&cell.mechanism, &cell.variant);
            let here = own.as_ref() == Some(&stage) && cell.group == group;
            mechanism::find(&cell.mechanism).filter(|_| here)
        });
        let Some(mechanism) = mechanism else {
            return Ok(());
        };
        match mechanism.enter(&run.setup.host.asked(), &mut self.guard) {
            Ok(set_up) => self.set_up = set_up,
            // A journal that cannot be kept concerns every mechanism and the user.
            Err(error @ HostError::Journal(_)) => return Err(error.into()),
            Err(error) => {
                self.guard.restore()?;
                let remedy = match &error {
                    HostError::Refused(refused) => refused.remedy,
                    HostError::Journal(_) | HostError::NotRestored(_) => None,
                };
                let reason = format!("it could not be set up: {error}");
                let outcome = match remedy {
                    // The host says that it cannot be, and what would make it possible.
                    Some(_) => Outcome::waived(reason),
                    None => Outcome::failed(reason),
                };
                self.refuse(run, stage, &outcome, remedy)?;
            }
        }
        Ok(())
    }

    /// Remembers that a state cannot be entered, and writes it down for every mechanism in it.
    fn refuse(
        &mut self,
        run: &mut Run,
        stage: HostStage,
        outcome: &Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        let reason = outcome.reason.clone().unwrap_or_default();
        let mut variants = BTreeSet::new();
        for planned in run.setup.plan.mechanisms.clone() {
            let own = run.setup.host.stage_of(&planned.name, &planned.variant);
            if own.as_ref() == Some(&stage) && variants.insert(planned.variant.clone()) {
                run.ended_as(&planned.name, &planned.variant, outcome, remedy)?;
            }
        }
        run.events.append(&RunEvent::Warning {
            text: format!("{}: {reason}", stage.key),
        })?;
        self.refused.insert(stage, reason);
        Ok(())
    }

    /// Ends every tenant, restores the host and checks it.
    pub async fn leave(&mut self, run: &mut Run) -> Result<(), RunError> {
        let tenant_sets = std::mem::take(&mut self.tenant_sets);
        for (_, mut tenants) in tenant_sets {
            tenants.dismiss(run).await?;
        }
        self.stage = None;
        self.set_up = InForce::default();
        Ok(self.guard.restore()?)
    }
}

/// Under what a new tenants is.
fn config(run: &Run, mechanism: Option<&'static dyn Mechanism>, set_up: &InForce) -> TenantConfig {
    let asked = run.setup.host.asked();
    let slots = run.setup.plan.tenants.max(1) as usize;
    let environment = |slot| {
        mechanism.map_or_else(Default::default, |mechanism| {
            mechanism.tenant_env(&asked, set_up, slot)
        })
    };
    let configuration = mechanism.map(|mechanism| mechanism.configuration(&asked));
    let admits_one = |m: &dyn Mechanism| m.entry().properties().admits_one_tenant();
    TenantConfig {
        mechanism,
        set_up: set_up.clone(),
        environments: (0..slots).map(environment).collect(),
        checks: configuration
            .as_ref()
            .map_or_else(Default::default, |c| c.checks),
        inside: mechanism.map_or_else(Vec::new, |m| m.entry().inside(slots)),
        admits_one_tenant: mechanism.is_some_and(admits_one),
        refuses_outsiders: configuration.is_some_and(|c| c.refuses_outsiders),
    }
}
